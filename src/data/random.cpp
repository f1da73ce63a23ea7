// Random numbers of the data pipeline.
#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/philox.h"
#include "pippin/dataset.h"
#include "pippin/error.h"

namespace pippin::data {
namespace {

// The sample number under which an epoch's order is drawn; no sample has it.
constexpr std::uint64_t kOrderStream = ~std::uint64_t{0};

}  // namespace

std::uint32_t SampleRandom::next() {
    if (left_ == 0) {
        const graph::PhiloxBlock block = graph::philox4x32(
            {block_++, epoch_, static_cast<std::uint32_t>(sample_),
             static_cast<std::uint32_t>(sample_ >> 32)},
            {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
        std::copy(block.begin(), block.end(), numbers_);
        left_ = 4;
    }
    return numbers_[4 - left_--];
}

std::int64_t SampleRandom::below(std::int64_t n) {
    if (n <= 0) throw ValueError("SampleRandom::below: the bound must be positive");
    const auto bound = static_cast<std::uint64_t>(n);
    // Numbers past the last whole multiple of the bound would make some results likelier.
    if (bound <= 0xFFFFFFFFu) {
        const auto b = static_cast<std::uint32_t>(bound);
        const std::uint32_t rest = (0u - b) % b;  // 2^32 mod b
        for (;;) {
            const std::uint64_t product = std::uint64_t{next()} * b;
            if (static_cast<std::uint32_t>(product) >= rest)
                return static_cast<std::int64_t>(product >> 32);
        }
    }
    const std::uint64_t rest = (std::uint64_t{0} - bound) % bound;  // 2^64 mod bound
    for (;;) {
        const std::uint64_t high = next();
        const std::uint64_t value = high << 32 | next();
        if (value >= rest) return static_cast<std::int64_t>(value % bound);
    }
}

std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed,
                                             std::uint32_t epoch) {
    if (n < 0) throw ValueError("random_permutation: the size must not be negative");
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    SampleRandom random(seed, epoch, kOrderStream);
    for (std::int64_t i = n - 1; i > 0; --i)
        std::swap(order[static_cast<std::size_t>(i)],
                  order[static_cast<std::size_t>(random.below(i + 1))]);
    return order;
}

}  // namespace pippin::data
