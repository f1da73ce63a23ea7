// Element types, with PyTorch's names and promotion rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace pippin {

enum class DType : std::uint8_t { Bool, UInt8, Int32, Int64, Float16, BFloat16, Float32, Float64 };

inline constexpr DType boolean = DType::Bool;
inline constexpr DType uint8 = DType::UInt8;
inline constexpr DType int32 = DType::Int32;
inline constexpr DType int64 = DType::Int64;
inline constexpr DType float16 = DType::Float16;
inline constexpr DType bfloat16 = DType::BFloat16;
inline constexpr DType float32 = DType::Float32;
inline constexpr DType float64 = DType::Float64;

/// Bytes of one element.
constexpr std::size_t size_of(DType t) {
    constexpr std::size_t sizes[] = {1, 1, 4, 8, 2, 2, 4, 8};
    return sizes[static_cast<int>(t)];
}
constexpr bool is_floating(DType t) { return t >= DType::Float16; }
constexpr bool is_half(DType t) { return t == DType::Float16 || t == DType::BFloat16; }

/// "float32", "int64", "bool", ...
std::string_view name_of(DType t);

/// The dtype of `a op b` for two tensors with at least one dimension each, as in PyTorch
/// (torch.promote_types): float16 with bfloat16 gives float32.
DType promote_types(DType a, DType b);

/// IEEE half precision, stored as 16 bits; arithmetic happens in float.
struct Half {
    std::uint16_t bits = 0;
    Half() = default;
    Half(float f);
    operator float() const;
};

/// bfloat16, stored as 16 bits; rounds to nearest even.
struct BFloat {
    std::uint16_t bits = 0;
    BFloat() = default;
    BFloat(float f) {
        std::uint32_t u;
        std::memcpy(&u, &f, 4);
        if ((u & 0x7fffffffu) > 0x7f800000u)
            bits = static_cast<std::uint16_t>((u >> 16) | 0x40u);  // stays NaN
        else
            bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
    operator float() const {
        const std::uint32_t u = static_cast<std::uint32_t>(bits) << 16;
        float f;
        std::memcpy(&f, &u, 4);
        return f;
    }
};

/// dtype_of<float>() is float32, and so on.
template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<bool>() {
    return DType::Bool;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
    return DType::UInt8;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
    return DType::Int32;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
    return DType::Int64;
}
template <>
constexpr DType dtype_of<Half>() {
    return DType::Float16;
}
template <>
constexpr DType dtype_of<BFloat>() {
    return DType::BFloat16;
}
template <>
constexpr DType dtype_of<float>() {
    return DType::Float32;
}
template <>
constexpr DType dtype_of<double>() {
    return DType::Float64;
}

}  // namespace pippin
