// Vector code of the direct convolutions: planes, and the forward pass.
#include <algorithm>
#include <cstring>

#include "backends/cpu/conv_small.h"
// First among Highway's headers, for it says which targets there are.
#include "backends/cpu/vec_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv_small_forward.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "backends/cpu/activation-inl.h"
#include "backends/cpu/lanes-inl.h"
#include "backends/cpu/weave-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu {
namespace HWY_NAMESPACE {

using std::int64_t;

// --- planes ---

// `beyond`: a row of less than a vector may be read and written as a whole one; what that leaves
// behind a line is overwritten by the next.
template <int C>
void unweave_row(const float* from, int64_t width, int64_t channels, float* to, int64_t line,
                 bool beyond) {
    const D d;
    int64_t x = 0;
    if constexpr (C > 0) {
        const auto block = [&](int64_t at) {
            V v[C];
            unweave<C>(d, from + at * C, v);
            for (int c = 0; c < C; ++c)
                hn::StoreU(v[c], d, to + c * line + at);
        };
        for (; x + kLanes <= width; x += kLanes)
            block(x);
        // The last columns within a vector that was partly done, never into a line that is.
        if (x < width && (x > 0 || beyond)) {
            block(x > 0 ? width - kLanes : 0);
            return;
        }
    }
    for (; x < width; ++x)
        for (int64_t c = 0; c < channels; ++c)
            to[c * line + x] = from[x * channels + c];
}

// One row of a map into its lines; `to` was zeroed where padding is.
void split_row(const SmallConv& s, const float* from, float* to, bool last) {
    const int64_t w = s.g.w, c = s.g.ci, pad = s.g.pad[1];
    if (s.stride == 1) {
        float* at = to + pad;
        // Without padding, lines follow on each other and are written in order.
        const bool beyond = !last && pad == 0 && w >= kLanes / 2;
        switch (c) {
            case 1:
                std::memcpy(at, from, static_cast<std::size_t>(w) * sizeof(float));
                return;
            case 2:
                return unweave_row<2>(from, w, c, at, s.line, beyond);
            case 3:
                return unweave_row<3>(from, w, c, at, s.line, beyond);
            case 4:
                return unweave_row<4>(from, w, c, at, s.line, beyond);
            case 6:
                return unweave_row<6>(from, w, c, at, s.line, beyond);
            case 8:
                return unweave_row<8>(from, w, c, at, s.line, beyond);
            default:
                return unweave_row<0>(from, w, c, at, s.line, beyond);
        }
    }
    // Columns of each remainder modulo the stride.
    for (int64_t phase = 0; phase < s.stride; ++phase) {
        int64_t x = phase - pad;
        while (x < 0)
            x += s.stride;
        const int64_t first = (x + pad) / s.stride;
        for (int64_t k = 0; k < c; ++k) {
            float* line = to + (k * s.stride + phase) * s.line + first;
            const float* source = from + x * c + k;
            const int64_t count = x < w ? (w - x + s.stride - 1) / s.stride : 0;
            for (int64_t i = 0; i < count; ++i)
                line[i] = source[i * s.stride * c];
        }
    }
}

void fill(const SmallConv& s, const float* x_image, int64_t r0, int64_t r1, float* planes) {
    const int64_t first = r0 * s.stride - s.g.pad[0];
    const int64_t rows = (r1 - r0 - 1) * s.stride + s.g.kh;
    for (int64_t i = 0; i < rows; ++i) {
        float* to = planes + i * s.pitch;
        const int64_t h = first + i;
        if (s.g.pad[1] > 0 || s.stride > 1 || h < 0 || h >= s.g.h)
            std::memset(to, 0, static_cast<std::size_t>(s.pitch) * sizeof(float));
        const bool last = i + 1 == rows || h + 1 == s.g.h;
        if (h >= 0 && h < s.g.h) split_row(s, x_image + h * s.g.w * s.g.ci, to, last);
    }
}

// --- vectors along output channels ---

// Accumulators that fit into registers beside a weight and a number.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kAccumulators = 28;
#else
inline constexpr int kAccumulators = 12;
#endif

struct ChannelTile {
    const SmallConv* s;
    const float *weights, *bias;
    plan::Activation activation;
    int64_t channels;  // of this group that exist
};

// R rows x P pixels x N vectors of channels.
template <int R, int P, int N>
void channel_tile(const ChannelTile& t, const float* in, float* out) {
    const D d;
    const SmallConv& s = *t.s;
    V sum[R][P][N];
    PIPPIN_UNROLL for (int n = 0; n < N; ++n) {
        const V b = hn::LoadU(d, t.bias + n * kLanes);
        PIPPIN_UNROLL for (int r = 0; r < R; ++r) PIPPIN_UNROLL for (int p = 0; p < P; ++p)
            sum[r][p][n] = b;
    }
    const int64_t row = s.pitch * s.stride, out_row = s.g.ow * s.g.co;
    // The result's lines come from memory while the sums are made.
    PIPPIN_UNROLL for (int r = 0; r < R; ++r) PIPPIN_UNROLL for (int p = 0; p < P; ++p)
        PIPPIN_UNROLL for (int n = 0; n < N; ++n)
            hwy::Prefetch(out + r * out_row + p * s.g.co + n * kLanes);
    const float* w = t.weights;
    for (const std::int32_t tap : s.taps) {
        const float* a = in + tap;
        V weight[N];
        PIPPIN_UNROLL for (int n = 0; n < N; ++n) weight[n] = hn::Load(d, w + n * kLanes);
        w += N * kLanes;
        PIPPIN_UNROLL for (int r = 0; r < R; ++r) {
            PIPPIN_IN_REGISTER(a);
            PIPPIN_UNROLL for (int p = 0; p < P; ++p) {
                const V x = hn::Set(d, a[p]);
                PIPPIN_UNROLL for (int n = 0; n < N; ++n) sum[r][p][n] =
                    hn::MulAdd(weight[n], x, sum[r][p][n]);
            }
            a += row;
        }
    }
    const bool whole = t.channels == N * kLanes;
    PIPPIN_UNROLL for (int r = 0; r < R; ++r) PIPPIN_UNROLL for (int p = 0; p < P; ++p)
        PIPPIN_UNROLL for (int n = 0; n < N; ++n) {
        float* to = out + r * out_row + p * s.g.co + n * kLanes;
        const V v = sum[r][p][n];
        if (whole)
            hn::StoreU(v, d, to);
        else if (n * kLanes < t.channels)
            store_part(
                v, d, to,
                static_cast<std::size_t>(std::min<int64_t>(kLanes, t.channels - n * kLanes)));
    }
    if (t.activation == plan::Activation::None) return;
    const int64_t count = std::min<int64_t>(t.channels, N * kLanes);
    for (int r = 0; r < R; ++r)
        for (int p = 0; p < P; ++p)
            activate(out + r * out_row + p * s.g.co, count, t.activation);
}

// Rows of output by tiles of R x P; what is left over is done once more within the last tile.
template <int R, int P, int N>
void channel_rows(const ChannelTile& t, const float* planes, int64_t rows, float* y) {
    const SmallConv& s = *t.s;
    for (int64_t i = 0; i < rows; i += R) {
        const int64_t r = std::min(i, rows - R);
        for (int64_t j = 0; j < s.g.ow; j += P) {
            const int64_t q = std::min(j, s.g.ow - P);
            channel_tile<R, P, N>(t, planes + r * s.stride * s.pitch + q,
                                  y + (r * s.g.ow + q) * s.g.co);
        }
    }
}

using ChannelRows = void (*)(const ChannelTile&, const float*, int64_t, float*);
struct ChannelChoice {
    int rows, pixels;
    ChannelRows run;
};

// Of the tiles that fit into the registers and the map, the one with least work.
template <int N>
ChannelRows channel_choice(int64_t rows, int64_t width) {
    constexpr int kRoom = kAccumulators / N;
    constexpr auto rows_for = [](int pixels) {
        return std::max(1, std::min(4, kRoom / std::max(1, pixels)));
    };
#define PIPPIN_TILE(P) \
    {rows_for(P), P, channel_rows<rows_for(P), P, N>}, { 1, P, channel_rows<1, P, N> }
    static constexpr ChannelChoice choices[] = {PIPPIN_TILE(std::min(14, kRoom)),
                                                PIPPIN_TILE(std::min(12, kRoom)),
                                                PIPPIN_TILE(std::min(10, kRoom)),
                                                PIPPIN_TILE(std::min(8, kRoom)),
                                                PIPPIN_TILE(std::min(7, kRoom)),
                                                PIPPIN_TILE(std::min(6, kRoom)),
                                                PIPPIN_TILE(std::min(4, kRoom)),
                                                PIPPIN_TILE(std::min(2, kRoom)),
                                                PIPPIN_TILE(1)};
#undef PIPPIN_TILE
    const ChannelChoice* best = nullptr;
    double least = 0;
    for (const ChannelChoice& c : choices) {
        if (c.rows > rows || c.pixels > width) continue;
        const auto tiles = static_cast<double>(((rows + c.rows - 1) / c.rows) *
                                               ((width + c.pixels - 1) / c.pixels));
        // A tap costs its multiplications, or its loads, or the latency of an addition.
        const int points = c.rows * c.pixels;
        const double cost = tiles * std::max({points * N / 2.0, (points + N) / 2.0, 4.0});
        if (!best || cost < least) best = &c, least = cost;
    }
    return best->run;
}

template <int N>
void forward_channels_by(const SmallConv& s, const float* planes, const float* weights,
                         const float* bias, plan::Activation activation, int64_t rows, float* y) {
    constexpr int64_t kGroup = N * kLanes;
    const ChannelRows run = channel_choice<N>(rows, s.g.ow);
    const auto taps = static_cast<int64_t>(s.taps.size());
    for (int64_t c = 0; c < s.g.co; c += kGroup) {
        const ChannelTile t{&s, weights + c * taps, bias + c, activation,
                            std::min(kGroup, s.g.co - c)};
        run(t, planes, rows, y + c);
    }
}

void forward_channels(const SmallConv& s, const float* planes, int vectors, const float* weights,
                      const float* bias, plan::Activation activation, int64_t r0, int64_t r1,
                      float* y_image) {
    float* y = y_image + r0 * s.g.ow * s.g.co;
    switch (vectors) {
        case 1:
            return forward_channels_by<1>(s, planes, weights, bias, activation, r1 - r0, y);
        case 2:
            return forward_channels_by<2>(s, planes, weights, bias, activation, r1 - r0, y);
        default:
            return forward_channels_by<4>(s, planes, weights, bias, activation, r1 - r0, y);
    }
}

// --- vectors along pixels ---

// R rows x two vectors of pixels, at columns q0 and q1, x C channels.
template <int C, int R>
void pixel_tile(const SmallConv& s, const float* in, int64_t q0, int64_t q1, const float* weights,
                const float* bias, plan::Activation activation, float* out) {
    const D d;
    V sum[R][2][C];
    PIPPIN_UNROLL for (int c = 0; c < C; ++c) {
        const V b = hn::Set(d, bias[c]);
        PIPPIN_UNROLL for (int r = 0; r < R; ++r) sum[r][0][c] = sum[r][1][c] = b;
    }
    const int64_t row = s.pitch * s.stride;
    for (const std::int32_t tap : s.taps) {
        const float* a = in + tap;
        PIPPIN_UNROLL for (int r = 0; r < R; ++r) {
            const V x0 = hn::LoadU(d, a + q0), x1 = hn::LoadU(d, a + q1);
            a += row;
            PIPPIN_UNROLL for (int c = 0; c < C; ++c) {
                const V w = hn::Set(d, weights[c]);
                sum[r][0][c] = hn::MulAdd(x0, w, sum[r][0][c]);
                sum[r][1][c] = hn::MulAdd(x1, w, sum[r][1][c]);
            }
        }
        weights += C;
    }
    PIPPIN_UNROLL for (int r = 0; r < R; ++r) PIPPIN_UNROLL for (int i = 0; i < 2; ++i) {
        float* to = out + (r * s.g.ow + (i == 0 ? q0 : q1)) * C;
        weave<C>(d, sum[r][i], to);
        // What the two have in common was written anew, so that it is activated once.
        if (activation != plan::Activation::None) activate(to, kLanes * C, activation);
    }
}

template <int C>
void forward_pixels_of(const SmallConv& s, const float* planes, const float* weights,
                       const float* bias, plan::Activation activation, int64_t rows, float* y) {
    constexpr int R = C == 1 ? 4 : C <= 3 ? 2 : 1;
    const int64_t last = s.g.ow - kLanes;
    for (int64_t i = 0; i < rows;) {
        const bool many = rows - i >= R;
        const float* in = planes + i * s.stride * s.pitch;
        for (int64_t q = 0; q < s.g.ow; q += 2 * kLanes) {
            const int64_t q0 = std::min(q, last), q1 = std::min(q + kLanes, last);
            float* out = y + i * s.g.ow * C;
            if (many)
                pixel_tile<C, R>(s, in, q0, q1, weights, bias, activation, out);
            else
                pixel_tile<C, 1>(s, in, q0, q1, weights, bias, activation, out);
        }
        i += many ? R : 1;
    }
}

void forward_pixels(const SmallConv& s, const float* planes, const float* weights,
                    const float* bias, plan::Activation activation, int64_t r0, int64_t r1,
                    float* y_image) {
    float* y = y_image + r0 * s.g.ow * s.g.co;
    const int64_t rows = r1 - r0;
    switch (s.g.co) {
        case 1:
            return forward_pixels_of<1>(s, planes, weights, bias, activation, rows, y);
        case 2:
            return forward_pixels_of<2>(s, planes, weights, bias, activation, rows, y);
        case 3:
            return forward_pixels_of<3>(s, planes, weights, bias, activation, rows, y);
        case 4:
            return forward_pixels_of<4>(s, planes, weights, bias, activation, rows, y);
        case 6:
            return forward_pixels_of<6>(s, planes, weights, bias, activation, rows, y);
        default:
            return forward_pixels_of<8>(s, planes, weights, bias, activation, rows, y);
    }
}

void forward_functions(SmallConvFunctions* f) {
    f->lanes = kLanes;
    f->fill = fill;
    f->forward_channels = forward_channels;
    f->forward_pixels = forward_pixels;
}

}  // namespace HWY_NAMESPACE
}  // namespace pippin::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pippin::cpu {

HWY_EXPORT(forward_functions);
void small_conv_forward_functions(SmallConvFunctions* f) {
    HWY_DYNAMIC_DISPATCH(forward_functions)(f);
}

}  // namespace pippin::cpu
#endif
