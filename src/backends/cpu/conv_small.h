// Direct float32 convolutions for few channels, where a vector over the input channels would be
// mostly empty: the first layers of networks. Feature maps are NHWC.
//
// Input rows are first copied into planes: for each row, each channel and each column modulo the
// stride, one zero-padded line. A kernel tap is then one offset, and pixels side by side in the
// output read numbers side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/geometry.h"
#include "backends/cpu/heavy.h"

namespace pippin::cpu {

/// What the functions below need to know of a convolution. Groups and dilation are 1 and both
/// strides are equal.
struct SmallConv {
    ConvGeometry g;
    std::int64_t stride = 1;
    std::int64_t line = 0;           ///< floats of a line in the planes
    std::int64_t pitch = 0;          ///< floats of a row in the planes: all its lines
    std::int64_t band = 0;           ///< output rows that are worked on at a time
    std::vector<std::int32_t> taps;  ///< offset of each tap, in order of ky, kx, channel

    std::int64_t bands() const { return (g.oh + band - 1) / band; }
    std::int64_t planes_floats() const { return ((band - 1) * stride + g.kh) * pitch; }
};

/// Vector code for one instruction set. `r0` and `r1` delimit a band of output rows.
struct SmallConvFunctions {
    std::int64_t lanes;  ///< floats in a vector
    /// Copies what output rows [r0, r1) read.
    void (*fill)(const SmallConv& s, const float* x_image, std::int64_t r0, std::int64_t r1,
                 float* planes);

    /// Vectors along output channels; weights as [group of `vectors`][tap][vectors * lanes].
    void (*forward_channels)(const SmallConv& s, const float* planes, int vectors,
                             const float* weights, const float* bias, plan::Activation activation,
                             std::int64_t r0, std::int64_t r1, float* y_image);
    /// Vectors along pixels, for the numbers of channels of `has_pixels`; weights as
    /// [tap][channel].
    void (*forward_pixels)(const SmallConv& s, const float* planes, const float* weights,
                           const float* bias, plan::Activation activation, std::int64_t r0,
                           std::int64_t r1, float* y_image);

    /// Adds to sums as [group of `vectors`][channel of x][ky][kx][vectors * lanes].
    void (*grad_weight_channels)(const SmallConv& s, const float* planes, int vectors,
                                 const float* dy_image, std::int64_t r0, std::int64_t r1,
                                 float* sums);
    /// Adds to sums as [channel of x][channel of y][ky][kx][lanes]; `lines`: room for dy in planes.
    void (*grad_weight_pixels)(const SmallConv& s, const float* planes, float* lines,
                               const float* dy_image, std::int64_t r0, std::int64_t r1,
                               float* sums);

    /// Vectors along (kx, channel of x); weights as [ky][channel of y][vectors * lanes]. dx is a
    /// zero-padded image with `lanes` floats of room behind, and is added to.
    void (*grad_input)(const SmallConv& s, const float* dy_image, int vectors, const float* weights,
                       float* padded_dx);
};
void small_conv_forward_functions(SmallConvFunctions* f);
void small_conv_backward_functions(SmallConvFunctions* f);

/// Whether vectors along pixels can be woven into NHWC for this many output channels.
constexpr bool has_pixels(std::int64_t channels) {
    return (channels >= 1 && channels <= 4) || channels == 6 || channels == 8;
}

/// A kernel for the launch of a convolution op; null where oneDNN is the better choice.
std::unique_ptr<HeavyKernel> make_conv_small(const plan::HeavyLaunch& launch,
                                             const ConvGeometry& geometry);

}  // namespace pippin::cpu
