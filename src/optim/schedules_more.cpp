// The schedules of optim_schedules.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "pippin/optim_schedules.h"

namespace pippin::optim {
namespace {

void check_positive(const char* schedule, const char* name, std::int64_t value) {
    if (value < 1)
        throw ValueError(fmt::format("{}: {} must be positive, got {}", schedule, name, value));
}

void check_ascending(const char* schedule, const std::vector<std::int64_t>& milestones) {
    if (!std::is_sorted(milestones.begin(), milestones.end()))
        throw ValueError(fmt::format("{}: the milestones must ascend", schedule));
}

// How many milestones are reached.
std::int64_t reached(const std::vector<std::int64_t>& milestones, std::int64_t step) {
    return std::upper_bound(milestones.begin(), milestones.end(), step) - milestones.begin();
}

// As a share of `total`, from 0 to 1.
double progress(std::int64_t step, std::int64_t total) {
    return static_cast<double>(std::min(step, total)) / static_cast<double>(total);
}

}  // namespace

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma)
    : Scheduler(optimizer), milestones_(std::move(milestones)), gamma_(gamma) {
    check_ascending("MultiStepLR", milestones_);
    apply();
}

double MultiStepLR::lr(const ParamGroup& group, std::int64_t step) const {
    return group.initial_lr * std::pow(gamma_, static_cast<double>(reached(milestones_, step)));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma)
    : Scheduler(optimizer), gamma_(gamma) {
    if (!(gamma >= 0))
        throw ValueError(fmt::format("ExponentialLR: gamma must be >= 0, got {}", gamma));
    apply();
}

double ExponentialLR::lr(const ParamGroup& group, std::int64_t step) const {
    return group.initial_lr * std::pow(gamma_, static_cast<double>(step));
}

ConstantLR::ConstantLR(Optimizer& optimizer, double factor, std::int64_t total_iters)
    : Scheduler(optimizer), factor_(factor), total_iters_(total_iters) {
    if (!(factor >= 0 && factor <= 1))
        throw ValueError(fmt::format("ConstantLR: factor must be from 0 to 1, got {}", factor));
    if (total_iters < 0)
        throw ValueError(fmt::format("ConstantLR: total_iters must be >= 0, got {}", total_iters));
    apply();
}

double ConstantLR::lr(const ParamGroup& group, std::int64_t step) const {
    return group.initial_lr * (step < total_iters_ ? factor_ : 1);
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor,
                   std::int64_t total_iters)
    : Scheduler(optimizer), start_(start_factor), end_(end_factor), total_iters_(total_iters) {
    if (!(start_factor > 0 && start_factor <= 1))
        throw ValueError(fmt::format("LinearLR: start_factor must be above 0 and at most 1, got {}",
                                     start_factor));
    if (!(end_factor >= 0 && end_factor <= 1))
        throw ValueError(
            fmt::format("LinearLR: end_factor must be from 0 to 1, got {}", end_factor));
    check_positive("LinearLR", "total_iters", total_iters);
    apply();
}

double LinearLR::lr(const ParamGroup& group, std::int64_t step) const {
    return group.initial_lr * (start_ + (end_ - start_) * progress(step, total_iters_));
}

LinearWarmupLR::LinearWarmupLR(Optimizer& optimizer, std::int64_t warmup_steps,
                               std::int64_t total_steps)
    : Scheduler(optimizer), warmup_steps_(warmup_steps), total_steps_(total_steps) {
    if (warmup_steps < 0 || total_steps < warmup_steps)
        throw ValueError(
            fmt::format("LinearWarmupLR: expected 0 <= warmup_steps <= total_steps, got {} and {}",
                        warmup_steps, total_steps));
    apply();
}

double LinearWarmupLR::lr(const ParamGroup& group, std::int64_t step) const {
    if (step < warmup_steps_) return group.initial_lr * progress(step, warmup_steps_);
    const auto left = static_cast<double>(std::max<std::int64_t>(0, total_steps_ - step));
    const auto length =
        static_cast<double>(std::max<std::int64_t>(1, total_steps_ - warmup_steps_));
    return group.initial_lr * left / length;
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, std::int64_t total_iters, double power)
    : Scheduler(optimizer), total_iters_(total_iters), power_(power) {
    check_positive("PolynomialLR", "total_iters", total_iters);
    if (!(power >= 0))
        throw ValueError(fmt::format("PolynomialLR: power must be >= 0, got {}", power));
    apply();
}

