// What infer rules check with, and the words they fail in.
#pragma once

#include <string>
#include <string_view>

#include "graph/node.h"

namespace pippin::graph::ops {

inline void append(std::string& s, std::string_view v) { s += v; }
inline void append(std::string& s, std::int64_t v) { s += std::to_string(v); }
inline void append(std::string& s, DType v) { s += name_of(v); }
inline void append(std::string& s, const Shape& v) { s += v.str(); }

template <class... Parts>
std::string text(const Parts&... parts) {
    std::string s;
    (append(s, parts), ...);
    return s;
}
template <class... Parts>
[[noreturn]] void bad_value(const Parts&... parts) {
    throw ValueError(text(parts...));
}
template <class... Parts>
[[noreturn]] void bad_type(const Parts&... parts) {
    throw TypeError(text(parts...));
}

/// The shape itself, once it is known that no extent is negative and that its bytes can be counted.
inline const Shape& countable(const Shape& s) {
    std::int64_t bytes = 8;
    for (const std::int64_t d : s) {
        if (d < 0) bad_value("extents cannot be negative: ", s);
        if (__builtin_mul_overflow(bytes, d, &bytes))
            bad_value("shape ", s, " has more elements than can be counted");
    }
    return s;
}

inline int check_dim(std::int64_t dim, const Shape& s) {
    if (dim < 0 || dim >= s.rank())
        bad_value("dim ", dim, " is out of range for ", std::int64_t{s.rank()}, " dimensions");
    return static_cast<int>(dim);
}

/// How many elements one reduction over `dims` takes in; 1 where it takes in none, to divide by.
inline double elements(const Shape& s, const SmallVec<std::int64_t, 8>& dims) {
    std::int64_t n = 1;
    for (const std::int64_t d : dims)
        n *= s[static_cast<int>(d)];
    return n > 0 ? static_cast<double>(n) : 1;
}
/// The dtype that half types are summed in.
constexpr DType wide_type(DType t) { return is_half(t) ? DType::Float32 : t; }

inline void need_rank(const Node& x, int rank, std::string_view what) {
    if (x.shape.rank() != rank)
        bad_value(what, " must have ", std::int64_t{rank}, " dimensions, not ",
                  std::int64_t{x.shape.rank()});
}
inline void need_floating(const Node& x) {
    if (!is_floating(x.dtype)) bad_type("needs a floating-point dtype, not ", x.dtype);
}
inline void need_index(const Node& x) {
    if (x.dtype != DType::Int64 && x.dtype != DType::Int32)
        bad_type("an index must be int64 or int32, not ", x.dtype);
}
inline void need_same_dtype(const Node& a, const Node& b) {
    if (a.dtype != b.dtype) bad_type("dtypes differ: ", a.dtype, " and ", b.dtype);
}
inline void need_same_shape(const Node& a, const Node& b) {
    if (!(a.shape == b.shape)) bad_value("shapes differ: ", a.shape, " and ", b.shape);
}

}  // namespace pippin::graph::ops
