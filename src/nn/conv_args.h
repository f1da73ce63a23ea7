// What convolution layers share: padding by name, and how they print it.
#pragma once

#include <fmt/format.h>

#include <string>

#include "pippin/nn.h"

namespace pippin::nn {

/// ValueError unless the name is "", "same" or "valid", and "same" only with stride 1.
inline void check_padding_name(const char* layer, const std::string& name, bool strided) {
    if (!name.empty() && name != "same" && name != "valid")
        throw ValueError(fmt::format(
            "{}: padding must be \"same\", \"valid\" or numbers, not \"{}\"", layer, name));
    if (name == "same" && strided)
        throw ValueError(fmt::format(
            "{}: padding \"same\" needs stride 1: with other strides give amounts of padding",
            layer));
}

/// How much goes before and behind one axis.
struct Margins {
    std::int64_t before, after;
};
inline Margins margins(const std::string& name, std::int64_t amount, std::int64_t kernel,
                       std::int64_t dilation) {
    if (name == "valid") return {0, 0};
    if (name != "same") return {amount, amount};
    const std::int64_t all = dilation * (kernel - 1);
    return {all / 2, all - all / 2};
}

/// Nothing for zeros.
inline std::string describe(PadMode mode) {
    switch (mode) {
        case PadMode::Reflect:
            return ", padding_mode=reflect";
        case PadMode::Replicate:
            return ", padding_mode=replicate";
        case PadMode::Circular:
            return ", padding_mode=circular";
        case PadMode::Constant:
            break;
    }
    return "";
}

}  // namespace pippin::nn
