// Conversions between element types, and the copies that bring strided elements into dense blocks.
#include "backends/cpu/vec_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/program_convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/cpu/program_functions.h"
#include "backends/cpu/vec_loops.h"

#ifndef PIPPIN_CPU_CONVERT_TYPES
#define PIPPIN_CPU_CONVERT_TYPES
namespace pippin::cpu {
namespace {
// Elements in memory; Bool is a byte of its own so that conversions can tell it from uint8.
struct Bool8 {
    std::uint8_t v;
};
struct F16 {
    std::uint16_t v;
};
struct BF16 {
    std::uint16_t v;
};
}  // namespace
}  // namespace pippin::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu::HWY_NAMESPACE {
namespace {

template <class To, class From>
HWY_INLINE To bits_as(From x) {
    To y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}

HWY_INLINE float widen(F16 h) {
    const auto u = static_cast<std::uint32_t>(h.v);
    float f = bits_as<float>((u & 0x7FFFu) << 13) * 0x1p112f;  // also right for denormals
    std::uint32_t r = bits_as<std::uint32_t>(f);
    r = f >= 65536.0f ? r | 0x7F800000u : r;
    return bits_as<float>(r | (u & 0x8000u) << 16);
}

HWY_INLINE F16 narrow16(float x) {
    const auto u = bits_as<std::uint32_t>(x);
    const std::uint32_t sign = u & 0x80000000u, a = u ^ sign;
    std::uint32_t r;
    if (a >= 0x47800000u)  // 65536 and more, or NaN
        r = a > 0x7F800000u ? 0x7E00u : 0x7C00u;
    else if (a < 0x38800000u)  // a denormal half: this addition rounds it in place
        r = bits_as<std::uint32_t>(bits_as<float>(a) + 0.5f) - 0x3F000000u;
    else
        r = (a + 0xC8000FFFu + ((a >> 13) & 1u)) >> 13;
    return {static_cast<std::uint16_t>(r | sign >> 16)};
}

HWY_INLINE float widen(BF16 h) { return bits_as<float>(static_cast<std::uint32_t>(h.v) << 16); }

HWY_INLINE BF16 narrow_bf16(float x) {
    const auto u = bits_as<std::uint32_t>(x);
    const std::uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
    const std::uint32_t nan = (u >> 16) | 0x40u;
    return {static_cast<std::uint16_t>((u & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded)};
}

// Truncates; saturates where the integer type ends; NaN gives 0.
template <class I, class F>
HWY_INLINE I to_integer(F x) {
    constexpr F low = static_cast<F>(std::numeric_limits<I>::min());  // a power of two: exact
    F y = x >= low ? x : low;
    y = y < -low ? y : low;
    I r = static_cast<I>(y);
    r = x >= -low ? std::numeric_limits<I>::max() : r;
    return x == x ? r : I{0};
}

template <class T>
HWY_INLINE auto plain(T x) {
    if constexpr (std::is_same_v<T, Bool8>)
        return static_cast<std::int32_t>(x.v);
    else if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>)
        return widen(x);
    else
        return x;
}

template <class To, class From>
HWY_INLINE To convert(From from) {
    const auto x = plain(from);
    using X = std::remove_const_t<decltype(x)>;
    if constexpr (std::is_same_v<To, From>)
        return from;
    else if constexpr (std::is_same_v<To, Bool8>)
        return {static_cast<std::uint8_t>(x != X{})};
    else if constexpr (std::is_same_v<To, F16>)
        return narrow16(static_cast<float>(x));
    else if constexpr (std::is_same_v<To, BF16>)
        return narrow_bf16(static_cast<float>(x));
    else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<X>) {
        if constexpr (std::is_same_v<To, std::uint8_t>)
            return static_cast<To>(to_integer<std::int64_t>(x));
        else
            return to_integer<To>(x);
    } else
        return static_cast<To>(x);
}

template <class To, class From>
void convert_loop(void* out, const void* in, const void*, const void*, std::size_t n) {
    auto* o = static_cast<To*>(out);
    const auto* a = static_cast<const From*>(in);
    if constexpr (std::is_same_v<To, From>)
        std::memmove(o, a, n * sizeof(To));
    else
        for (std::size_t i = 0; i < n; ++i)
            o[i] = convert<To>(a[i]);
}

#if PIPPIN_HAS_F16
template <>
void convert_loop<float, F16>(void* out, const void* in, const void*, const void*, std::size_t n) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<hwy::float16_t, decltype(d)> dh;
    auto* o = static_cast<float*>(out);
    const auto* a = static_cast<const hwy::float16_t*>(in);
    const std::size_t lanes = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes)
        hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, a + i)), d, o + i);
    if (i < n) {
        const auto last = hn::PromoteTo(d, load_part(dh, a + i, n - i));
        store_part(last, d, o + i, n - i);
    }
}

