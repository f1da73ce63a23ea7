// Vector code of small matrix products.
#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/matmul_small.h"
// First among Highway's headers, for it says which targets there are.
#include "backends/cpu/vec_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/matmul_tiles.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "backends/cpu/activation-inl.h"
#include "backends/cpu/lanes-inl.h"
#include "backends/cpu/weave-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu {
namespace HWY_NAMESPACE {

using std::int64_t;

// Accumulators that fit into registers beside what is multiplied.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kSums = 24;
#else
inline constexpr int kSums = 12;
#endif
inline constexpr int kPanelVectors = 3;

// B's columns of one panel: rows of N vectors, `step` apart.
struct Panel {
    const float* b;
    int64_t step;
    int64_t columns;
};

// R rows x N vectors of columns. kPart: the last vector is not full.
template <int R, int N, bool kPart>
void product_tile(const SmallProduct& p, const Panel& panel, int64_t row, int64_t column) {
    const D d;
    const auto rest = static_cast<std::size_t>(panel.columns - (N - 1) * kLanes);
    V sum[R][N];
    PIPPIN_UNROLL for (int r = 0; r < R; ++r) PIPPIN_UNROLL for (int n = 0; n < N; ++n) sum[r][n] =
        hn::Zero(d);
    const float *a = p.a + row * p.a_row, *b = panel.b;
    const int64_t a_row = p.a_row, a_col = p.a_col;
    for (int64_t k = 0; k < p.k; ++k) {
        V w[N];
        PIPPIN_UNROLL for (int n = 0; n < N; ++n) w[n] =
            kPart && n == N - 1 ? load_part(d, b + n * kLanes, rest) : hn::LoadU(d, b + n * kLanes);
        b += panel.step;
        const float* q = a;
        PIPPIN_UNROLL for (int r = 0; r < R; ++r) {
            if (r % 3 == 0) PIPPIN_IN_REGISTER(q);
            const V x = hn::Set(d, q[r % 3 * a_row]);
            PIPPIN_UNROLL for (int n = 0; n < N; ++n) sum[r][n] = hn::MulAdd(w[n], x, sum[r][n]);
            if (r % 3 == 2) q += 3 * a_row;
        }
        a += a_col;
    }
    float* c = p.c + row * p.c_row + column;
    PIPPIN_UNROLL for (int n = 0; n < N; ++n) {
        const bool part = kPart && n == N - 1;
        const auto load = [&](const float* from) HWY_ATTR {
            return part ? load_part(d, from, rest) : hn::LoadU(d, from);
        };
        const V bias = p.bias ? load(p.bias + column + n * kLanes) : hn::Zero(d);
        PIPPIN_UNROLL for (int r = 0; r < R; ++r) {
            V v = hn::Add(sum[r][n], bias);
            if (p.residual)
                v = hn::Add(v, load(p.residual + (row + r) * p.residual_row + column + n * kLanes));
            float* to = c + r * p.c_row + n * kLanes;
            if (part)
                store_part(v, d, to, rest);
            else
                hn::StoreU(v, d, to);
        }
    }
    if (p.activation == plan::Activation::None) return;
    for (int r = 0; r < R; ++r)
        activate(c + r * p.c_row, panel.columns, p.activation);
}

using ProductTile = void (*)(const SmallProduct&, const Panel&, int64_t, int64_t);

template <int N, bool kPart, int... R>
constexpr std::array<ProductTile, sizeof...(R)> product_tiles(std::integer_sequence<int, R...>) {
    return {product_tile<R + 1, N, kPart>...};
}

template <int N, bool kPart>
void product_rows(const SmallProduct& p, const Panel& panel, int64_t column) {
    constexpr int kMost = std::min(14, kSums / N);
    static constexpr auto tiles = product_tiles<N, kPart>(std::make_integer_sequence<int, kMost>());
    const int64_t blocks = (p.m + kMost - 1) / kMost;
    for (int64_t i = 0; i < blocks; ++i) {
        const int64_t row = p.m * i / blocks, rows = p.m * (i + 1) / blocks - row;
        tiles[static_cast<std::size_t>(rows - 1)](p, panel, row, column);
    }
}

// Columns of B, which lie one behind the other in memory, into rows of N vectors; zero behind the
// last.
template <int N>
void pack(const SmallProduct& p, int64_t column, int64_t columns) {
    constexpr int64_t kWidth = N * kLanes;
    const float* b = p.b + column * p.b_col;
    int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::FixedTag<float, 4> d4;
    const hn::RepartitionToWide<decltype(d4)> d2;
    for (; j + 4 <= columns; j += 4) {
        const float* from = b + j * p.b_col;
        float* to = p.panel + j;
        int64_t k = 0;
        for (; k + 4 <= p.k; k += 4, from += 4, to += 4 * kWidth) {
            const auto r0 = hn::LoadU(d4, from), r1 = hn::LoadU(d4, from + p.b_col);
            const auto r2 = hn::LoadU(d4, from + 2 * p.b_col);
            const auto r3 = hn::LoadU(d4, from + 3 * p.b_col);
            // Pairs (r0, r1) and (r2, r3), then both together.
            const auto l0 = hn::BitCast(d2, hn::InterleaveLower(d4, r0, r1));
            const auto u0 = hn::BitCast(d2, hn::InterleaveUpper(d4, r0, r1));
            const auto l1 = hn::BitCast(d2, hn::InterleaveLower(d4, r2, r3));
            const auto u1 = hn::BitCast(d2, hn::InterleaveUpper(d4, r2, r3));
            hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, l0, l1)), d4, to);
            hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, l0, l1)), d4, to + kWidth);
            hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, u0, u1)), d4, to + 2 * kWidth);
            hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, u0, u1)), d4, to + 3 * kWidth);
        }
        for (; k < p.k; ++k, ++from, to += kWidth)
            for (int64_t i = 0; i < 4; ++i)
                to[i] = from[i * p.b_col];
    }
