// Gradients of 1x1 convolutions as matrix products.
#pragma once

#include "backends/cpu/geometry.h"
#include "backends/cpu/heavy.h"

namespace pippin::cpu {

/// In NHWC a 1x1 convolution is a product of [pixels, channels] with the weights. A kernel for one
/// of the two gradients that way; null where the convolution's own kernel is the better choice.
std::unique_ptr<HeavyKernel> make_conv_product(const plan::HeavyLaunch& launch,
                                               const ConvGeometry& geometry);

}  // namespace pippin::cpu
