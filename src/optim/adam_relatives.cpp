// Adamax, NAdam, RAdam and Lamb.
#include "optim/checks.h"
#include "optim/one_group.h"
#include "pippin/optim_adaptive.h"

namespace pippin::optim {
namespace {

template <class Options>
ParamGroup defaults(const Options& o) {
    return {.params = {}, .lr = o.lr, .weight_decay = o.weight_decay, .momentum = o.beta1};
}

double power(double base, std::int64_t exponent) {
    return std::pow(base, static_cast<double>(exponent));
}

// Both moving averages; `rate` is 1 - beta1.
void move_averages(Tensor& mean, Tensor& square_mean, const Tensor& g, const Tensor& rate,
                   double beta2) {
    mean.assign_(mean + (g - mean) * rate);
    square_mean.assign_(square_mean * beta2 + g * g * (1 - beta2));
}

}  // namespace

// --- Adamax ---

Adamax::Adamax(std::vector<Tensor> params, AdamaxOptions o)
    : Adamax(one_group(std::move(params)), o) {}

Adamax::Adamax(std::vector<ParamGroup> groups, AdamaxOptions o)
    : Optimizer(std::move(groups), defaults(o)), o_(o) {
    check_moments("Adamax", this->groups(), o.beta2, o.eps);
}

std::vector<double> Adamax::scalars(const ParamGroup& group, std::int64_t step) const {
    return {group.lr / (1 - power(group.momentum, step)), 1 - group.momentum};
}

std::vector<std::string> Adamax::state_names(const ParamGroup&) const {
    return {"exp_avg", "exp_inf"};
}

void Adamax::update(Tensor& param, const Tensor& grad, std::span<Tensor> state,
                    const ParamGroup& group, std::span<const Tensor> scalars) const {
    const Tensor g = with_decay(grad, param, group);
    Tensor &mean = state[0], &largest = state[1];
    mean.assign_(mean + (g - mean) * scalars[1]);
    largest.assign_(maximum(largest * o_.beta2, abs(g) + o_.eps));
    param.assign_(param - mean * scalars[0] / largest);
}

// --- NAdam ---

NAdam::NAdam(std::vector<Tensor> params, NAdamOptions o) : NAdam(one_group(std::move(params)), o) {}

NAdam::NAdam(std::vector<ParamGroup> groups, NAdamOptions o)
    : Optimizer(std::move(groups), defaults(o)), o_(o) {
    check_moments("NAdam", this->groups(), o.beta2, o.eps);
    check_at_least_0("NAdam", "momentum_decay", o.momentum_decay);
}

std::vector<double> NAdam::scalars(const ParamGroup& group, std::int64_t step) const {
    const auto momentum_at = [&](std::int64_t t) {
        return group.momentum *
               (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * o_.momentum_decay));
    };
    // The product of all momenta so far; each is below 1, so that it ends in 0 within some thousand
    // steps and costs no more after them.
    double product = 1;
    for (std::int64_t t = 1; t <= step && product > 1e-300; ++t)
        product *= momentum_at(t);
    const double mu = momentum_at(step), next = momentum_at(step + 1);
    return {group.lr * (1 - mu) / (1 - product), group.lr * next / (1 - product * next),
            1 - group.momentum, 1 / std::sqrt(1 - power(o_.beta2, step)),
            1 - group.lr * group.weight_decay};
}

std::vector<std::string> NAdam::state_names(const ParamGroup&) const {
    return {"exp_avg", "exp_avg_sq"};
}

void NAdam::update(Tensor& param, const Tensor& grad, std::span<Tensor> state,
                   const ParamGroup& group, std::span<const Tensor> scalars) const {
    const bool decouple = o_.decoupled_weight_decay && group.weight_decay != 0;
    const Tensor g = decouple ? grad : with_decay(grad, param, group);
    const Tensor p = decouple ? param * scalars[4] : param;
    move_averages(state[0], state[1], g, scalars[2], o_.beta2);
    const Tensor denominator = sqrt(state[1]) * scalars[3] + o_.eps;
    param.assign_(p - (g * scalars[0] + state[0] * scalars[1]) / denominator);
}

