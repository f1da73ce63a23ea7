// Loops over blocks of elements, for the instruction set being compiled (Highway's foreach_target).
// The output may be one of the inputs: every element is read before it is written, once.

// Included once per instruction set, hence no #pragma once.
#if defined(PIPPIN_CPU_VEC_LOOPS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PIPPIN_CPU_VEC_LOOPS_H
#undef PIPPIN_CPU_VEC_LOOPS_H
#else
#define PIPPIN_CPU_VEC_LOOPS_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstring>

// Has instructions between float16 and float32. Highway's substitutes for other instruction sets
// know no infinities and NaN.
#undef PIPPIN_HAS_F16
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#define PIPPIN_HAS_F16 1
#else
#define PIPPIN_HAS_F16 0
#endif

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The first `count` lanes from memory, zeros after them; reads nothing beyond.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_part(D d, const T* p, std::size_t count) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    if constexpr (sizeof(T) >= 4) {
        return hn::MaskedLoad(hn::FirstN(d, count), d, p);
    } else
#endif
    {
        alignas(64) T lanes[64 / sizeof(T)] = {};
        std::memcpy(lanes, p, count * sizeof(T));
        return hn::Load(d, lanes);
    }
}

// Writes the first `count` lanes and leaves memory after them alone.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_part(hn::Vec<D> v, D d, T* p, std::size_t count) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    if constexpr (sizeof(T) >= 4) {
        hn::BlendedStore(v, hn::FirstN(d, count), d, p);
    } else
#endif
    {
        alignas(64) T lanes[64 / sizeof(T)];
        hn::Store(v, d, lanes);
        std::memcpy(p, lanes, count * sizeof(T));
    }
}

// Op: a stateless functor (d, v) -> v.
template <class Op, class T>
void vector1(void* out, const void* pa, const void*, const void*, std::size_t n) {
    const hn::ScalableTag<T> d;
    const std::size_t lanes = hn::Lanes(d);
    auto* o = static_cast<T*>(out);
    const auto* a = static_cast<const T*>(pa);
    const Op op{};
    std::size_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
        const auto a0 = hn::LoadU(d, a + i), a1 = hn::LoadU(d, a + i + lanes);
        hn::StoreU(op(d, a0), d, o + i);
        hn::StoreU(op(d, a1), d, o + i + lanes);
    }
    for (; i < n; i += lanes) {
        if (n - i >= lanes)
            hn::StoreU(op(d, hn::LoadU(d, a + i)), d, o + i);
        else
            store_part(op(d, load_part(d, a + i, n - i)), d, o + i, n - i);
    }
}

// Bits of kScalars say which operands are one value for the whole block.
template <class Op, class T, unsigned kScalars>
void vector2(void* out, const void* pa, const void* pb, const void*, std::size_t n) {
    const hn::ScalableTag<T> d;
    const std::size_t lanes = hn::Lanes(d);
    auto* o = static_cast<T*>(out);
    const auto* a = static_cast<const T*>(pa);
    const auto* b = static_cast<const T*>(pb);
    constexpr bool sa = (kScalars & 1) != 0, sb = (kScalars & 2) != 0;
    auto va = hn::Set(d, *a), vb = hn::Set(d, *b);
    const Op op{};
    std::size_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
        auto wa = va, wb = vb;
        if constexpr (!sa) va = hn::LoadU(d, a + i), wa = hn::LoadU(d, a + i + lanes);
        if constexpr (!sb) vb = hn::LoadU(d, b + i), wb = hn::LoadU(d, b + i + lanes);
        hn::StoreU(op(d, va, vb), d, o + i);
        hn::StoreU(op(d, wa, wb), d, o + i + lanes);
    }
    for (; i < n; i += lanes) {
        if (n - i >= lanes) {
            if constexpr (!sa) va = hn::LoadU(d, a + i);
            if constexpr (!sb) vb = hn::LoadU(d, b + i);
            hn::StoreU(op(d, va, vb), d, o + i);
        } else {
            if constexpr (!sa) va = load_part(d, a + i, n - i);
            if constexpr (!sb) vb = load_part(d, b + i, n - i);
            store_part(op(d, va, vb), d, o + i, n - i);
        }
    }
}

template <class Op, class T, unsigned kScalars>
void vector3(void* out, const void* pa, const void* pb, const void* pc, std::size_t n) {
    const hn::ScalableTag<T> d;
    const std::size_t lanes = hn::Lanes(d);
    auto* o = static_cast<T*>(out);
    const auto* a = static_cast<const T*>(pa);
    const auto* b = static_cast<const T*>(pb);
    const auto* c = static_cast<const T*>(pc);
    constexpr bool sa = (kScalars & 1) != 0, sb = (kScalars & 2) != 0, sc = (kScalars & 4) != 0;
    auto va = hn::Set(d, *a), vb = hn::Set(d, *b), vc = hn::Set(d, *c);
    const Op op{};
    std::size_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
        auto wa = va, wb = vb, wc = vc;
        if constexpr (!sa) va = hn::LoadU(d, a + i), wa = hn::LoadU(d, a + i + lanes);
        if constexpr (!sb) vb = hn::LoadU(d, b + i), wb = hn::LoadU(d, b + i + lanes);
        if constexpr (!sc) vc = hn::LoadU(d, c + i), wc = hn::LoadU(d, c + i + lanes);
        hn::StoreU(op(d, va, vb, vc), d, o + i);
        hn::StoreU(op(d, wa, wb, wc), d, o + i + lanes);
    }
    for (; i < n; i += lanes) {
        if (n - i >= lanes) {
            if constexpr (!sa) va = hn::LoadU(d, a + i);
            if constexpr (!sb) vb = hn::LoadU(d, b + i);
            if constexpr (!sc) vc = hn::LoadU(d, c + i);
            hn::StoreU(op(d, va, vb, vc), d, o + i);
        } else {
            if constexpr (!sa) va = load_part(d, a + i, n - i);
            if constexpr (!sb) vb = load_part(d, b + i, n - i);
            if constexpr (!sc) vc = load_part(d, c + i, n - i);
            store_part(op(d, va, vb, vc), d, o + i, n - i);
        }
    }
}

// Plain loops, which compilers vectorise for the instruction set by themselves. O: the output's
// element type.
template <class Op, class O, class T>
void plain1(void* out, const void* pa, const void*, const void*, std::size_t n) {
    auto* o = static_cast<O*>(out);
    const auto* a = static_cast<const T*>(pa);
    for (std::size_t i = 0; i < n; ++i)
        o[i] = Op::run(a[i]);
}

template <class Op, class O, class T, unsigned kScalars>
void plain2(void* out, const void* pa, const void* pb, const void*, std::size_t n) {
    auto* o = static_cast<O*>(out);
    const auto* a = static_cast<const T*>(pa);
    const auto* b = static_cast<const T*>(pb);
    if constexpr (kScalars == 1) {
        const T s = *a;
        for (std::size_t i = 0; i < n; ++i)
            o[i] = Op::run(s, b[i]);
    } else if constexpr (kScalars == 2) {
        const T s = *b;
        for (std::size_t i = 0; i < n; ++i)
            o[i] = Op::run(a[i], s);
    } else {
        for (std::size_t i = 0; i < n; ++i)
            o[i] = Op::run(a[i], b[i]);
    }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pippin::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
