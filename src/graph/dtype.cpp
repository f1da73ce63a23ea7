// Dtype names, promotion and IEEE half precision.
#include "pippin/dtype.h"

#include <bit>

namespace pippin {

std::string_view name_of(DType t) {
    constexpr std::string_view names[] = {"bool",    "uint8",    "int32",   "int64",
                                          "float16", "bfloat16", "float32", "float64"};
    return names[static_cast<int>(t)];
}

DType promote_types(DType a, DType b) {
    if (a == b) return a;
    if (is_half(a) && is_half(b)) return DType::Float32;  // neither holds all values of the other
    // The enumeration is ordered so that otherwise the later dtype wins.
    return a > b ? a : b;
}

Half::Half(float f) {
    const auto u = std::bit_cast<std::uint32_t>(f);
    const auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
    const std::uint32_t magnitude = u & 0x7fffffffu;
    std::uint32_t h;
    if (magnitude > 0x7f800000u) {
        h = 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // NaN stays NaN, and quiet
    } else if (magnitude >= 0x477ff000u) {
        h = 0x7c00u;  // 65520 and more round to infinity
    } else if (magnitude < 0x38800000u) {
        // Subnormal: adding 0.5 puts the 10 kept bits at the end of the mantissa, rounded by the
        // processor to nearest even.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        h = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
    } else {
        const std::uint32_t odd = (magnitude >> 13) & 1u;
        h = (magnitude - 0x38000000u + 0xfffu + odd) >> 13;
    }
    bits = static_cast<std::uint16_t>(sign | h);
}

Half::operator float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    const std::uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
        const float f = static_cast<float>(mantissa) * 0x1p-24f;
        return sign ? -f : f;
    }
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

}  // namespace pippin
