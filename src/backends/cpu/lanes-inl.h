// Loops over vectors, the last of which may be a part. Included once per Highway target.
#if defined(PIPPIN_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PIPPIN_LANES_INL_H_
#undef PIPPIN_LANES_INL_H_
#else
#define PIPPIN_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/cpu/vec_loops.h"
#include "hwy/highway.h"
#include "pippin/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// What elements of type T are computed in.
template <class T>
struct LaneOf {
    using type = T;
};
template <>
struct LaneOf<BFloat> {
    using type = float;
};
template <>
struct LaneOf<Half> {
    using type = float;
};

/// And how they are loaded.
template <class T>
struct MemoryOf {
    using type = T;
};
template <>
struct MemoryOf<BFloat> {
    using type = std::uint16_t;
};
template <>
struct MemoryOf<Half> {
#if PIPPIN_HAS_F16
    using type = hwy::float16_t;
#else
    using type = std::uint16_t;
#endif
};

#if !PIPPIN_HAS_F16
template <class DF, class V>
HWY_INLINE auto float_from_half_bits(DF df, V v) {
    const hn::Rebind<std::uint32_t, DF> du;
    const auto u = hn::PromoteTo(du, v);
    const auto shifted = hn::ShiftLeft<13>(hn::And(u, hn::Set(du, 0x7fff)));
    // the product also makes denormal halves right
    const auto f = hn::Mul(hn::BitCast(df, shifted), hn::Set(df, 0x1p112f));
    const auto special =
        hn::And(hn::BitCast(du, hn::VecFromMask(df, hn::Ge(f, hn::Set(df, 65536.0f)))),
                hn::Set(du, 0x7f800000));
    const auto sign = hn::ShiftLeft<16>(hn::And(u, hn::Set(du, 0x8000)));
    return hn::BitCast(df, hn::Or(hn::BitCast(du, f), hn::Or(special, sign)));
}

template <class DF, class V>
HWY_INLINE auto half_bits_from_float(DF df, V v) {
    const hn::Rebind<std::uint32_t, DF> du;
    const hn::Rebind<std::int32_t, DF> di;
    const auto bits = hn::BitCast(du, v);
    const auto a = hn::And(bits, hn::Set(du, 0x7fffffff));
    const auto sign = hn::ShiftRight<16>(hn::Xor(bits, a));
    const auto odd = hn::And(hn::ShiftRight<13>(a), hn::Set(du, 1));
    const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(a, hn::Set(du, 0xc8000fff)), odd));
    // a denormal half: this addition rounds it in place
    const auto shifted = hn::Add(hn::BitCast(df, a), hn::Set(df, 0.5f));
    const auto denormal = hn::Sub(hn::BitCast(du, shifted), hn::Set(du, 0x3f000000));
    const auto as_int = hn::BitCast(di, a);  // the sign is off: signed comparisons do
    const auto above = [&](std::int32_t limit) {
        return hn::RebindMask(du, hn::Gt(as_int, hn::Set(di, limit)));
    };
    auto r = hn::IfThenElse(above(0x387fffff), normal, denormal);
    r = hn::IfThenElse(above(0x477fffff), hn::Set(du, 0x7c00), r);
    r = hn::IfThenElse(above(0x7f800000), hn::Set(du, 0x7e00), r);
    return hn::DemoteTo(hn::Rebind<std::uint16_t, DF>(), hn::BitCast(di, hn::Or(r, sign)));
}
#endif

template <class D, class T, class V>
HWY_INLINE auto widened(V v) {
    if constexpr (std::is_same_v<T, BFloat>) {
        const hn::Rebind<std::uint32_t, D> du;
        return hn::BitCast(hn::Rebind<float, D>(), hn::ShiftLeft<16>(hn::PromoteTo(du, v)));
    } else if constexpr (std::is_same_v<T, Half>) {
#if PIPPIN_HAS_F16
        return hn::PromoteTo(hn::Rebind<float, D>(), v);
#else
        return float_from_half_bits(hn::Rebind<float, D>(), v);
#endif
    } else {
        return v;
    }
}

/// Rounds to nearest even; NaN stays NaN.
template <class D, class T, class V>
HWY_INLINE auto narrowed(V v) {
    if constexpr (std::is_same_v<T, BFloat>) {
        const hn::Rebind<float, D> df;
        const hn::Rebind<std::uint32_t, D> du;
        const hn::Rebind<std::int32_t, D> di;
        const auto bits = hn::BitCast(du, v);
        const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
        const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
        const auto nan = hn::Or(bits, hn::Set(du, 0x400000));
        const auto is_nan = hn::RebindMask(du, hn::IsNaN(hn::BitCast(df, v)));
        const auto chosen = hn::ShiftRight<16>(hn::IfThenElse(is_nan, nan, rounded));
        return hn::DemoteTo(hn::Rebind<std::uint16_t, D>(), hn::BitCast(di, chosen));
    } else if constexpr (std::is_same_v<T, Half>) {
#if PIPPIN_HAS_F16
        return hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v);
#else
        return half_bits_from_float(hn::Rebind<float, D>(), v);
#endif
    } else {
        return v;
    }
}

/// A whole vector of D's lanes. Halves are float32 once they are loaded.
template <class D>
struct WholeVector {
    template <class T>
    HWY_INLINE auto load(const T* from) const {
        using M = typename MemoryOf<T>::type;
        return widened<D, T>(hn::LoadU(hn::Rebind<M, D>(), reinterpret_cast<const M*>(from)));
    }
    template <class V, class T>
    HWY_INLINE void store(V v, T* to) const {
        using M = typename MemoryOf<T>::type;
        hn::StoreU(narrowed<D, T>(v), hn::Rebind<M, D>(), reinterpret_cast<M*>(to));
    }
};

/// The first `count` lanes of one.
template <class D>
struct PartVector {
    std::size_t count;
    template <class T>
    HWY_INLINE auto load(const T* from) const {
        using M = typename MemoryOf<T>::type;
        return widened<D, T>(
            load_part(hn::Rebind<M, D>(), reinterpret_cast<const M*>(from), count));
    }
    template <class V, class T>
    HWY_INLINE void store(V v, T* to) const {
        using M = typename MemoryOf<T>::type;
        store_part(narrowed<D, T>(v), hn::Rebind<M, D>(), reinterpret_cast<M*>(to), count);
    }
};

/// Calls f(first, vector) for the whole vectors of a range and then for the part that is left.
template <class D, class F>
HWY_INLINE void over_vectors(D d, std::int64_t extent, const F& f) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t i = 0;
    for (; i + lanes <= extent; i += lanes)
        f(i, WholeVector<D>());
    if (i < extent) f(i, PartVector<D>{static_cast<std::size_t>(extent - i)});
}

}  // namespace HWY_NAMESPACE
}  // namespace pippin::cpu
HWY_AFTER_NAMESPACE();

#endif
