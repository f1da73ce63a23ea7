// Kernels of the ops that go along one dim in order.
#pragma once

#include "backends/cpu/heavy.h"

namespace pippin::cpu {

std::unique_ptr<HeavyKernel> make_cumsum(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_argsort(const plan::HeavyLaunch& launch);
std::unique_ptr<HeavyKernel> make_scatter(const plan::HeavyLaunch& launch);

}  // namespace pippin::cpu
