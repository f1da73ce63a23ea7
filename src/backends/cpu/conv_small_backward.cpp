// Vector code of the direct convolutions: the two gradients.
#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/conv_small.h"
// First among Highway's headers, for it says which targets there are.
#include "backends/cpu/vec_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv_small_backward.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "backends/cpu/lanes-inl.h"
#include "backends/cpu/weave-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu {
namespace HWY_NAMESPACE {

using std::int64_t;

// Accumulators that fit into registers beside what is multiplied.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kGradAccumulators = 28;
#else
inline constexpr int kGradAccumulators = 12;
#endif

// --- weight gradient, vectors along output channels ---

// R kernel rows x K columns x N vectors for one input channel: one pass over a band of dy.
template <int R, int K, int N, int S>
void weight_tile(const SmallConv& s, const float* in, const float* dy, int64_t rows,
                 int64_t channels, float* sums) {
    const D d;
    V sum[R][K][N];
    PIPPIN_UNROLL for (int r = 0; r < R; ++r) PIPPIN_UNROLL for (int k = 0; k < K; ++k)
        PIPPIN_UNROLL for (int n = 0; n < N; ++n) sum[r][k][n] =
            hn::LoadU(d, sums + ((r * K + k) * N + n) * kLanes);
    constexpr int64_t kAhead = 8;  // pixels
    const bool whole = channels >= N * kLanes;
    const int64_t pitch = s.pitch, line = s.line, co = s.g.co, width = s.g.ow;
    for (int64_t i = 0; i < rows; ++i) {
        const float* a = in + i * S * pitch;
        const float* q = dy + i * width * co;
        for (int64_t j = 0; j < width; ++j) {
            V g[N];
            PIPPIN_UNROLL for (int n = 0; n < N; ++n) hwy::Prefetch(q + kAhead * co + n * kLanes);
            PIPPIN_UNROLL for (int n = 0; n < N; ++n) {
                const int64_t left = channels - n * kLanes;
                g[n] =
                    whole || left >= kLanes
                        ? hn::LoadU(d, q + n * kLanes)
                        : (left > 0 ? load_part(d, q + n * kLanes, static_cast<std::size_t>(left))
                                    : hn::Zero(d));
            }
            const float* b = a;
            PIPPIN_UNROLL for (int r = 0; r < R; ++r) {
                PIPPIN_IN_REGISTER(b);
                PIPPIN_UNROLL for (int k = 0; k < K; ++k) {
                    const V x = hn::Set(d, b[k % S * line + k / S]);
                    PIPPIN_UNROLL for (int n = 0; n < N; ++n) sum[r][k][n] =
                        hn::MulAdd(g[n], x, sum[r][k][n]);
                }
                b += pitch;
            }
            ++a;
            q += co;
        }
    }
    PIPPIN_UNROLL for (int r = 0; r < R; ++r) PIPPIN_UNROLL for (int k = 0; k < K; ++k)
        PIPPIN_UNROLL for (int n = 0; n < N; ++n)
            hn::StoreU(sum[r][k][n], d, sums + ((r * K + k) * N + n) * kLanes);
}

template <int K, int N, int S>
void weight_channels_of(const SmallConv& s, const float* planes, const float* dy, int64_t rows,
                        float* sums) {
    constexpr int kMost = std::max(1, kGradAccumulators / (K * N));
    constexpr int64_t kGroup = N * kLanes;
    for (int64_t c = 0; c < s.g.co; c += kGroup)
        for (int64_t k = 0; k < s.g.ci; ++k)
            for (int64_t u = 0; u < s.g.kh;) {
                const float* in = planes + u * s.pitch + k * S * s.line;
                float* to = sums + (c * s.g.ci + k * kGroup) * s.g.kh * K + u * K * kGroup;
                const int64_t left = s.g.kh - u;
                const auto run = [&]<int R>() {
                    weight_tile<R, K, N, S>(s, in, dy + c, rows, s.g.co - c, to);
                    u += R;
                };
                if constexpr (kMost >= 5) {
                    if (left >= 5) {
                        run.template operator()<5>();
                        continue;
                    }
                }
                if constexpr (kMost >= 4) {
                    if (left >= 4) {
                        run.template operator()<4>();
                        continue;
                    }
                }
                if constexpr (kMost >= 3) {
                    if (left >= 3) {
                        run.template operator()<3>();
                        continue;
                    }
                }
                if constexpr (kMost >= 2) {
                    if (left >= 2) {
                        run.template operator()<2>();
                        continue;
                    }
                }
                run.template operator()<1>();
            }
}

template <int K, int N>
void weight_channels_strided(const SmallConv& s, const float* planes, const float* dy, int64_t rows,
                             float* sums) {
    if (s.stride == 1)
        weight_channels_of<K, N, 1>(s, planes, dy, rows, sums);
    else
        weight_channels_of<K, N, 2>(s, planes, dy, rows, sums);
}

template <int N>
void weight_channels_wide(const SmallConv& s, const float* planes, const float* dy, int64_t rows,
                          float* sums) {
    switch (s.g.kw) {
        case 3:
            return weight_channels_strided<3, N>(s, planes, dy, rows, sums);
        case 5:
            return weight_channels_strided<5, N>(s, planes, dy, rows, sums);
        default:
            return weight_channels_strided<7, N>(s, planes, dy, rows, sums);
    }
}

void grad_weight_channels(const SmallConv& s, const float* planes, int vectors,
                          const float* dy_image, int64_t r0, int64_t r1, float* sums) {
    const float* dy = dy_image + r0 * s.g.ow * s.g.co;
    switch (vectors) {
        case 1:
            return weight_channels_wide<1>(s, planes, dy, r1 - r0, sums);
        case 2:
            return weight_channels_wide<2>(s, planes, dy, r1 - r0, sums);
        default:
            return weight_channels_wide<4>(s, planes, dy, r1 - r0, sums);
    }
}

// --- weight gradient, vectors along pixels ---

// Output channels that go together, of C, for a kernel K wide.
template <int C, int K>
constexpr int channels_together() {
    for (int g = C; g > 1; --g)
        if (C % g == 0 && g * K + K + 1 <= kGradAccumulators + 4) return g;
    return 1;
}

// dy's rows in lines [row][channel][vectors of pixels]; lanes that an earlier vector covers are
// zero.
template <int C>
void dy_lines(const SmallConv& s, const float* dy, int64_t rows, int64_t vectors, float* lines) {
    const D d;
    const int64_t last = s.g.ow - kLanes;
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < vectors; ++j) {
            const int64_t q = std::min(j * kLanes, last), seen = j * kLanes - q;
            V v[C];
            unweave<C>(d, dy + (i * s.g.ow + q) * C, v);
            const auto fresh = hn::Not(hn::FirstN(d, static_cast<std::size_t>(seen)));
            for (int c = 0; c < C; ++c)
                hn::Store(hn::IfThenElseZero(fresh, v[c]), d,
                          lines + ((i * C + c) * vectors + j) * kLanes);
        }
}

