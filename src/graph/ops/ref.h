// What the reference implementations are written with: dense row-major arrays and odometers.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "graph/node.h"

namespace pippin::graph::ops {

using Refs = std::span<const RefArray>;
using Point = std::array<std::int64_t, Shape::kMaxRank>;

inline RefArray zeros(const Shape& shape) {
    return {shape, std::vector<double>(static_cast<std::size_t>(shape.numel()))};
}

/// Calls f(point) for every point of a shape in row-major order.
template <class F>
void for_each_point(const Shape& shape, F f) {
    if (shape.numel() == 0) return;
    Point p{};
    for (;;) {
        f(static_cast<const Point&>(p));
        int d = shape.rank() - 1;
        for (; d >= 0; --d) {
            auto& at = p[static_cast<std::size_t>(d)];
            if (++at < shape[d]) break;
            at = 0;
        }
        if (d < 0) return;
    }
}

inline std::size_t offset(const Shape& shape, const Point& p) {
    std::int64_t o = 0;
    for (int d = 0; d < shape.rank(); ++d)
        o = o * shape[d] + p[static_cast<std::size_t>(d)];
    return static_cast<std::size_t>(o);
}
inline double& at(RefArray& a, const Point& p) { return a.data[offset(a.shape, p)]; }
inline double at(const RefArray& a, const Point& p) { return a.data[offset(a.shape, p)]; }

/// Element p of x broadcast to a larger shape of the same rank.
inline double at_broadcast(const RefArray& x, Point p) {
    for (int d = 0; d < x.shape.rank(); ++d)
        if (x.shape[d] == 1) p[static_cast<std::size_t>(d)] = 0;
    return at(x, p);
}

/// An array whose element at each point is f(point).
template <class F>
RefArray generate(const Shape& shape, F f) {
    RefArray y = zeros(shape);
    std::size_t k = 0;
    for_each_point(shape, [&](const Point& p) { y.data[k++] = f(p); });
    return y;
}

template <class F>
RefArray map1(const RefArray& x, F f) {
    RefArray y = x;
    for (double& v : y.data)
        v = f(v);
    return y;
}
template <class F>
RefArray map2(const RefArray& a, const RefArray& b, F f) {
    RefArray y = a;
    for (std::size_t k = 0; k < y.data.size(); ++k)
        y.data[k] = f(a.data[k], b.data[k]);
    return y;
}

/// A double as an integer dtype holds it after wrapping; NaN gives 0.
inline double wrap_integer(DType t, double v) {
    if (t == DType::Bool) return v != 0 ? 1 : 0;
    if (std::isnan(v)) return 0;
    constexpr double kMost = 9223372036854774784.0;  // the largest double below 2^63
    const auto i = static_cast<std::int64_t>(std::fmin(std::fmax(v, -0x1p63), kMost));
    switch (t) {
        case DType::UInt8:
            return static_cast<std::uint8_t>(i);
        case DType::Int32:
            return static_cast<std::int32_t>(static_cast<std::uint32_t>(i));
        default:
            return static_cast<double>(i);
    }
}

/// A double as dtype t stores it. Only half types round: float32 keeps all bits here, so that
/// finite differences of references stay smooth.
inline double stored_as(DType t, double v) {
    if (t == DType::Float16) return static_cast<float>(Half(static_cast<float>(v)));
    if (t == DType::BFloat16) return static_cast<float>(BFloat(static_cast<float>(v)));
    return is_floating(t) ? v : wrap_integer(t, v);
}

}  // namespace pippin::graph::ops
