// Adam and AdamW.
#include <fmt/format.h>

#include <cmath>

#include "optim/one_group.h"
#include "pippin/ops.h"

namespace pippin::optim {
namespace {

ParamGroup defaults(const AdamOptions& o, bool decoupled) {
    const double decay = std::isnan(o.weight_decay) ? (decoupled ? 0.01 : 0) : o.weight_decay;
    return {.params = {}, .lr = o.lr, .weight_decay = decay, .momentum = o.beta1};
}

enum Scalar { kStepSize, kOneMinusBeta1, kInverseRootCorrection2, kDecay };

}  // namespace

Adam::Adam(std::vector<Tensor> params, AdamOptions o) : Adam(one_group(std::move(params)), o) {}
Adam::Adam(std::vector<ParamGroup> groups, AdamOptions o) : Adam(std::move(groups), o, false) {}

Adam::Adam(std::vector<ParamGroup> groups, AdamOptions o, bool decoupled)
    : Optimizer(std::move(groups), defaults(o, decoupled)), o_(o), decoupled_(decoupled) {
    const char* name = decoupled ? "AdamW" : "Adam";
    for (const ParamGroup& group : this->groups())
        if (!(group.momentum >= 0 && group.momentum < 1))
            throw ValueError(
                fmt::format("{}: beta1 must be from 0 to below 1, got {}", name, group.momentum));
    if (!(o.beta2 >= 0 && o.beta2 < 1))
        throw ValueError(fmt::format("{}: beta2 must be from 0 to below 1, got {}", name, o.beta2));
    if (!(o.eps >= 0)) throw ValueError(fmt::format("{}: eps must be >= 0, got {}", name, o.eps));
}

std::vector<double> Adam::scalars(const ParamGroup& group, std::int64_t step) const {
    const double t = static_cast<double>(step);
    const double correction1 = 1 - std::pow(group.momentum, t),
                 correction2 = 1 - std::pow(o_.beta2, t);
    std::vector<double> out{group.lr / correction1, 1 - group.momentum, 1 / std::sqrt(correction2)};
    if (decoupled_) out.push_back(1 - group.lr * group.weight_decay);
    return out;
}

std::vector<std::string> Adam::state_names(const ParamGroup&) const {
    if (o_.amsgrad) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    return {"exp_avg", "exp_avg_sq"};
}

void Adam::update(Tensor& param, const Tensor& grad, std::span<Tensor> state,
                  const ParamGroup& group, std::span<const Tensor> scalars) const {
    const bool decays = group.weight_decay != 0;
    const Tensor g = decays && !decoupled_ ? grad + param * group.weight_decay : grad;
    const Tensor p = decays && decoupled_ ? param * scalars[kDecay] : param;
    Tensor &mean = state[0], &square_mean = state[1];
    mean.assign_(mean + (g - mean) * scalars[kOneMinusBeta1]);
    square_mean.assign_(square_mean * o_.beta2 + g * g * (1 - o_.beta2));
    if (o_.amsgrad) state[2].assign_(maximum(state[2], square_mean));
    const Tensor& second = o_.amsgrad ? state[2] : square_mean;
    const Tensor denominator = sqrt(second) * scalars[kInverseRootCorrection2] + o_.eps;
    param.assign_(p - mean * scalars[kStepSize] / denominator);
}

AdamW::AdamW(std::vector<Tensor> params, AdamOptions o) : AdamW(one_group(std::move(params)), o) {}
AdamW::AdamW(std::vector<ParamGroup> groups, AdamOptions o) : Adam(std::move(groups), o, true) {}

}  // namespace pippin::optim
