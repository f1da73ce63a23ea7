// Gradient clipping.
#include <fmt/format.h>

#include <cmath>

#include "pippin/nn.h"

namespace pippin::nn {

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double p) {
    if (!(max_norm >= 0))
        throw ValueError(fmt::format("clip_grad_norm_: max_norm must be >= 0, got {}", max_norm));
    if (!(p > 0))
        throw ValueError(fmt::format("clip_grad_norm_: the norm's p must be positive, got {}", p));
    const NoGrad no_grad;
    std::vector<Tensor> with_grad, norms;
    for (const Tensor& param : parameters) {
        const Tensor g = param.grad();
        if (!g.defined()) continue;
        with_grad.push_back(param);
        norms.push_back(std::isinf(p) ? amax(abs(g)) : norm(g, p));
    }
    if (norms.empty()) return zeros({});
    const Tensor all = stack(norms);
    const Tensor total = std::isinf(p) ? amax(all) : norm(all, p);
    const Tensor scale = clamp(max_norm / (total + 1e-6), {}, 1.0);  // 1e-6 as in PyTorch
    for (Tensor& param : with_grad)
        param.set_grad(param.grad() * scale);
    return total;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double value) {
    if (!(value >= 0))
        throw ValueError(fmt::format("clip_grad_value_: value must be >= 0, got {}", value));
    const NoGrad no_grad;
    for (const Tensor& param : parameters) {
        const Tensor g = param.grad();
        if (!g.defined()) continue;
        Tensor handle = param;  // the same variable
        handle.set_grad(clamp(g, -value, value));
    }
}

}  // namespace pippin::nn
