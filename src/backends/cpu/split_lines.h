// Images as rows of one matrix, with gaps of zeros between lines and between images: a tap of a
// convolution's window is the same matrix some rows on. With a stride, x is as many such matrices
// as there are pixels in a step ("phases": every second pixel of every second line, ...), each laid
// like y, and each tap finds its pixels in one of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "backends/cpu/geometry.h"

namespace pippin::cpu::split {

struct Lines {
    struct Tap {
        std::int64_t phase;
        std::int64_t index;    ///< in the window
        std::int64_t rows_on;  ///< from a pixel of y's to the one that it sees
    };
    /// The first pixel of a phase.
    struct Phase {
        std::int64_t y, x;
    };

    explicit Lines(const ConvGeometry& g);

    std::int64_t rows() const { return n * image; }
    std::int64_t pixels() const { return n * std::max(x[0] * x[1], y[0] * y[1]); }
    /// Whether tiles are mostly full, and each weight, whose splitting costs as much as its
    /// products with 100 pixels, meets more of them.
    bool pays(const ConvGeometry& g) const {
        return g.groups == 1 && g.ci >= 32 && g.co >= 32 && n * y[0] * y[1] >= 192 &&
               2 * y[1] >= line && pixels() < (std::int64_t{1} << 31);
    }

    /// Which pixels of y, or of a phase of x, rows [first, first + count) are; -1: none.
    void pixels_of_y(std::int64_t first, std::int64_t count, std::int32_t* to) const {
        fill(first, count, y, 1, 1, {0, 0}, to);
    }
    void pixels_of_x(std::int64_t phase, std::int64_t first, std::int64_t count,
                     std::int32_t* to) const {
        fill(first, count, x, stride[0], stride[1], phases[static_cast<std::size_t>(phase)], to);
    }

    std::int64_t n;
    std::int64_t x[2], y[2], stride[2];  ///< extents: lines, pixels of a line
    std::int64_t line, image;            ///< rows to the next line and image, with gaps
    std::int64_t around = 0;             ///< rows that a window sees before its pixel, and behind
    std::vector<Tap> taps;               ///< by phase
    std::vector<Phase> phases;           ///< those that have taps first
    std::int64_t seen_phases = 0;        ///< how many have taps

  private:
    void fill(std::int64_t first, std::int64_t count, const std::int64_t (&extent)[2],
              std::int64_t step_y, std::int64_t step_x, Phase phase, std::int32_t* to) const;
};

}  // namespace pippin::cpu::split
