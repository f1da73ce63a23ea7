// What stands for a text, where texts are found again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pippin::gpu {

/// 128 bits that stand for a text.
struct TextKey {
    std::uint64_t a = 0, b = 0;
    auto operator<=>(const TextKey&) const = default;
    static TextKey of(std::string_view text);

    struct Hash {
        std::size_t operator()(const TextKey& k) const { return k.a; }
    };
};

}  // namespace pippin::gpu
