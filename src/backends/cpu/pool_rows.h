// One row of a pooling op over one NHWC image; vectors run along the channels.
#pragma once

#include <cstdint>

#include "pippin/dtype.h"

namespace pippin::cpu {

/// What windows cover along one dim: outputs' input ranges, and inputs' output ranges.
struct Ranges {
    const std::int64_t* begin;  ///< of output i: inputs [begin[i], end[i])
    const std::int64_t* end;
    const std::int64_t* out_begin;  ///< of input i: outputs [out_begin[i], out_end[i])
    const std::int64_t* out_end;
};

/// Part of a window along one dim: taps [first, last) lie within the input.
struct Taps {
    std::int64_t first, last;
};

/// An output whose window has an input as its tap number `tap`, along one dim.
struct Cover {
    std::int64_t output, tap;
};
struct Covers {
    const Cover* begin;
    const Cover* end;
};

struct MaxWindow {
    std::int64_t h, w, c, oh, ow;
    std::int64_t kernel[2], stride[2], pad[2], dilation[2];
    const Taps *rows, *columns;                ///< of each output row and column
    const Covers *row_covers, *column_covers;  ///< of each input row and column
};

/// A gradient adds up this many windows before it stores its sum; a half type would round it then.
inline constexpr int kCoversAtOnce = 25;

/// The functions of this machine's instruction set, for elements of type T computed in A. Index is
/// the signed integer of A's size.
template <class T, class A, class Index>
struct PoolRows {
    /// y's row `oh`.
    void (*max)(const MaxWindow& g, const T* x, std::int64_t oh, T* y_row);
    /// For y's row `oh`: which tap of the window (row-major) has the maximum.
    void (*arg_max)(const MaxWindow& g, const T* x, std::int64_t oh, Index* row);
    /// dx's row `h`. rows[i % count] is what arg_max gave for output row i.
    void (*max_grad)(const MaxWindow& g, const T* dy, std::int64_t h, const Index* const* rows,
                     std::int64_t count, T* dx_row);
    /// Windows that do not overlap: what y's row `oh` adds to dx, in the windows only.
    void (*max_grad_apart)(const MaxWindow& g, const T* x, const T* dy, std::int64_t oh, T* dx);
    /// y's row: sums over x's rows [h0, h1) and the columns, times scale[column].
    void (*average)(const T* x, std::int64_t w, std::int64_t c, std::int64_t ow, std::int64_t h0,
                    std::int64_t h1, const Ranges& columns, const A* scale, T* y_row);
    /// dx's row: sums over dy's rows [r0, r1) and the columns that cover a point, each times
    /// scale[row * ow + column].
    void (*average_grad)(const T* dy, std::int64_t w, std::int64_t c, std::int64_t ow,
                         std::int64_t r0, std::int64_t r1, const Ranges& columns, const A* scale,
                         T* dx_row);
    /// Windows of 2 x 2 side by side that cover x: y's row from the two rows at x, and the two rows
    /// of dx that dy's row gives.
    void (*average_pairs)(const T* x, std::int64_t c, std::int64_t ow, T* y_row);
    void (*average_grad_pairs)(const T* dy_row, std::int64_t c, std::int64_t ow, T* dx);
};

using FloatPoolRows = PoolRows<float, float, std::int32_t>;
using HalfPoolRows = PoolRows<Half, float, std::int32_t>;
using BFloatPoolRows = PoolRows<BFloat, float, std::int32_t>;
using DoublePoolRows = PoolRows<double, double, std::int64_t>;

void get_pool_rows(FloatPoolRows* rows);
void get_pool_rows(HalfPoolRows* rows);
void get_pool_rows(BFloatPoolRows* rows);
void get_pool_rows(DoublePoolRows* rows);

}  // namespace pippin::cpu
