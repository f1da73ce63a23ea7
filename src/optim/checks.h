// What constructors of optimizers check, and what their updates share.
#pragma once

#include <fmt/format.h>

#include <cmath>

#include "pippin/ops.h"
#include "pippin/optim.h"

namespace pippin::optim {

inline void check_at_least_0(const char* optimizer, const char* name, double value) {
    if (!(value >= 0) || std::isinf(value))
        throw ValueError(
            fmt::format("{}: {} must be a number >= 0, got {}", optimizer, name, value));
}

/// The rate of a moving average.
inline void check_beta(const char* optimizer, const char* name, double value) {
    if (!(value >= 0 && value < 1))
        throw ValueError(
            fmt::format("{}: {} must be from 0 to below 1, got {}", optimizer, name, value));
}

/// beta1 (in the groups), beta2 and eps of Adam's relatives.
inline void check_moments(const char* optimizer, const std::vector<ParamGroup>& groups,
                          double beta2, double eps) {
    for (const ParamGroup& group : groups)
        check_beta(optimizer, "beta1", group.momentum);
    check_beta(optimizer, "beta2", beta2);
    check_at_least_0(optimizer, "eps", eps);
}

/// The gradient of the loss plus weight_decay / 2 times the squared norm.
inline Tensor with_decay(const Tensor& grad, const Tensor& param, const ParamGroup& group) {
    return group.weight_decay != 0 ? grad + param * group.weight_decay : grad;
}

}  // namespace pippin::optim
