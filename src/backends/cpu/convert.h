// A launch run in other dtypes or memory orders than its own: operands are converted into scratch
// before, the result after.
#pragma once

#include <functional>

#include "backends/cpu/heavy.h"

namespace pippin::cpu {

using MakeKernel = std::function<std::unique_ptr<HeavyKernel>(const plan::HeavyLaunch&)>;

/// A kernel for `launch` by way of `wanted`: the same launch with other dtypes and strides for
/// some operands or the output.
std::unique_ptr<HeavyKernel> make_converted(const plan::HeavyLaunch& launch,
                                            const plan::HeavyLaunch& wanted,
                                            const MakeKernel& make);

}  // namespace pippin::cpu
