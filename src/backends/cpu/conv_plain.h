// Convolutions as plain loops, for float64 (gradient checks) and for empty shapes.
#pragma once

#include "backends/cpu/geometry.h"
#include "backends/cpu/heavy.h"

namespace pippin::cpu {

/// Any of the three convolution ops; operands may have any strides.
std::unique_ptr<HeavyKernel> make_conv_plain(const plan::HeavyLaunch& launch,
                                             const ConvGeometry& geometry);

}  // namespace pippin::cpu