// --- RAdam ---

RAdam::RAdam(std::vector<Tensor> params, RAdamOptions o) : RAdam(one_group(std::move(params)), o) {}

RAdam::RAdam(std::vector<ParamGroup> groups, RAdamOptions o)
    : Optimizer(std::move(groups), defaults(o)), o_(o) {
    check_moments("RAdam", this->groups(), o.beta2, o.eps);
}

std::vector<double> RAdam::scalars(const ParamGroup& group, std::int64_t step) const {
    const double correction1 = 1 - power(group.momentum, step),
                 correction2 = 1 - power(o_.beta2, step);
    const double longest = 2 / (1 - o_.beta2) - 1;
    const double length =
        longest - 2 * static_cast<double>(step) * power(o_.beta2, step) / correction2;
    const double rate = group.lr / correction1;
    // Both kinds of step are one formula, so that they share a plan: one factor is 0.
    double plain = rate, adaptive = 0;
    if (length > 5) {
        const double rectification = std::sqrt((length - 4) * (length - 2) * longest /
                                               ((longest - 4) * (longest - 2) * length));
        plain = 0, adaptive = rate * rectification * std::sqrt(correction2);
    }
    return {plain, adaptive, 1 - group.momentum, 1 - group.lr * group.weight_decay};
}

std::vector<std::string> RAdam::state_names(const ParamGroup&) const {
    return {"exp_avg", "exp_avg_sq"};
}

void RAdam::update(Tensor& param, const Tensor& grad, std::span<Tensor> state,
                   const ParamGroup& group, std::span<const Tensor> scalars) const {
    const bool decouple = o_.decoupled_weight_decay && group.weight_decay != 0;
    const Tensor g = decouple ? grad : with_decay(grad, param, group);
    const Tensor p = decouple ? param * scalars[3] : param;
    move_averages(state[0], state[1], g, scalars[2], o_.beta2);
    const Tensor factor = scalars[1] / (sqrt(state[1]) + o_.eps) + scalars[0];
    param.assign_(p - state[0] * factor);
}

// --- Lamb ---

Lamb::Lamb(std::vector<Tensor> params, LambOptions o) : Lamb(one_group(std::move(params)), o) {}

Lamb::Lamb(std::vector<ParamGroup> groups, LambOptions o)
    : Optimizer(std::move(groups), defaults(o)), o_(o) {
    check_moments("Lamb", this->groups(), o.beta2, o.eps);
}

std::vector<double> Lamb::scalars(const ParamGroup& group, std::int64_t step) const {
    return {group.lr, 1 / (1 - power(group.momentum, step)), 1 - group.momentum,
            1 / std::sqrt(1 - power(o_.beta2, step))};
}

std::vector<std::string> Lamb::state_names(const ParamGroup&) const {
    return {"exp_avg", "exp_avg_sq"};
}

void Lamb::update(Tensor& param, const Tensor& grad, std::span<Tensor> state,
                  const ParamGroup& group, std::span<const Tensor> scalars) const {
    move_averages(state[0], state[1], grad, scalars[2], o_.beta2);
    Tensor direction = state[0] * scalars[1] / (sqrt(state[1]) * scalars[3] + o_.eps);
    if (group.weight_decay != 0) direction = direction + param * group.weight_decay;
    const Tensor own = norm(param), length = norm(direction);
    // A parameter of zeros, or one without a direction, moves by the plain learning rate.
    const Tensor one = ones_like(own);
    const Tensor trust = where(logical_and(own > 0, length > 0), own / length, one);
    param.assign_(param - direction * (trust * scalars[0]));
}

}  // namespace pippin::optim