#endif
    for (; j < columns; ++j)
        for (int64_t k = 0; k < p.k; ++k)
            p.panel[k * kWidth + j] = b[j * p.b_col + k];
    if (columns < kWidth)
        for (int64_t k = 0; k < p.k; ++k)
            std::fill(p.panel + k * kWidth + columns, p.panel + (k + 1) * kWidth, 0.f);
}

template <int N>
void product_panel(const SmallProduct& p, int64_t column) {
    const int64_t columns = std::min<int64_t>(N * kLanes, p.n - column);
    const bool part = columns < N * kLanes;
    Panel panel{p.b + column, p.b_row, columns};
    if (p.b_col != 1) {
        pack<N>(p, column, columns);
        panel = {p.panel, N * kLanes, columns};
    }
    if (part)
        product_rows<N, true>(p, panel, column);
    else
        product_rows<N, false>(p, panel, column);
}

void small_product(const SmallProduct& p) {
    int64_t vectors = (p.n + kLanes - 1) / kLanes;
    int64_t column = 0;
    // As even as can be: 4 are 2 and 2 and not 3 and 1.
    for (int64_t panels = (vectors + kPanelVectors - 1) / kPanelVectors; panels > 0; --panels) {
        const int64_t n = (vectors + panels - 1) / panels;
        switch (n) {
            case 1:
                product_panel<1>(p, column);
                break;
            case 2:
                product_panel<2>(p, column);
                break;
            default:
                product_panel<3>(p, column);
                break;
        }
        column += n * kLanes;
        vectors -= n;
    }
}

void product_functions(SmallProductFunctions* f) {
    f->lanes = kLanes;
    f->panel_vectors = kPanelVectors;
    f->run = small_product;
}

}  // namespace HWY_NAMESPACE
}  // namespace pippin::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pippin::cpu {

HWY_EXPORT(product_functions);
SmallProductFunctions small_product_functions() {
    SmallProductFunctions f{};
    HWY_DYNAMIC_DISPATCH(product_functions)(&f);
    return f;
}

}  // namespace pippin::cpu
#endif