template <>
void convert_loop<F16, float>(void* out, const void* in, const void*, const void*, std::size_t n) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<hwy::float16_t, decltype(d)> dh;
    auto* o = static_cast<hwy::float16_t*>(out);
    const auto* a = static_cast<const float*>(in);
    const std::size_t lanes = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes)
        hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, a + i)), dh, o + i);
    if (i < n) store_part(hn::DemoteTo(dh, load_part(d, a + i, n - i)), dh, o + i, n - i);
}
#endif

template <class Through>
void round_loop(void* out, const void* in, const void*, const void*, std::size_t n) {
    auto* o = static_cast<float*>(out);
    const auto* a = static_cast<const float*>(in);
    if constexpr (PIPPIN_HAS_F16 && std::is_same_v<Through, F16>) {
        constexpr std::size_t kPart = 256;
        F16 part[kPart];
        for (std::size_t i = 0; i < n; i += kPart) {
            const std::size_t m = n - i < kPart ? n - i : kPart;
            convert_loop<F16, float>(part, a + i, nullptr, nullptr, m);
            convert_loop<float, F16>(o + i, part, nullptr, nullptr, m);
        }
    } else {
        for (std::size_t i = 0; i < n; ++i)
            o[i] = widen(convert<Through>(a[i]));
    }
}

template <class From>
void wrap_uint8(void* out, const void* in, const void*, const void*, std::size_t n) {
    auto* o = static_cast<std::int32_t*>(out);
    const auto* a = static_cast<const From*>(in);
    for (std::size_t i = 0; i < n; ++i)
        o[i] = convert<std::uint8_t>(a[i]);
}

template <class To>
Fn find_to(DType from) {
    switch (from) {
        case DType::Bool:
            return &convert_loop<To, Bool8>;
        case DType::UInt8:
            return &convert_loop<To, std::uint8_t>;
        case DType::Int32:
            return &convert_loop<To, std::int32_t>;
        case DType::Int64:
            return &convert_loop<To, std::int64_t>;
        case DType::Float16:
            return &convert_loop<To, F16>;
        case DType::BFloat16:
            return &convert_loop<To, BF16>;
        case DType::Float32:
            return &convert_loop<To, float>;
        case DType::Float64:
            return &convert_loop<To, double>;
    }
    return nullptr;
}

Fn find(DType from, DType to) {
    switch (to) {
        case DType::Bool:
            return find_to<Bool8>(from);
        case DType::UInt8:
            return find_to<std::uint8_t>(from);
        case DType::Int32:
            return find_to<std::int32_t>(from);
        case DType::Int64:
            return find_to<std::int64_t>(from);
        case DType::Float16:
            return find_to<F16>(from);
        case DType::BFloat16:
            return find_to<BF16>(from);
        case DType::Float32:
            return find_to<float>(from);
        case DType::Float64:
            return find_to<double>(from);
    }
    return nullptr;
}

Fn rounding(DType from, DType to) {
    if (to == DType::Float16) return from == DType::Float32 ? &round_loop<F16> : nullptr;
    if (to == DType::BFloat16) return from == DType::Float32 ? &round_loop<BF16> : nullptr;
    switch (from) {
        case DType::Bool:
            return &wrap_uint8<Bool8>;
        case DType::Int32:
            return &wrap_uint8<std::int32_t>;
        case DType::Int64:
            return &wrap_uint8<std::int64_t>;
        case DType::Float32:
            return &wrap_uint8<float>;
        case DType::Float64:
            return &wrap_uint8<double>;
        default:
            return nullptr;
    }
}

template <class T>
void splat_loop(void* out, const void* in, const void*, const void*, std::size_t n) {
    const T value = *static_cast<const T*>(in);
    auto* o = static_cast<T*>(out);
    for (std::size_t i = 0; i < n; ++i)
        o[i] = value;
}

Fn splat(std::size_t size) {
    if (size == 1) return &splat_loop<std::uint8_t>;
    if (size == 2) return &splat_loop<std::uint16_t>;
    if (size == 4) return &splat_loop<std::uint32_t>;
    return &splat_loop<std::uint64_t>;
}

constexpr std::ptrdiff_t kSpread = 16;

// Turns tiles of 4 x 4 elements in registers: in's rows, `from` apart, become out's columns.
template <class T>
HWY_INLINE void transpose(T* out, std::ptrdiff_t to, const T* in, std::ptrdiff_t from,
                          std::ptrdiff_t in_rows, std::ptrdiff_t in_columns) {
    std::ptrdiff_t r = 0;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (sizeof(T) == 4) {
        const hn::Full128<T> d;
        const hn::Repartition<std::uint64_t, decltype(d)> d64;
        for (; r + 4 <= in_rows; r += 4) {
            std::ptrdiff_t c = 0;
            for (; c + 4 <= in_columns; c += 4) {
                const T* p = in + r * from + c;
                const auto r0 = hn::LoadU(d, p), r1 = hn::LoadU(d, p + from);
                const auto r2 = hn::LoadU(d, p + 2 * from), r3 = hn::LoadU(d, p + 3 * from);
                const auto a = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
                const auto b = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
                const auto e = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
                const auto f = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
                T* q = out + c * to + r;
                hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, a, b)), d, q);
                hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, a, b)), d, q + to);
                hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, e, f)), d, q + 2 * to);
                hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, e, f)), d, q + 3 * to);
            }
            for (; c < in_columns; ++c)
                for (std::ptrdiff_t k = 0; k < 4; ++k)
                    out[c * to + r + k] = in[(r + k) * from + c];
        }
    }
