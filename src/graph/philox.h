// Philox 4x32-10: ten rounds over a 128-bit counter under a 64-bit key (Salmon et al. 2011).
#pragma once

#include <array>
#include <cstdint>

namespace pippin::graph {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
        counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0],
                   static_cast<std::uint32_t>(p1),
                   static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1],
                   static_cast<std::uint32_t>(p0)};
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return counter;
}

/// The 32 random bits of element `index` of the random op that drew `sequence` under `seed`.
constexpr std::uint32_t random_word(std::uint64_t seed, std::uint64_t sequence,
                                    std::uint64_t index) {
    const std::uint64_t block = index >> 2;
    const PhiloxBlock words = philox4x32(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
         static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(sequence >> 32)},
        {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    return words[index & 3];
}

}  // namespace pippin::graph
