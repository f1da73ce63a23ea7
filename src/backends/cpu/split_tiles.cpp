#include "backends/cpu/split_tiles.h"

#include <algorithm>
#include <cstddef>

#include "backends/cpu/amx.h"
#include "pippin/error.h"

#ifdef PIPPIN_HAS_AMX

#ifndef __clang__
// GCC 12 takes its own headers' undefined registers for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#define PIPPIN_AMX __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16")))

namespace pippin::cpu::split {

namespace {

using std::int64_t;

// From here on a product of two might overflow where float32's would not, or be no number.
constexpr unsigned kTooLarge = (127u + 60u) << 23;

// A number in three parts, each in the upper half of its 32 bits.
struct Parts {
    __m512i part[3];
};

PIPPIN_AMX inline Parts parts_of(__m512 v, __m512i& largest) {
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32(-0x10000);
    largest = _mm512_max_epu32(
        largest, _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff)));
    Parts p;
    // Rounded to 8 bits; what is left is exact, and the third time nothing is left.
    p.part[0] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(v), half), upper);
    const __m512 rest = _mm512_sub_ps(v, _mm512_castsi512_ps(p.part[0]));
    p.part[1] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(rest), half), upper);
    p.part[2] = _mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(p.part[1])));
    return p;
}

PIPPIN_AMX inline void note(__m512i largest, Range& range) {
    if (_mm512_cmpge_epu32_mask(largest, _mm512_set1_epi32(static_cast<int>(kTooLarge))) != 0)
        range.good = false;
}

// The upper halves of 16 numbers and of the next 16, in order.
PIPPIN_AMX inline __m512i upper_halves(__m512i first, __m512i second, __m512i order) {
    return _mm512_permutex2var_epi16(first, order, second);
}
PIPPIN_AMX inline __m512i order_of_halves() {
    alignas(64) short order[32];
    for (short i = 0; i < 32; ++i)
        order[i] = static_cast<short>(2 * i + 1);
    return _mm512_load_si512(order);
}

PIPPIN_AMX inline __mmask16 first_lanes(int64_t n) {
    return n >= 16 ? __mmask16(0xffff) : n <= 0 ? __mmask16(0) : __mmask16((1u << n) - 1);
}

// 16 rows of 16 numbers of 32 bits become columns.
PIPPIN_AMX void transpose(__m512i v[16]) {
    __m512i t[16];
    for (int i = 0; i < 8; ++i) {
        t[2 * i] = _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    for (int i = 0; i < 4; ++i) {
        v[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        v[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        v[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        v[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int j = 0; j < 4; ++j) {
        t[j] = _mm512_shuffle_i32x4(v[j], v[4 + j], 0x88);
        t[4 + j] = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0x88);
        t[8 + j] = _mm512_shuffle_i32x4(v[j], v[4 + j], 0xdd);
        t[12 + j] = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0xdd);
    }
    for (int j = 0; j < 4; ++j) {
        v[j] = _mm512_shuffle_i32x4(t[j], t[4 + j], 0x88);
        v[8 + j] = _mm512_shuffle_i32x4(t[j], t[4 + j], 0xdd);
        v[4 + j] = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0x88);
        v[12 + j] = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0xdd);
    }
}

// 16 rows x 16 columns of a source whose columns are contiguous, as its transpose; parts beyond
// `rows` and `columns` are 0.
PIPPIN_AMX inline void load_transposed(const float* at, int64_t step, int64_t rows, int64_t columns,
                                       __m512i v[16]) {
    const __mmask16 lanes = first_lanes(columns);
    for (int64_t i = 0; i < 16; ++i)
        v[i] = i < rows ? _mm512_castps_si512(_mm512_maskz_loadu_ps(lanes, at + i * step))
                        : _mm512_setzero_si512();
    transpose(v);
}

}  // namespace

