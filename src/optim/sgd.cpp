// Stochastic gradient descent with momentum.
#include "optim/one_group.h"
#include "pippin/ops.h"

namespace pippin::optim {
namespace {

ParamGroup defaults(const SGDOptions& o) {
    return {.params = {}, .lr = o.lr, .weight_decay = o.weight_decay, .momentum = o.momentum};
}

enum Scalar { kLr, kMomentum, kGradientShare };

}  // namespace

SGD::SGD(std::vector<Tensor> params, SGDOptions o) : SGD(one_group(std::move(params)), o) {}

SGD::SGD(std::vector<ParamGroup> groups, SGDOptions o)
    : Optimizer(std::move(groups), defaults(o)), o_(o) {
    if (o.nesterov && (o.momentum <= 0 || o.dampening != 0))
        throw ValueError("SGD: Nesterov momentum requires a momentum and zero dampening");
}

std::vector<double> SGD::scalars(const ParamGroup& group, std::int64_t step) const {
    std::vector<double> out{group.lr, group.momentum};
    // The first velocity is the whole gradient.
    if (o_.dampening != 0) out.push_back(step == 1 ? 1 : 1 - o_.dampening);
    return out;
}

std::vector<std::string> SGD::state_names(const ParamGroup& group) const {
    return group.momentum != 0 ? std::vector<std::string>{"momentum_buffer"}
                               : std::vector<std::string>{};
}

void SGD::update(Tensor& param, const Tensor& grad, std::span<Tensor> state,
                 const ParamGroup& group, std::span<const Tensor> scalars) const {
    const Tensor g = group.weight_decay != 0 ? grad + param * group.weight_decay : grad;
    if (group.momentum == 0) {
        param.assign_(param - g * scalars[kLr]);
        return;
    }
    Tensor& velocity = state[0];
    velocity.assign_(velocity * scalars[kMomentum] +
                     (o_.dampening != 0 ? g * scalars[kGradientShare] : g));
    const Tensor direction = o_.nesterov ? g + velocity * scalars[kMomentum] : velocity;
    param.assign_(param - direction * scalars[kLr]);
}

}  // namespace pippin::optim
