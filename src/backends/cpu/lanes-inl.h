// Loads and stores of a part of a vector. Included once per Highway target.
#if defined(PIPPIN_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PIPPIN_LANES_INL_H_
#undef PIPPIN_LANES_INL_H_
#else
#define PIPPIN_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Elsewhere a masked load may touch (and a blended store may rewrite) what lies beyond the part,
// which can be another thread's or no memory at all.
#undef PIPPIN_MASKED_MEMORY
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_HAVE_SCALABLE
#define PIPPIN_MASKED_MEMORY 1
#else
#define PIPPIN_MASKED_MEMORY 0
#endif

/// The first `count` lanes from memory, zero in the others.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_part(D d, const T* from, std::size_t count) {
#if PIPPIN_MASKED_MEMORY
    return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#else
    HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)] = {};
    for (std::size_t i = 0; i < count; ++i)
        buffer[i] = from[i];
    return hn::Load(d, buffer);
#endif
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_part(hn::Vec<D> v, D d, T* to, std::size_t count) {
#if PIPPIN_MASKED_MEMORY
    hn::BlendedStore(v, hn::FirstN(d, count), d, to);
#else
    HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)];
    hn::Store(v, d, buffer);
    for (std::size_t i = 0; i < count; ++i)
        to[i] = buffer[i];
#endif
}

/// A whole vector of D's lanes, for any type of that size.
template <class D>
struct WholeVector {
    template <class T>
    HWY_INLINE auto load(const T* from) const {
        return hn::LoadU(hn::Rebind<T, D>(), from);
    }
    template <class V, class T>
    HWY_INLINE void store(V v, T* to) const {
        hn::StoreU(v, hn::Rebind<T, D>(), to);
    }
};

/// The first `count` lanes of one.
template <class D>
struct PartVector {
    std::size_t count;
    template <class T>
    HWY_INLINE auto load(const T* from) const {
        return load_part(hn::Rebind<T, D>(), from, count);
    }
    template <class V, class T>
    HWY_INLINE void store(V v, T* to) const {
        store_part(v, hn::Rebind<T, D>(), to, count);
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
