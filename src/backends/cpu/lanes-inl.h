// Loops over vectors, the last of which may be a part. Included once per Highway target.
#if defined(PIPPIN_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PIPPIN_LANES_INL_H_
#undef PIPPIN_LANES_INL_H_
#else
#define PIPPIN_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "backends/cpu/vec_loops.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

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
