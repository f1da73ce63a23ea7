// What activations and losses share: formulas that keep their digits, and checks of inputs.
#pragma once

#include <fmt/format.h>

#include "graph/build.h"
#include "pippin/error.h"
#include "tensor/variable.h"

namespace pippin::nn {

/// The node of a floating-point tensor; TypeError naming the op for another dtype.
inline const graph::NodePtr& float_node(const Tensor& x, const char* op,
                                        const char* what = "the input") {
    const graph::NodePtr& n = node_of(x, what);
    if (!is_floating(n->dtype))
        throw TypeError(
            fmt::format("{}: {} must be floating point, it is {}", op, what, name_of(n->dtype)));
    return n;
}

/// log(1 + z) for z from 0 to 1 with all digits, also where 1 + z rounds z away: what the rounding
/// lost comes back as a constant, so that the gradient is 1 / (1 + z).
inline graph::NodePtr log1p(const graph::NodePtr& z) {
    namespace g = graph;
    const g::NodePtr u = g::add_scalar(z, 1);
    const g::NodePtr lost = g::div(g::sub(z, g::add_scalar(u, -1)), u);
    return g::add(g::log(u), g::detach(lost));
}

/// exp(x) - 1 for x <= 0 with all digits, by tanh(x / 2); the gradient is exp(x).
inline graph::NodePtr expm1(const graph::NodePtr& x) {
    namespace g = graph;
    const g::NodePtr plain = g::add_scalar(g::exp(x), -1);
    const g::NodePtr t = g::tanh(g::mul_scalar(x, 0.5));
    const g::NodePtr exact = g::div(g::mul_scalar(t, 2), g::add_scalar(g::neg(t), 1));
    return g::add(plain, g::detach(g::sub(exact, plain)));
}

inline graph::NodePtr negative(const graph::NodePtr& x) {
    return graph::lt(x, graph::full_like(x, 0));
}

/// log(sigmoid(x)) = min(x, 0) - log(1 + exp(-|x|)). By selection and not by abs and min, whose
/// gradients at 0 would not add up to 1/2.
inline graph::NodePtr log_sigmoid(const graph::NodePtr& x) {
    namespace g = graph;
    const g::NodePtr below = negative(x);
    const g::NodePtr z = g::exp(g::select(below, x, g::neg(x)));
    return g::sub(g::select(below, x, g::full_like(x, 0)), log1p(z));
}

}  // namespace pippin::nn
