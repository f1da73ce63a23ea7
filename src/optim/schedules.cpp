// Learning-rate schedules.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "pippin/optim.h"

namespace pippin::optim {

Scheduler::Scheduler(Optimizer& optimizer) : optimizer_(&optimizer) {
    for (ParamGroup& group : optimizer.groups())
        if (std::isnan(group.initial_lr)) group.initial_lr = group.lr;
}

void Scheduler::apply() {
    // All rates first: a schedule that raises changes nothing.
    std::vector<std::pair<double, double>> next;
    for (const ParamGroup& group : optimizer_->groups())
        next.emplace_back(lr(group, steps_), momentum(group, steps_));
    for (std::size_t i = 0; i < next.size(); ++i) {
        optimizer_->groups()[i].lr = next[i].first;
        optimizer_->groups()[i].momentum = next[i].second;
    }
}

void Scheduler::step() {
    if (optimizer_->last_step_skipped()) return;
    // A stride ends at the schedule's end; a step beyond it is the caller's mistake.
    const std::int64_t left = last_step() - steps_;
    load(steps_ + (stride_ > 1 ? std::max<std::int64_t>(std::min(stride_, left), 0) : 1));
}

void Scheduler::set_stride(std::int64_t steps) {
    if (steps < 1)
        throw ValueError(fmt::format("Scheduler.set_stride: expected at least 1, got {}", steps));
    stride_ = steps;
}

void Scheduler::load(std::int64_t steps) {
    if (steps < 0)
        throw ValueError(fmt::format("Scheduler.load: steps must be >= 0, got {}", steps));
    const std::int64_t before = std::exchange(steps_, steps);
    try {
        apply();
    } catch (...) {
        steps_ = before;
        throw;
    }
}

double Scheduler::last_lr() const { return optimizer_->groups().front().lr; }

StepLR::StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma)
    : Scheduler(optimizer), step_size_(step_size), gamma_(gamma) {
    if (step_size < 1)
        throw ValueError(fmt::format("StepLR: step_size must be positive, got {}", step_size));
    apply();
}

double StepLR::lr(const ParamGroup& group, std::int64_t step) const {
    return group.initial_lr * std::pow(gamma_, static_cast<double>(step / step_size_));
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, std::int64_t t_max, double eta_min)
    : Scheduler(optimizer), t_max_(t_max), eta_min_(eta_min) {
    if (t_max < 1)
        throw ValueError(fmt::format("CosineAnnealingLR: t_max must be positive, got {}", t_max));
    apply();
}

double CosineAnnealingLR::lr(const ParamGroup& group, std::int64_t step) const {
    const double turn = std::numbers::pi * static_cast<double>(step) / static_cast<double>(t_max_);
    return eta_min_ + (group.initial_lr - eta_min_) * (1 + std::cos(turn)) / 2;
}

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleOptions o) : Scheduler(optimizer), o_(o) {
    const auto fail = [](const std::string& what) { throw ValueError("OneCycleLR: " + what); };
    if (o.total_steps < 1) fail(fmt::format("total_steps must be positive, got {}", o.total_steps));
    if (!(o.pct_start >= 0 && o.pct_start <= 1))
        fail(fmt::format("pct_start must be from 0 to 1, got {}", o.pct_start));
    if (!(o.max_lr >= 0)) fail(fmt::format("max_lr must be >= 0, got {}", o.max_lr));
    if (!(o.div_factor > 0 && o.final_div_factor > 0))
        fail("div_factor and final_div_factor must be positive");
    for (ParamGroup& group : optimizer.groups())
        group.initial_lr = o.max_lr / o.div_factor;
    apply();
}

double OneCycleLR::anneal(std::int64_t step, double start, double top, double end) const {
    // Steps may be fractions here, as in PyTorch: the top is at pct_start * total - 1.
    const double at = static_cast<double>(step), total = static_cast<double>(o_.total_steps);
    const double summit = o_.pct_start * total - 1, last = total - 1;
    const bool rising = at <= summit;
    const double from = rising ? start : top, to = rising ? top : end;
    const double begin = rising ? 0 : summit, length = (rising ? summit : last) - begin;
    const double part = length != 0 ? (at - begin) / length : 1;
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
}

double OneCycleLR::lr(const ParamGroup& group, std::int64_t step) const {
    if (step > o_.total_steps)
        throw ValueError(
            fmt::format("OneCycleLR: tried to step {} times; the schedule has total_steps {}", step,
                        o_.total_steps));
    return anneal(step, group.initial_lr, o_.max_lr, group.initial_lr / o_.final_div_factor);
}

double OneCycleLR::momentum(const ParamGroup& group, std::int64_t step) const {
    return o_.cycle_momentum ? anneal(step, o_.max_momentum, o_.base_momentum, o_.max_momentum)
                             : group.momentum;
}

}  // namespace pippin::optim
