// Vector code of the depthwise convolutions' weight gradient.
#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/conv_depthwise.h"
// First among Highway's headers, for it says which targets there are.
#include "backends/cpu/vec_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv_depthwise_rows.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "backends/cpu/lanes-inl.h"
#include "backends/cpu/weave-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu {
namespace HWY_NAMESPACE {

using std::int64_t;

// Accumulators that fit into registers beside what is multiplied.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kTapAccumulators = 28;
#else
inline constexpr int kTapAccumulators = 12;
#endif
inline constexpr int kMostRows = 5;

// Two vectors side by side are the pair of cache lines that processors fetch together.
inline constexpr int64_t kBlockVectors = kLanes < 16 ? 4 : 2;

// --- packing ---

// Pixels `first` to `last` of a row of a tensor into planes of one vector of channels each.
// Returns v * 0 summed, which is 0 where all values are finite and NaN otherwise.
template <class T, bool kCheck>
V pack_row(const T* from, int64_t pixel, int64_t pixels, int64_t channels, float* to,
           int64_t plane) {
    const D d;
    const V zero = hn::Zero(d);
    V check = zero;
    if (channels == kBlockVectors * kLanes) {
        const WholeVector<D> vector;
        for (int64_t j = 0; j < pixels; ++j, from += pixel, to += kLanes)
            PIPPIN_UNROLL for (int64_t n = 0; n < kBlockVectors; ++n) {
                const V v = vector.load(from + n * kLanes);
                if constexpr (kCheck) check = hn::MulAdd(v, zero, check);
                hn::StoreU(v, d, to + n * plane);
            }
        return check;
    }
    for (int64_t j = 0; j < pixels; ++j, from += pixel, to += kLanes) {
        float* at = to;
        over_vectors(d, channels, [&](int64_t c, auto vector) {
            const V v = vector.load(from + c);
            if constexpr (kCheck) check = hn::MulAdd(v, zero, check);
            hn::StoreU(v, d, at);
            at += plane;
        });
    }
    return check;
}

// The rows of x that output rows from r0 on read, zeros where there is padding.
template <class T>
void pack_x(const DepthwiseConv& s, const T* x, int64_t channels, int64_t r0, int64_t rows,
            float* to, int64_t plane) {
    const ConvGeometry& g = s.g;
    const int64_t vectors = (channels + kLanes - 1) / kLanes;
    const int64_t top = r0 * g.stride[0] - g.pad[0], left = -g.pad[1];
    // pixels of the line that lie in the image
    const int64_t first = std::clamp<int64_t>(-left, 0, s.line);
    const int64_t last = std::clamp<int64_t>(g.w - left, first, s.line);
    const auto clear = [&](int64_t at, int64_t pixels) {
        for (int64_t v = 0; v < vectors; ++v)
            std::fill_n(to + v * plane + at * kLanes, pixels * kLanes, 0.f);
    };
    for (int64_t i = 0; i < rows; ++i) {
        const int64_t y = top + i, at = i * s.line;
        if (y < 0 || y >= g.h || first == last) {
            clear(at, s.line);
            continue;
        }
        clear(at, first);
        clear(at + last, s.line - last);
        pack_row<T, false>(x + (y * g.w + left + first) * g.ci, g.ci, last - first, channels,
                           to + (at + first) * kLanes, plane);
    }
}

// Rows of dy; for a channel multiplier above 1, the planes of its first channel come first. Returns
// as pack_row does.
template <class T>
V pack_dy(const DepthwiseConv& s, const T* dy, int64_t channels, int64_t rows, float* to,
          int64_t plane) {
    const ConvGeometry& g = s.g;
    const int64_t pixels = rows * g.ow, m = s.multiplier;
    if (m == 1) return pack_row<T, true>(dy, g.co, pixels, channels, to, plane);
    const D d;
    const int64_t vectors = (channels + kLanes - 1) / kLanes;
    V check = hn::Zero(d);
    for (int64_t j = 0; j < pixels; ++j, dy += g.co)
        for (int64_t k = 0; k < m; ++k)
            for (int64_t v = 0; v < vectors; ++v) {
                HWY_ALIGN float lanes[kLanes] = {};
                const int64_t c = v * kLanes, count = std::min<int64_t>(channels - c, kLanes);
                for (int64_t i = 0; i < count; ++i)
                    lanes[i] = static_cast<float>(dy[(c + i) * m + k]);
                const V value = hn::Load(d, lanes);
                check = hn::MulAdd(value, hn::Zero(d), check);
                hn::StoreU(value, d, to + (k * vectors + v) * plane + j * kLanes);
            }
    return check;
}

// --- sums ---

// What one tile of taps needs besides its place: all in floats.
struct TapSteps {
    int64_t width, out_rows;  // of dy
    int64_t pixel, row;       // from one pixel of dy to the next, in x
    int64_t tap_row;          // from one kernel row to the next, in x
    int64_t sums_row;         // and in the sums
};

// R kernel rows x C taps side by side.
template <int R, int C>
void tap_tile(const TapSteps& t, const float* x, const float* dy, float* sums) {
    const D d;
    V sum[R][C];
    PIPPIN_UNROLL for (int r = 0; r < R; ++r) PIPPIN_UNROLL for (int c = 0; c < C; ++c) sum[r][c] =
        hn::LoadU(d, sums + r * t.sums_row + c * kLanes);
    const int64_t pixel = t.pixel, tap_row = t.tap_row;
    for (int64_t i = 0; i < t.out_rows; ++i) {
        const float* a = x + i * t.row;
        for (int64_t j = 0; j < t.width; ++j) {
            const V g = hn::LoadU(d, dy);
            const float* b = a;
            PIPPIN_UNROLL for (int r = 0; r < R; ++r) {
                PIPPIN_IN_REGISTER(b);
                PIPPIN_UNROLL for (int c = 0; c < C; ++c) sum[r][c] =
                    hn::MulAdd(g, hn::LoadU(d, b + c * kLanes), sum[r][c]);
                b += tap_row;
            }
            a += pixel;
            dy += kLanes;
        }
    }
    PIPPIN_UNROLL for (int r = 0; r < R; ++r) PIPPIN_UNROLL for (int c = 0; c < C; ++c)
        hn::StoreU(sum[r][c], d, sums + r * t.sums_row + c * kLanes);
}

using TapTile = void (*)(const TapSteps&, const float*, const float*, float*);

template <int C, int... R>
constexpr std::array<TapTile, sizeof...(R)> tap_tiles(std::integer_sequence<int, R...>) {
    return {tap_tile<R + 1, C>...};
}

// All kernel rows for C taps side by side, the first of which is at kx.
template <int C>
void tap_columns(const DepthwiseConv& s, TapSteps t, int64_t kx, int64_t r0, int64_t r1,
                 const float* x, const float* dy, float* sums) {
    constexpr int kMost = std::clamp(kTapAccumulators / C, 1, kMostRows);
    static constexpr auto tiles = tap_tiles<C>(std::make_integer_sequence<int, kMost>());
    const ConvGeometry& g = s.g;
    const int64_t blocks = (g.kh + kMost - 1) / kMost;
    for (int64_t b = 0; b < blocks; ++b) {
        const int64_t u = g.kh * b / blocks, rows = g.kh * (b + 1) / blocks - u;
        // Output rows for which none of these kernel rows lies in the image are left out.
        const int64_t stride = g.stride[0];
        const int64_t above = g.pad[0] - (u + rows - 1) * g.dilation[0];
        const int64_t below = g.h + g.pad[0] - u * g.dilation[0];
        const int64_t from = std::max(r0, above <= 0 ? 0 : (above + stride - 1) / stride);
        const int64_t to = std::min(r1, below <= 0 ? 0 : (below + stride - 1) / stride);
        if (from >= to) continue;
        t.out_rows = to - from;
        const float* in = x + (from - r0) * t.row + u * t.tap_row + kx * g.dilation[1] * kLanes;
        tiles[static_cast<std::size_t>(rows - 1)](t, in, dy + (from - r0) * g.ow * kLanes,
                                                  sums + (u * g.kw + kx) * kLanes);
    }
}

void sum_taps(const DepthwiseConv& s, int64_t r0, int64_t r1, const float* x, const float* dy,
              float* sums) {
    const ConvGeometry& g = s.g;
    TapSteps t{};
    t.width = g.ow;
    t.pixel = g.stride[1] * kLanes;
    t.row = g.stride[0] * s.line * kLanes;
    t.tap_row = g.dilation[0] * s.line * kLanes;
    t.sums_row = g.kw * kLanes;
    for (int64_t v = 0; v < g.kw;) {
        // Dilated taps are not side by side.
        const int64_t left = g.dilation[1] == 1 ? g.kw - v : 1;
        if (left >= 7)
            tap_columns<7>(s, t, v, r0, r1, x, dy, sums), v += 7;
        else if (left >= 5)
            tap_columns<5>(s, t, v, r0, r1, x, dy, sums), v += 5;
        else if (left >= 3)
            tap_columns<3>(s, t, v, r0, r1, x, dy, sums), v += 3;
        else if (left == 2)
            tap_columns<2>(s, t, v, r0, r1, x, dy, sums), v += 2;
        else
            tap_columns<1>(s, t, v, r0, r1, x, dy, sums), v += 1;
    }
}

// The same with nothing but what lies in the image, for dy that is not finite: padding times
// infinity would be NaN in taps that have no part in it.
void sum_taps_inside(const DepthwiseConv& s, int64_t r0, int64_t r1, const float* x,
                     const float* dy, float* sums) {
    const D d;
    const ConvGeometry& g = s.g;
    for (int64_t u = 0; u < g.kh; ++u)
        for (int64_t v = 0; v < g.kw; ++v, sums += kLanes) {
            V sum = hn::LoadU(d, sums);
            for (int64_t i = r0; i < r1; ++i) {
                const int64_t y = i * g.stride[0] + u * g.dilation[0];
                if (y < g.pad[0] || y >= g.h + g.pad[0]) continue;
                const float* line = x + (y - r0 * g.stride[0]) * s.line * kLanes;
                for (int64_t j = 0; j < g.ow; ++j) {
                    const int64_t at = j * g.stride[1] + v * g.dilation[1];
                    if (at < g.pad[1] || at >= g.w + g.pad[1]) continue;
                    sum = hn::MulAdd(hn::LoadU(d, dy + ((i - r0) * g.ow + j) * kLanes),
                                     hn::LoadU(d, line + at * kLanes), sum);
                }
            }
            hn::StoreU(sum, d, sums);
        }
}

template <class T>
void grad_weight_of(const DepthwiseConv& s, const void* x_image, const void* dy_image, int64_t c,
                    int64_t channels, int64_t r0, int64_t r1, float* planes, float* sums) {
    const D d;
    const ConvGeometry& g = s.g;
    const int64_t m = s.multiplier, rows = r1 - r0, vectors = (channels + kLanes - 1) / kLanes;
    const int64_t x_plane = s.x_rows(rows) * s.line * kLanes, dy_plane = rows * g.ow * kLanes;
    float* dy_planes = planes + vectors * x_plane;
    pack_x<T>(s, static_cast<const T*>(x_image) + c, channels, r0, s.x_rows(rows), planes, x_plane);
    const T* dy = static_cast<const T*>(dy_image) + r0 * g.ow * g.co + c * m;
    const V check = pack_dy<T>(s, dy, channels, rows, dy_planes, dy_plane);
    const bool finite = hn::AllFalse(d, hn::IsNaN(check));
    for (int64_t v = 0; v < vectors; ++v)
        for (int64_t k = 0; k < m; ++k, sums += g.kh * g.kw * kLanes) {
            const float* of = dy_planes + (k * vectors + v) * dy_plane;
            if (finite || !s.padded)
                sum_taps(s, r0, r1, planes + v * x_plane, of, sums);
            else
                sum_taps_inside(s, r0, r1, planes + v * x_plane, of, sums);
        }
}

void grad_weight(const DepthwiseConv& s, DType dtype, const void* x_image, const void* dy_image,
                 int64_t c, int64_t channels, int64_t r0, int64_t r1, float* planes, float* sums) {
    if (dtype == DType::BFloat16)
        grad_weight_of<BFloat>(s, x_image, dy_image, c, channels, r0, r1, planes, sums);
    else if (dtype == DType::Float16)
        grad_weight_of<Half>(s, x_image, dy_image, c, channels, r0, r1, planes, sums);
    else
        grad_weight_of<float>(s, x_image, dy_image, c, channels, r0, r1, planes, sums);
}

void functions(DepthwiseFunctions* f) {
    f->lanes = kLanes;
    f->block_channels = kBlockVectors * kLanes;
    f->grad_weight = grad_weight;
}

}  // namespace HWY_NAMESPACE
}  // namespace pippin::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pippin::cpu {

HWY_EXPORT(functions);
void depthwise_functions(DepthwiseFunctions* f) { HWY_DYNAMIC_DISPATCH(functions)(f); }

}  // namespace pippin::cpu
#endif