PIPPIN_AMX void split_rows(const Source& a, int64_t rows, int64_t depth, const Rows& to,
                           Range& range) {
    const __m512i order = order_of_halves();
    __m512i largest = _mm512_setzero_si512();
    if (a.column == 1) {
        // Some rows at a time, so that memory is read as it lies.
        for (int64_t r0 = 0; r0 < rows; r0 += kTile)
            for (int64_t k = 0; k < depth; k += kDepth) {
                std::byte* const at = to.at + k / kDepth * to.depth_bytes;
                const __mmask16 low = first_lanes(depth - k), high = first_lanes(depth - k - 16);
                for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r) {
                    const float* from = a.at + r * a.row + k;
                    const Parts x = parts_of(_mm512_maskz_loadu_ps(low, from), largest);
                    const Parts y = parts_of(_mm512_maskz_loadu_ps(high, from + 16), largest);
                    for (int p = 0; p < 3; ++p)
                        _mm512_storeu_si512(at + r * to.row_bytes + p * to.part_bytes,
                                            upper_halves(x.part[p], y.part[p], order));
                }
            }
        return note(largest, range);
    }
    for (int64_t k = 0; k < depth; k += kDepth) {
        std::byte* const at = to.at + k / kDepth * to.depth_bytes;
        // Rows are contiguous: read across, turned.
        for (int64_t r = 0; r < rows; r += kTile) {
            __m512i x[16], y[16];
            const float* from = a.at + r + k * a.column;
            load_transposed(from, a.column, depth - k, rows - r, x);
            load_transposed(from + 16 * a.column, a.column, depth - k - 16, rows - r, y);
            for (int64_t i = 0; i < kTile; ++i) {
                const Parts u = parts_of(_mm512_castsi512_ps(x[i]), largest);
                const Parts v = parts_of(_mm512_castsi512_ps(y[i]), largest);
                for (int p = 0; p < 3; ++p)
                    _mm512_storeu_si512(at + (r + i) * to.row_bytes + p * to.part_bytes,
                                        upper_halves(u.part[p], v.part[p], order));
            }
        }
    }
    note(largest, range);
}

PIPPIN_AMX void split_pixels(const Pixels& a, int64_t rows, int64_t depth, const Rows& to,
                             Range& range) {
    const __m512i order = order_of_halves();
    __m512i largest = _mm512_setzero_si512();
    for (int64_t r0 = 0; r0 < rows; r0 += kTile)
        for (int64_t k = 0; k < depth; k += kDepth) {
            std::byte* const at = to.at + k / kDepth * to.depth_bytes;
            const __mmask16 low = first_lanes(depth - k), high = first_lanes(depth - k - 16);
            for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r) {
                const bool none = a.pixels[r] < 0;
                const float* from = none ? a.at : a.at + a.pixels[r] * a.step + k;
                const Parts x =
                    parts_of(_mm512_maskz_loadu_ps(none ? __mmask16(0) : low, from), largest);
                const Parts y =
                    parts_of(_mm512_maskz_loadu_ps(none ? __mmask16(0) : high, from + 16), largest);
                for (int p = 0; p < 3; ++p)
                    _mm512_storeu_si512(at + r * to.row_bytes + p * to.part_bytes,
                                        upper_halves(x.part[p], y.part[p], order));
            }
        }
    note(largest, range);
}

PIPPIN_AMX void split_turned(const Pixels& a, int64_t channels, int64_t count, const Rows& to,
                             Range& range) {
    const __m512i order = order_of_halves();
    const __mmask16 lanes = first_lanes(channels);
    __m512i largest = _mm512_setzero_si512();
    __m512i half[2][16];
    for (int64_t i = 0; i < kDepth; ++i) {
        const std::int32_t pixel = i < count ? a.pixels[i] : -1;
        half[i / 16][i % 16] =
            pixel < 0 ? _mm512_setzero_si512()
                      : _mm512_castps_si512(_mm512_maskz_loadu_ps(lanes, a.at + pixel * a.step));
    }
    transpose(half[0]);
    transpose(half[1]);
    for (int64_t r = 0; r < kTile; ++r) {
        const Parts u = parts_of(_mm512_castsi512_ps(half[0][r]), largest);
        const Parts v = parts_of(_mm512_castsi512_ps(half[1][r]), largest);
        for (int p = 0; p < 3; ++p)
            _mm512_storeu_si512(to.at + r * to.row_bytes + p * to.part_bytes,
                                upper_halves(u.part[p], v.part[p], order));
    }
    note(largest, range);
}

PIPPIN_AMX void split_pairs(const Pixels& b, int64_t channels, int64_t first, int64_t last,
                            std::byte* even, std::byte* odd, int64_t part_bytes, Range& range) {
    const __m512i upper = _mm512_set1_epi32(-0x10000);
    const __mmask16 lanes = first_lanes(channels);
    __m512i largest = _mm512_setzero_si512();
    Parts last_parts{};
    for (int64_t q = first; q <= last; ++q) {
        const std::int32_t pixel = b.pixels[q];
        Parts x{{_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()}};
        if (pixel >= 0) x = parts_of(_mm512_maskz_loadu_ps(lanes, b.at + pixel * b.step), largest);
        if (std::byte* at = (q - 1) % 2 == 0 ? even : odd; q > first && at) {
            at += (q - 1) / 2 * 64;
            for (int p = 0; p < 3; ++p)
                _mm512_storeu_si512(at + p * part_bytes,
                                    _mm512_or_si512(_mm512_srli_epi32(last_parts.part[p], 16),
                                                    _mm512_and_si512(x.part[p], upper)));
        }
        last_parts = x;
    }
    note(largest, range);
}