#endif
    for (; r < in_rows; ++r)
        for (std::ptrdiff_t c = 0; c < in_columns; ++c)
            out[c * to + r] = in[r * from + c];
}

template <class T>
void copy_loop(void* out, Strides2 to, const void* in, Strides2 from, std::size_t rows,
               std::size_t columns) {
    auto* o = static_cast<T*>(out);
    const auto* a = static_cast<const T*>(in);
    const auto nr = static_cast<std::ptrdiff_t>(rows), nc = static_cast<std::ptrdiff_t>(columns);
    if (to.column == 1 && from.column == 1 && from.row == 0 && to.row == nc) {
        // One row again and again: what is there already is copied behind itself.
        std::memcpy(o, a, columns * sizeof(T));
        for (std::size_t done = 1; done < rows;) {
            const std::size_t more = done < rows - done ? done : rows - done;
            std::memcpy(o + done * columns, o, more * columns * sizeof(T));
            done += more;
        }
    } else if (to.column == 1 && from.column == 1 && nc > 2) {
        std::ptrdiff_t r = 0;
        if (nc * static_cast<std::ptrdiff_t>(sizeof(T)) >= 128) {
            for (; r < nr; ++r)
                std::memcpy(o + r * to.row, a + r * from.row, columns * sizeof(T));
        } else if (nc < kSpread && to.row == nc && from.row > 0) {
            // Whole vectors, of which the next row overwrites what is too much.
            const std::ptrdiff_t end = (nr - 1) * from.row + nc;
            for (; r * nc + kSpread <= nr * nc && r * from.row + kSpread <= end; ++r)
                std::memcpy(o + r * nc, a + r * from.row, kSpread * sizeof(T));
        }
        for (; r < nr; ++r)
            for (std::ptrdiff_t c = 0; c < nc; ++c)
                o[r * to.row + c] = a[r * from.row + c];
    } else if (to.column == 1 && from.column == 0) {
        std::ptrdiff_t r = 0;
        if (nc < kSpread && to.row == nc) {
            // Whole vectors, of which the next row overwrites what is too much.
            for (; r * nc + kSpread <= nr * nc; ++r) {
                const T value = a[r * from.row];
                for (std::ptrdiff_t c = 0; c < kSpread; ++c)
                    o[r * nc + c] = value;
            }
        }
        for (; r < nr; ++r) {
            const T value = a[r * from.row];
            for (std::ptrdiff_t c = 0; c < nc; ++c)
                o[r * to.row + c] = value;
        }
    } else if (to.column == 1 && from.row == 1) {
        transpose(o, to.row, a, from.column, nc, nr);
    } else if (to.row == 1 && from.column == 1) {
        transpose(o, to.column, a, from.row, nr, nc);
    } else if (nc > nr) {
        for (std::ptrdiff_t r = 0; r < nr; ++r)
            for (std::ptrdiff_t c = 0; c < nc; ++c)
                o[r * to.row + c * to.column] = a[r * from.row + c * from.column];
    } else {
        for (std::ptrdiff_t c = 0; c < nc; ++c)
            for (std::ptrdiff_t r = 0; r < nr; ++r)
                o[r * to.row + c * to.column] = a[r * from.row + c * from.column];
    }
}

Copy2 copy(std::size_t size) {
    if (size == 1) return &copy_loop<std::uint8_t>;
    if (size == 2) return &copy_loop<std::uint16_t>;
    if (size == 4) return &copy_loop<std::uint32_t>;
    return &copy_loop<std::uint64_t>;
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pippin::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pippin::cpu {
namespace {
HWY_EXPORT(find);
HWY_EXPORT(rounding);
HWY_EXPORT(splat);
HWY_EXPORT(copy);
}  // namespace

Fn find_convert(DType from, DType to) { return HWY_DYNAMIC_DISPATCH(find)(from, to); }
Fn find_round(DType from, DType to) { return HWY_DYNAMIC_DISPATCH(rounding)(from, to); }
Fn find_splat(std::size_t element_size) { return HWY_DYNAMIC_DISPATCH(splat)(element_size); }
Copy2 find_copy(std::size_t element_size) { return HWY_DYNAMIC_DISPATCH(copy)(element_size); }

void iota2(std::int64_t* out, std::int64_t start, Strides2 step, std::size_t rows,
           std::size_t columns) {
    for (std::size_t r = 0; r < rows; ++r, start += step.row)
        for (std::size_t c = 0; c < columns; ++c)
            *out++ = start + static_cast<std::int64_t>(c) * step.column;
}

}  // namespace pippin::cpu
#endif