template <int C, int K>
void weight_pixels_of(const SmallConv& s, const float* planes, float* lines, const float* dy,
                      int64_t rows, float* sums) {
    constexpr int G = channels_together<C, K>();
    const D d;
    const int64_t vectors = (s.g.ow + kLanes - 1) / kLanes, last = s.g.ow - kLanes;
    dy_lines<C>(s, dy, rows, vectors, lines);
    for (int64_t k = 0; k < s.g.ci; ++k)
        for (int64_t c0 = 0; c0 < C; c0 += G)
            for (int64_t u = 0; u < s.g.kh; ++u) {
                V sum[G][K];
                float* to = sums + (((k * C + c0) * s.g.kh + u) * K) * kLanes;
                const int64_t step = s.g.kh * K * kLanes;
                PIPPIN_UNROLL for (int c = 0; c < G; ++c) PIPPIN_UNROLL for (int v = 0; v < K; ++v)
                    sum[c][v] = hn::LoadU(d, to + c * step + v * kLanes);
                for (int64_t i = 0; i < rows; ++i)
                    for (int64_t j = 0; j < vectors; ++j) {
                        const float* a =
                            planes + (i + u) * s.pitch + k * s.line + std::min(j * kLanes, last);
                        const float* q = lines + ((i * C + c0) * vectors + j) * kLanes;
                        V x[K];
                        PIPPIN_UNROLL for (int v = 0; v < K; ++v) x[v] = hn::LoadU(d, a + v);
                        PIPPIN_UNROLL for (int c = 0; c < G; ++c) {
                            const V g = hn::Load(d, q + c * vectors * kLanes);
                            PIPPIN_UNROLL for (int v = 0; v < K; ++v) sum[c][v] =
                                hn::MulAdd(g, x[v], sum[c][v]);
                        }
                    }
                PIPPIN_UNROLL for (int c = 0; c < G; ++c) PIPPIN_UNROLL for (int v = 0; v < K; ++v)
                    hn::StoreU(sum[c][v], d, to + c * step + v * kLanes);
            }
}

template <int C>
void weight_pixels_wide(const SmallConv& s, const float* planes, float* lines, const float* dy,
                        int64_t rows, float* sums) {
    switch (s.g.kw) {
        case 3:
            return weight_pixels_of<C, 3>(s, planes, lines, dy, rows, sums);
        case 5:
            return weight_pixels_of<C, 5>(s, planes, lines, dy, rows, sums);
        default:
            return weight_pixels_of<C, 7>(s, planes, lines, dy, rows, sums);
    }
}