PIPPIN_AMX void gather(const float* from, int64_t step, int64_t count, float* to) {
    const __m512i at =
        _mm512_mullo_epi32(_mm512_set1_epi32(static_cast<int>(step)),
                           _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    for (int64_t i = 0; i < count; i += 16) {
        const __mmask16 lanes = first_lanes(count - i);
        _mm512_mask_storeu_ps(
            to + i, lanes,
            _mm512_mask_i32gather_ps(_mm512_setzero_ps(), lanes, at, from + i * step, 4));
    }
}

PIPPIN_AMX void split_columns(const Source& b, int64_t depth, int64_t columns, std::byte* to,
                              Range& range) {
    const __m512i order = order_of_halves(), upper = _mm512_set1_epi32(-0x10000);
    __m512i largest = _mm512_setzero_si512();
    for (int64_t k = 0; k < depth; k += kDepth, to += kPanelBytes) {
        for (int64_t t = 0; t < 2; ++t) {
            const int64_t n = t * kTile, wide = columns - n;
            std::byte* const at = to + t * kTileBytes;
            if (b.column == 1) {
                // A row of a tile has two rows of B, number by number.
                const __mmask16 lanes = first_lanes(wide);
                for (int64_t i = 0; i < kTile; ++i) {
                    const int64_t row = k + 2 * i;
                    const float* from = b.at + row * b.row + n;
                    const Parts x = parts_of(
                        _mm512_maskz_loadu_ps(row < depth ? lanes : __mmask16(0), from), largest);
                    const Parts y = parts_of(
                        _mm512_maskz_loadu_ps(row + 1 < depth ? lanes : __mmask16(0), from + b.row),
                        largest);
                    for (int p = 0; p < 3; ++p)
                        _mm512_storeu_si512(at + p * 2 * kTileBytes + i * 64,
                                            _mm512_or_si512(_mm512_srli_epi32(x.part[p], 16),
                                                            _mm512_and_si512(y.part[p], upper)));
                }
                continue;
            }
            __m512i v[3][16];
            const __mmask16 low = first_lanes(depth - k), high = first_lanes(depth - k - 16);
            for (int64_t i = 0; i < kTile; ++i) {
                const float* from = b.at + (n + i) * b.column + k;
                const __mmask16 l = i < wide ? low : __mmask16(0),
                                h = i < wide ? high : __mmask16(0);
                const Parts x = parts_of(_mm512_maskz_loadu_ps(l, from), largest);
                const Parts y = parts_of(_mm512_maskz_loadu_ps(h, from + 16), largest);
                for (int p = 0; p < 3; ++p)
                    v[p][i] = upper_halves(x.part[p], y.part[p], order);
            }
            for (int p = 0; p < 3; ++p) {
                transpose(v[p]);
                for (int64_t i = 0; i < kTile; ++i)
                    _mm512_storeu_si512(at + p * 2 * kTileBytes + i * 64, v[p][i]);
            }
        }
    }
    note(largest, range);
}

namespace {

struct alignas(64) Config {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// Not on the stack: the compiler does not know that all of it is read.
constexpr Config config;

PIPPIN_AMX void set_up() { _tile_loadconfig(&config); }
PIPPIN_AMX void release() { _tile_release(); }

// Tiles 0 to 3 are C's, 4 and 5 A's, 6 and 7 B's. Small products are added first, and from one
// pair of parts to the next one of the two stays.
PIPPIN_AMX inline void sum_up(const Product& p) {
    const int64_t row = p.a.row_bytes, part = p.a.part_bytes;
    const int64_t b_tile = p.b.tile_bytes, b_part = p.b.part_bytes;
    const std::byte *b = p.b.at, *ahead = p.ahead;
    for (int64_t t = 0; t < p.tap_count; ++t) {
        const std::byte* a = p.a.at + p.taps[t];
        for (int64_t k = 0; k < p.depths; ++k, a += p.a.depth_bytes, b += p.b.depth_bytes) {
#define PIPPIN_LOAD_A(n)               \
    _tile_loadd(4, a + (n)*part, row); \
    _tile_loadd(5, a + (n)*part + kTile * row, row)
#define PIPPIN_LOAD_B(n)                \
    _tile_loadd(6, b + (n)*b_part, 64); \
    _tile_loadd(7, b + (n)*b_part + b_tile, 64)
#define PIPPIN_MULTIPLY()    \
    _tile_dpbf16ps(0, 4, 6); \
    _tile_dpbf16ps(1, 4, 7); \
    _tile_dpbf16ps(2, 5, 6); \
    _tile_dpbf16ps(3, 5, 7)
            PIPPIN_LOAD_A(0);
            PIPPIN_LOAD_B(2);
            PIPPIN_MULTIPLY();
            PIPPIN_LOAD_B(1);
            PIPPIN_MULTIPLY();
            PIPPIN_LOAD_A(1);
            PIPPIN_MULTIPLY();
            PIPPIN_LOAD_B(0);
            PIPPIN_MULTIPLY();
            PIPPIN_LOAD_A(2);
            PIPPIN_MULTIPLY();
            for (int64_t i = 0; i < p.ahead_lines; ++i, ahead += 64)
                _mm_prefetch(ahead, _MM_HINT_T1);
            PIPPIN_LOAD_A(0);
            PIPPIN_MULTIPLY();
#undef PIPPIN_LOAD_A
#undef PIPPIN_LOAD_B
#undef PIPPIN_MULTIPLY
        }
    }
}

PIPPIN_AMX inline void load_sums(const float* c, int64_t row) {
    _tile_loadd(0, c, row * 4);
    _tile_loadd(1, c + kTile, row * 4);
    _tile_loadd(2, c + kTile * row, row * 4);
    _tile_loadd(3, c + kTile * row + kTile, row * 4);
}
PIPPIN_AMX inline void store_sums(float* c, int64_t row) {
    _tile_stored(0, c, row * 4);
    _tile_stored(1, c + kTile, row * 4);
    _tile_stored(2, c + kTile * row, row * 4);
    _tile_stored(3, c + kTile * row + kTile, row * 4);
}
PIPPIN_AMX inline void zero_sums() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

}  // namespace

Tiles::Tiles() { set_up(); }
Tiles::~Tiles() { release(); }

PIPPIN_AMX void Tiles::run(const Product& p, int64_t rows, int64_t columns,
                           const Output& out) const {
    const bool whole = rows == kBlock && columns == kBlock;
    if (whole && !out.to_rows && !out.bias && !out.residual && !out.relu) {
        if (out.adds)
            load_sums(out.c, out.c_row);
        else
            zero_sums();
        sum_up(p);
        store_sums(out.c, out.c_row);
        return;
    }
    alignas(64) float sums[kBlock * kBlock];
    if (out.residual)  // it comes from memory while products are summed
        for (int64_t r = 0; r < rows; ++r) {
            const int64_t to = out.to_rows ? out.to_rows[r] : r;
            if (to < 0) continue;
            const auto* const at =
                reinterpret_cast<const char*>(out.residual + to * out.residual_row);
            _mm_prefetch(at, _MM_HINT_T0);
            _mm_prefetch(at + 64, _MM_HINT_T0);
        }
    zero_sums();
    sum_up(p);
    store_sums(sums, kBlock);
    for (int64_t half = 0; half < 2; ++half) {
        const int64_t n = half * kTile;
        const __mmask16 lanes = first_lanes(columns - n);
        if (lanes == 0) break;
        const __m512 bias =
            out.bias ? _mm512_maskz_loadu_ps(lanes, out.bias + n) : _mm512_setzero_ps();
        for (int64_t r = 0; r < rows; ++r) {
            const int64_t to = out.to_rows ? out.to_rows[r] : r;
            if (to < 0) continue;
            float* const c = out.c + to * out.c_row + n;
            __m512 v = _mm512_load_ps(sums + r * kBlock + n);
            if (out.adds) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(lanes, c));
            if (out.bias) v = _mm512_add_ps(v, bias);
            if (out.residual)
                v = _mm512_add_ps(
                    v, _mm512_maskz_loadu_ps(lanes, out.residual + to * out.residual_row + n));
            // NaN stays.
            if (out.relu)
                v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ),
                                       _mm512_setzero_ps());
            _mm512_mask_storeu_ps(c, lanes, v);
        }
    }
}

}  // namespace pippin::cpu::split

#else

namespace pippin::cpu::split {

// has_amx() says no, so that nobody comes here.
namespace {
[[noreturn]] void absent() { throw Error("this build has no code for matrix units"); }
}  // namespace
void split_rows(const Source&, std::int64_t, std::int64_t, const Rows&, Range&) { absent(); }
void split_columns(const Source&, std::int64_t, std::int64_t, std::byte*, Range&) { absent(); }
void split_pixels(const Pixels&, std::int64_t, std::int64_t, const Rows&, Range&) { absent(); }
void split_turned(const Pixels&, std::int64_t, std::int64_t, const Rows&, Range&) { absent(); }
void split_pairs(const Pixels&, std::int64_t, std::int64_t, std::int64_t, std::byte*, std::byte*,
                 std::int64_t, Range&) {
    absent();
}
void gather(const float*, std::int64_t, std::int64_t, float*) { absent(); }
Tiles::Tiles() { absent(); }
Tiles::~Tiles() {}
void Tiles::run(const Product&, std::int64_t, std::int64_t, const Output&) const { absent(); }

}  // namespace pippin::cpu::split

#endif
