// Random numbers of the data pipeline: Philox 4x32-10 (Salmon et al. 2011) on plain integers.
#include <numeric>
#include <utility>

#include "pippin/dataset.h"
#include "pippin/error.h"

namespace pippin::data {
namespace {

// The sample number under which an epoch's order is drawn; no sample has it.
constexpr std::uint64_t kOrderStream = ~std::uint64_t{0};

void philox(std::uint32_t (&counter)[4], std::uint64_t key) {
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
        const std::uint32_t next[4] = {
            static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(p1),
            static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(p0)};
        for (int i = 0; i < 4; ++i)
            counter[i] = next[i];
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

}  // namespace

std::uint32_t SampleRandom::next() {
    if (left_ == 0) {
        numbers_[0] = block_++;
        numbers_[1] = epoch_;
        numbers_[2] = static_cast<std::uint32_t>(sample_);
        numbers_[3] = static_cast<std::uint32_t>(sample_ >> 32);
        philox(numbers_, seed_);
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