double PolynomialLR::lr(const ParamGroup& group, std::int64_t step) const {
    return group.initial_lr * std::pow(1 - progress(step, total_iters_), power_);
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer, std::int64_t t_0,
                                                         std::int64_t t_mult, double eta_min)
    : Scheduler(optimizer), t_0_(t_0), t_mult_(t_mult), eta_min_(eta_min) {
    check_positive("CosineAnnealingWarmRestarts", "t_0", t_0);
    check_positive("CosineAnnealingWarmRestarts", "t_mult", t_mult);
    apply();
}

double CosineAnnealingWarmRestarts::lr(const ParamGroup& group, std::int64_t step) const {
    std::int64_t length = t_0_, at = step;
    if (t_mult_ == 1) at %= t_0_;
    while (at >= length) {
        at -= length;
        length *= t_mult_;
    }
    return eta_min_ + (group.initial_lr - eta_min_) *
                          (1 + std::cos(std::numbers::pi * progress(at, length))) / 2;
}

LambdaLR::LambdaLR(Optimizer& optimizer, Function f)
    : LambdaLR(optimizer, std::vector<Function>(optimizer.groups().size(), f)) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Function> by_group)
    : Scheduler(optimizer), functions_(std::move(by_group)) {
    if (functions_.size() != optimizer.groups().size())
        throw ValueError(fmt::format("LambdaLR: got {} functions for {} parameter groups",
                                     functions_.size(), optimizer.groups().size()));
    for (const Function& f : functions_)
        if (!f) throw ValueError("LambdaLR: a function is empty");
    apply();
}

double LambdaLR::lr(const ParamGroup& group, std::int64_t step) const {
    const auto index = static_cast<std::size_t>(&group - optimizer_->groups().data());
    return group.initial_lr * functions_.at(index)(step);
}

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<Scheduler>> schedulers,
                           std::vector<std::int64_t> milestones)
    : Scheduler(optimizer), schedulers_(std::move(schedulers)), milestones_(std::move(milestones)) {
    if (schedulers_.empty() || milestones_.size() + 1 != schedulers_.size())
        throw ValueError(
            fmt::format("SequentialLR: expected one milestone less than schedules, got {} and {}",
                        milestones_.size(), schedulers_.size()));
    check_ascending("SequentialLR", milestones_);
    for (const auto& s : schedulers_)
        if (!s || s->optimizer_ != &optimizer)
            throw ValueError("SequentialLR: every schedule must be of this optimizer");
    apply();
}

std::size_t SequentialLR::active(std::int64_t step) const {
    return static_cast<std::size_t>(reached(milestones_, step));
}

double SequentialLR::lr(const ParamGroup& group, std::int64_t step) const {
    const std::size_t i = active(step);
    return schedulers_[i]->lr(group, i ? step - milestones_[i - 1] : step);
}

double SequentialLR::momentum(const ParamGroup& group, std::int64_t step) const {
    const std::size_t i = active(step);
    return schedulers_[i]->momentum(group, i ? step - milestones_[i - 1] : step);
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions o)
    : optimizer_(&optimizer), o_(o) {
    const auto fail = [](const std::string& what) {
        throw ValueError("ReduceLROnPlateau: " + what);
    };
    if (!(o.factor >= 0 && o.factor < 1))
        fail(fmt::format("factor must be from 0 to below 1, got {}", o.factor));
    if (o.patience < 0 || o.cooldown < 0) fail("patience and cooldown cannot be negative");
    if (!(o.min_lr >= 0)) fail(fmt::format("min_lr must be >= 0, got {}", o.min_lr));
    constexpr double inf = std::numeric_limits<double>::infinity();
    state_.best = o.maximize ? -inf : inf;
}

bool ReduceLROnPlateau::improves(double metric) const {
    const double sign = o_.maximize ? 1 : -1;
    const double bound = o_.threshold_absolute ? state_.best + sign * o_.threshold
                                               : state_.best * (1 + sign * o_.threshold);
    return o_.maximize ? metric > bound : metric < bound;
}

void ReduceLROnPlateau::step(double metric) {
    if (improves(metric))
        state_.best = metric, state_.bad_steps = 0;
    else
        ++state_.bad_steps;
    if (state_.cooldown_left > 0) {
        --state_.cooldown_left;
        state_.bad_steps = 0;
    }
    if (state_.bad_steps <= o_.patience) return;
    for (ParamGroup& group : optimizer_->groups()) {
        const double next = std::max(group.lr * o_.factor, o_.min_lr);
        if (group.lr - next > o_.eps) group.lr = next;
    }
    state_.cooldown_left = o_.cooldown;
    state_.bad_steps = 0;
}

}  // namespace pippin::optim
