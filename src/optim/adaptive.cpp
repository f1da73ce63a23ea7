// RMSprop, Adagrad and Adadelta.
#include "pippin/optim_adaptive.h"

#include "optim/checks.h"
#include "optim/one_group.h"
#include "pippin/ops.h"

namespace pippin::optim {

// --- RMSprop ---

RMSprop::RMSprop(std::vector<Tensor> params, RMSpropOptions o)
    : RMSprop(one_group(std::move(params)), o) {}

RMSprop::RMSprop(std::vector<ParamGroup> groups, RMSpropOptions o)
    : Optimizer(std::move(groups),
                {.params = {}, .lr = o.lr, .weight_decay = o.weight_decay, .momentum = o.momentum}),
      o_(o) {
    check_at_least_0("RMSprop", "alpha", o.alpha);
    check_at_least_0("RMSprop", "eps", o.eps);
}

std::vector<double> RMSprop::scalars(const ParamGroup& group, std::int64_t) const {
    return {group.lr, group.momentum};
}

std::vector<std::string> RMSprop::state_names(const ParamGroup& group) const {
    std::vector<std::string> names{"square_avg"};
    if (group.momentum > 0) names.emplace_back("momentum_buffer");
    if (o_.centered) names.emplace_back("grad_avg");
    return names;
}

void RMSprop::update(Tensor& param, const Tensor& grad, std::span<Tensor> state,
                     const ParamGroup& group, std::span<const Tensor> scalars) const {
    const Tensor g = with_decay(grad, param, group);
    Tensor& square_mean = state[0];
    square_mean.assign_(square_mean * o_.alpha + g * g * (1 - o_.alpha));
    Tensor spread = square_mean;
    if (o_.centered) {
        Tensor& mean = state.back();
        mean.assign_(mean + (g - mean) * (1 - o_.alpha));
        spread = square_mean - mean * mean;
    }
    Tensor direction = g / (sqrt(spread) + o_.eps);
    if (group.momentum > 0) {
        state[1].assign_(state[1] * scalars[1] + direction);
        direction = state[1];
    }
    param.assign_(param - direction * scalars[0]);
}

// --- Adagrad ---

Adagrad::Adagrad(std::vector<Tensor> params, AdagradOptions o)
    : Adagrad(one_group(std::move(params)), o) {}

Adagrad::Adagrad(std::vector<ParamGroup> groups, AdagradOptions o)
    : Optimizer(std::move(groups),
                {.params = {}, .lr = o.lr, .weight_decay = o.weight_decay, .momentum = 0}),
      o_(o) {
    check_at_least_0("Adagrad", "lr_decay", o.lr_decay);
    check_at_least_0("Adagrad", "initial_accumulator_value", o.initial_accumulator_value);
    check_at_least_0("Adagrad", "eps", o.eps);
}

std::vector<double> Adagrad::scalars(const ParamGroup& group, std::int64_t step) const {
    return {group.lr / (1 + static_cast<double>(step - 1) * o_.lr_decay)};
}

std::vector<std::string> Adagrad::state_names(const ParamGroup&) const { return {"sum"}; }

void Adagrad::update(Tensor& param, const Tensor& grad, std::span<Tensor> state,
                     const ParamGroup& group, std::span<const Tensor> scalars) const {
    const Tensor g = with_decay(grad, param, group);
    state[0].assign_(state[0] + g * g);
    param.assign_(param - g * scalars[0] / (sqrt(state[0]) + o_.eps));
}

// --- Adadelta ---

Adadelta::Adadelta(std::vector<Tensor> params, AdadeltaOptions o)
    : Adadelta(one_group(std::move(params)), o) {}

Adadelta::Adadelta(std::vector<ParamGroup> groups, AdadeltaOptions o)
    : Optimizer(std::move(groups),
                {.params = {}, .lr = o.lr, .weight_decay = o.weight_decay, .momentum = 0}),
      o_(o) {
    if (!(o.rho >= 0 && o.rho <= 1))
        throw ValueError(fmt::format("Adadelta: rho must be from 0 to 1, got {}", o.rho));
    check_at_least_0("Adadelta", "eps", o.eps);
}

std::vector<double> Adadelta::scalars(const ParamGroup& group, std::int64_t) const {
    return {group.lr};
}

std::vector<std::string> Adadelta::state_names(const ParamGroup&) const {
    return {"square_avg", "acc_delta"};
}

void Adadelta::update(Tensor& param, const Tensor& grad, std::span<Tensor> state,
                      const ParamGroup& group, std::span<const Tensor> scalars) const {
    const Tensor g = with_decay(grad, param, group);
    Tensor &square_mean = state[0], &moved = state[1];
    square_mean.assign_(square_mean * o_.rho + g * g * (1 - o_.rho));
    const Tensor delta = sqrt(moved + o_.eps) / sqrt(square_mean + o_.eps) * g;
    moved.assign_(moved * o_.rho + delta * delta * (1 - o_.rho));
    param.assign_(param - delta * scalars[0]);
}

}  // namespace pippin::optim
