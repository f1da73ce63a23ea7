// Numbers as PyTorch's extra_repr prints them.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "pippin/nn.h"

namespace pippin::nn {

/// As Python's repr: 0.1, 1e-05, 1.0
inline std::string repr(double v) {
    std::string text = fmt::format("{}", v);
    const bool whole = text.find_first_of(".en") == std::string::npos;
    return whole ? text + ".0" : text;
}
inline std::string repr(bool v) { return v ? "True" : "False"; }
inline std::string repr(Pair v) { return fmt::format("({}, {})", v.h, v.w); }
/// As a Python tuple: (4, 5), (3,)
inline std::string repr(const Shape& v) {
    std::string dims;
    for (int i = 0; i < v.rank(); ++i)
        dims += fmt::format("{}{}", i ? ", " : "", v[i]);
    return fmt::format("({}{})", dims, v.rank() == 1 ? "," : "");
}
/// One number when both are equal, as pooling layers print.
inline std::string repr_short(Pair v) { return v.h == v.w ? fmt::format("{}", v.h) : repr(v); }

}  // namespace pippin::nn