void grad_weight_pixels(const SmallConv& s, const float* planes, float* lines,
                        const float* dy_image, int64_t r0, int64_t r1, float* sums) {
    const float* dy = dy_image + r0 * s.g.ow * s.g.co;
    const int64_t rows = r1 - r0;
    switch (s.g.co) {
        case 1:
            return weight_pixels_wide<1>(s, planes, lines, dy, rows, sums);
        case 2:
            return weight_pixels_wide<2>(s, planes, lines, dy, rows, sums);
        case 3:
            return weight_pixels_wide<3>(s, planes, lines, dy, rows, sums);
        case 4:
            return weight_pixels_wide<4>(s, planes, lines, dy, rows, sums);
        case 6:
            return weight_pixels_wide<6>(s, planes, lines, dy, rows, sums);
        default:
            return weight_pixels_wide<8>(s, planes, lines, dy, rows, sums);
    }
}

// --- input gradient ---

// What R rows of dy at one column add to dx through one kernel row: N vectors along (kx, channel).
template <int R, int N>
void input_tile(const SmallConv& s, const float* dy, const float* weights, float* dx,
                int64_t dx_row) {
    const D d;
    const int64_t row = s.g.ow * s.g.co;
    V sum[R][N];
    PIPPIN_UNROLL for (int r = 0; r < R; ++r) PIPPIN_UNROLL for (int n = 0; n < N; ++n) sum[r][n] =
        hn::Zero(d);
    for (int64_t c = 0; c < s.g.co; ++c) {
        V w[N];
        PIPPIN_UNROLL for (int n = 0; n < N; ++n) w[n] = hn::Load(d, weights + n * kLanes);
        weights += N * kLanes;
        const float* q = dy + c;
        PIPPIN_UNROLL for (int r = 0; r < R; ++r) {
            if (r % 3 == 0) PIPPIN_IN_REGISTER(q);
            const V g = hn::Set(d, q[r % 3 * row]);
            PIPPIN_UNROLL for (int n = 0; n < N; ++n) sum[r][n] = hn::MulAdd(w[n], g, sum[r][n]);
            if (r % 3 == 2) q += 3 * row;
        }
    }
    // The lanes behind the kernel's row stay as they are, even where dy is not finite.
    const int64_t used = s.g.kw * s.g.ci - (N - 1) * kLanes;
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(used));
    PIPPIN_UNROLL for (int r = 0; r < R; ++r) PIPPIN_UNROLL for (int n = 0; n < N; ++n) {
        float* to = dx + r * dx_row + n * kLanes;
        const V more = n == N - 1 ? hn::IfThenElseZero(mask, sum[r][n]) : sum[r][n];
        hn::StoreU(hn::Add(hn::LoadU(d, to), more), d, to);
    }
}

using InputTile = void (*)(const SmallConv&, const float*, const float*, float*, int64_t);

template <int N, int... R>
constexpr std::array<InputTile, sizeof...(R)> input_tiles(std::integer_sequence<int, R...>) {
    return {input_tile<R + 1, N>...};
}

template <int N>
void input_image(const SmallConv& s, const float* dy, const float* weights, float* dx) {
    constexpr int kMost = std::max(1, std::min(14, (kGradAccumulators - 4) / N));
    static constexpr auto tiles = input_tiles<N>(std::make_integer_sequence<int, kMost>());
    const int64_t row = (s.g.w + 2 * s.g.pad[1]) * s.g.ci, dx_row = row * s.stride;
    const int64_t dy_row = s.g.ow * s.g.co;
    const int64_t blocks = (s.g.oh + kMost - 1) / kMost;
    for (int64_t b = 0; b < blocks; ++b) {
        const int64_t i = s.g.oh * b / blocks, rows = s.g.oh * (b + 1) / blocks - i;
        const InputTile tile = tiles[static_cast<std::size_t>(rows - 1)];
        for (int64_t j = 0; j < s.g.ow; ++j)
            for (int64_t u = 0; u < s.g.kh; ++u)
                tile(s, dy + i * dy_row + j * s.g.co, weights + u * s.g.co * N * kLanes,
                     dx + (i * s.stride + u) * row + j * s.stride * s.g.ci, dx_row);
    }
}

void grad_input(const SmallConv& s, const float* dy_image, int vectors, const float* weights,
                float* padded_dx) {
    switch (vectors) {
        case 1:
            return input_image<1>(s, dy_image, weights, padded_dx);
        case 2:
            return input_image<2>(s, dy_image, weights, padded_dx);
        case 3:
            return input_image<3>(s, dy_image, weights, padded_dx);
        default:
            return input_image<4>(s, dy_image, weights, padded_dx);
    }
}

void backward_functions(SmallConvFunctions* f) {
    f->grad_weight_channels = grad_weight_channels;
    f->grad_weight_pixels = grad_weight_pixels;
    f->grad_input = grad_input;
}

}  // namespace HWY_NAMESPACE
}  // namespace pippin::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pippin::cpu {

HWY_EXPORT(backward_functions);
void small_conv_backward_functions(SmallConvFunctions* f) {
    HWY_DYNAMIC_DISPATCH(backward_functions)(f);
}

}  // namespace pippin::cpu
#endif
