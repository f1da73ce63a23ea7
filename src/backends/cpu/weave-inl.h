// Planes of channels woven into NHWC and back. Included once per Highway target.
#if defined(PIPPIN_WEAVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PIPPIN_WEAVE_INL_H_
#undef PIPPIN_WEAVE_INL_H_
#else
#define PIPPIN_WEAVE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

// Full unrolling of loops whose extents are template parameters keeps their arrays in registers.
#ifndef PIPPIN_UNROLL
#if defined(__clang__)
#define PIPPIN_UNROLL _Pragma("unroll")
#else
#define PIPPIN_UNROLL _Pragma("GCC unroll 32")
#endif
#endif

// Keeps an address in a register of its own; compilers otherwise precompute every offset from it
// outside of the loop and spill what they computed.
#ifndef PIPPIN_IN_REGISTER
#if defined(__GNUC__)
#define PIPPIN_IN_REGISTER(pointer) asm("" : "+r"(pointer))
#else
#define PIPPIN_IN_REGISTER(pointer)
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// A vector of at most 16 floats.
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

#if HWY_TARGET == HWY_SCALAR

template <int C>
HWY_INLINE void weave(D d, const V* v, float* to) {
    for (int c = 0; c < C; ++c)
        hn::StoreU(v[c], d, to + c);
}
template <int C>
HWY_INLINE void unweave(D d, const float* from, V* v) {
    for (int c = 0; c < C; ++c)
        v[c] = hn::LoadU(d, from + c);
}

#else

// Interleaving works within blocks of 16 bytes; this deals lanes out to the blocks beforehand.
struct DealtLanes {
    alignas(64) std::int32_t at[kLanes] = {};
    constexpr DealtLanes() {
        for (int i = 0; i < kLanes; ++i)
            at[i] = i % 4 < 2 ? i / 4 * 2 + i % 4 : kLanes / 2 + i / 4 * 2 + i % 4 - 2;
    }
};
inline constexpr DealtLanes kDealtLanes;

// Two vectors a, b as pairs (a0, b0), (a1, b1), ... in order: the first half and the second.
template <class W>
HWY_INLINE void pair_up(D d, W wide, V a, V b, hn::Vec<W>* low, hn::Vec<W>* high) {
    const auto indices = hn::SetTableIndices(d, kDealtLanes.at);
    const V x = hn::TableLookupLanes(a, indices), y = hn::TableLookupLanes(b, indices);
    *low = hn::BitCast(wide, hn::InterleaveLower(d, x, y));
    *high = hn::BitCast(wide, hn::InterleaveUpper(d, x, y));
}

/// Writes Lanes(d) pixels of C channels.
template <int C>
HWY_INLINE void weave(D d, const V* v, float* to) {
    if constexpr (C == 1) {
        hn::StoreU(v[0], d, to);
    } else if constexpr (C == 2) {
        hn::StoreInterleaved2(v[0], v[1], d, to);
    } else if constexpr (C == 3) {
        hn::StoreInterleaved3(v[0], v[1], v[2], d, to);
    } else if constexpr (C == 4) {
        hn::StoreInterleaved4(v[0], v[1], v[2], v[3], d, to);
    } else {
        const hn::Repartition<std::uint64_t, D> wide;
        hn::Vec<decltype(wide)> low[C / 2], high[C / 2];
        PIPPIN_UNROLL for (int p = 0; p < C / 2; ++p)
            pair_up(d, wide, v[2 * p], v[2 * p + 1], &low[p], &high[p]);
        auto* pairs = reinterpret_cast<std::uint64_t*>(to);
        const std::size_t half = hn::Lanes(wide) * (C / 2);
        if constexpr (C == 6) {
            hn::StoreInterleaved3(low[0], low[1], low[2], wide, pairs);
            hn::StoreInterleaved3(high[0], high[1], high[2], wide, pairs + half);
        } else {
            static_assert(C == 8);
            hn::StoreInterleaved4(low[0], low[1], low[2], low[3], wide, pairs);
            hn::StoreInterleaved4(high[0], high[1], high[2], high[3], wide, pairs + half);
        }
    }
}

/// Reads Lanes(d) pixels of C channels.
template <int C>
HWY_INLINE void unweave(D d, const float* from, V* v) {
    if constexpr (C == 1) {
        v[0] = hn::LoadU(d, from);
    } else if constexpr (C == 2) {
        hn::LoadInterleaved2(d, from, v[0], v[1]);
    } else if constexpr (C == 3) {
        hn::LoadInterleaved3(d, from, v[0], v[1], v[2]);
    } else if constexpr (C == 4) {
        hn::LoadInterleaved4(d, from, v[0], v[1], v[2], v[3]);
    } else {
        const hn::Repartition<std::uint64_t, D> wide;
        hn::Vec<decltype(wide)> low[C / 2], high[C / 2];
        const auto* pairs = reinterpret_cast<const std::uint64_t*>(from);
        const std::size_t half = hn::Lanes(wide) * (C / 2);
        if constexpr (C == 6) {
            hn::LoadInterleaved3(wide, pairs, low[0], low[1], low[2]);
            hn::LoadInterleaved3(wide, pairs + half, high[0], high[1], high[2]);
        } else {
            static_assert(C == 8);
            hn::LoadInterleaved4(wide, pairs, low[0], low[1], low[2], low[3]);
            hn::LoadInterleaved4(wide, pairs + half, high[0], high[1], high[2], high[3]);
        }
        PIPPIN_UNROLL for (int p = 0; p < C / 2; ++p) {
            const V a = hn::BitCast(d, low[p]), b = hn::BitCast(d, high[p]);
            v[2 * p] = hn::ConcatEven(d, b, a);
            v[2 * p + 1] = hn::ConcatOdd(d, b, a);
        }
    }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace pippin::cpu
HWY_AFTER_NAMESPACE();

#endif
