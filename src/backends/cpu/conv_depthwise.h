// The weight gradient of depthwise convolutions: each group has one channel of x, and as many of y
// as the channel multiplier says. Feature maps are NHWC; vectors run along channels.
//
// A band of output rows and what it reads of x are first copied, a vector of channels at a time,
// into planes of float32: x with its padding written out as zeros, so that a tap is one offset, and
// side by side what lies a row of all channels apart in the tensors. A few taps at a time are then
// summed in registers over the band.
#pragma once

#include <cstdint>

#include "backends/cpu/geometry.h"
#include "backends/cpu/heavy.h"

namespace pippin::cpu {

struct DepthwiseConv {
    ConvGeometry g;
    std::int64_t multiplier = 1;  ///< channels of y to one of x
    std::int64_t line = 0;        ///< pixels of a row of x in the planes
    std::int64_t band = 0;        ///< output rows that are worked on at a time
    bool padded = false;          ///< some window reaches out of x

    std::int64_t bands() const { return (g.oh + band - 1) / band; }
    /// Rows of x that `rows` output rows read.
    std::int64_t x_rows(std::int64_t rows) const {
        return (rows - 1) * g.stride[0] + (g.kh - 1) * g.dilation[0] + 1;
    }
};

/// Vector code for one instruction set.
struct DepthwiseFunctions {
    std::int64_t lanes;           ///< floats in a vector
    std::int64_t block_channels;  ///< channels of x that are packed together
    /// Adds output rows [r0, r1) of one image for channels [c, c + channels) of x, at most a block,
    /// to sums as [vector of channels][multiplier][ky][kx][lanes]. x and dy are of `dtype` and
    /// point to the image; `planes` has room for plane_floats().
    void (*grad_weight)(const DepthwiseConv& s, DType dtype, const void* x_image,
                        const void* dy_image, std::int64_t c, std::int64_t channels,
                        std::int64_t r0, std::int64_t r1, float* planes, float* sums);
};
void depthwise_functions(DepthwiseFunctions* f);

/// A kernel for a launch of conv2d_grad_weight; null where it is not depthwise, its dtypes are not
/// float32 or one half type in dense NHWC, or oneDNN's kernel is the better choice.
std::unique_ptr<HeavyKernel> make_conv_depthwise(const plan::HeavyLaunch& launch,
                                                 const ConvGeometry& geometry);

}  // namespace pippin::cpu
