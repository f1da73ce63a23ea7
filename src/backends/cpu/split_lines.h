// Images as rows of one matrix, with gaps of zeros between lines and between images: a tap of a
// convolution's window is the same matrix some rows on.
#pragma once

#include <cstdint>

#include "backends/cpu/geometry.h"

namespace pippin::cpu::split {

/// Whether y is as large as x, in each direction, and windows lie evenly around their pixels.
inline bool keeps_size(const ConvGeometry& g) {
    const std::int64_t kernel[2] = {g.kh, g.kw};
    for (int d = 0; d < 2; ++d)
        if (g.stride[d] != 1 || 2 * g.pad[d] != g.dilation[d] * (kernel[d] - 1)) return false;
    return g.groups == 1;
}

struct Lines {
    /// Of `from` channels to `to`.
    Lines(const ConvGeometry& g, std::int64_t from_channels, std::int64_t to_channels)
        : n(g.n),
          h(g.h),
          w(g.w),
          taps_h(g.kh),
          taps_w(g.kw),
          from(from_channels),
          to(to_channels),
          line(g.w + g.pad[1]),
          image((g.h + g.pad[0]) * line),
          around(g.pad[0] * line + g.pad[1]) {}

    std::int64_t pixels_with_gaps() const { return n * image; }
    std::int64_t taps() const { return taps_h * taps_w; }
    /// Where a tap finds a pixel's neighbour.
    std::int64_t rows_on(const ConvGeometry& g, std::int64_t ky, std::int64_t kx) const {
        return (ky * g.dilation[0] - g.pad[0]) * line + kx * g.dilation[1] - g.pad[1];
    }
    /// Whether splitting pays: tiles are mostly full, and each weight, whose splitting costs as
    /// much as its products with 100 pixels, meets more of them.
    bool pays() const {
        return taps() > 1 && from >= 32 && to >= 32 && n * h * w >= 192 && 2 * w >= line &&
               n * h * w < (std::int64_t{1} << 31);
    }

    std::int64_t n, h, w, taps_h, taps_w, from, to;
    std::int64_t line, image;  ///< rows to the next line and image, with gaps
    std::int64_t around;       ///< rows that a window sees before its pixel, and behind
};

}  // namespace pippin::cpu::split
