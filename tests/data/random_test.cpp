// Random numbers of samples and orders.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "common/expect_error.h"
#include "pippin/dataset.h"

namespace pippin::data {
namespace {

TEST(SampleRandom, IsPhilox) {
    // The known answers of the generator's authors: counter 0, key 0; and all bits set (block 0
    // here, so only the key and the sample can be).
    SampleRandom zero(0, 0, 0);
    EXPECT_EQ(zero.next(), 0x6627e8d5u);
    EXPECT_EQ(zero.next(), 0xe169c58du);
    EXPECT_EQ(zero.next(), 0xbc57ac4cu);
    EXPECT_EQ(zero.next(), 0x9b00dbd8u);
}

TEST(SampleRandom, DependsOnSeedEpochAndSample) {
    const auto draw = [](std::uint64_t seed, std::uint32_t epoch, std::uint64_t sample) {
        SampleRandom random(seed, epoch, sample);
        std::vector<std::uint32_t> out(9);
        for (auto& v : out)
            v = random.next();
        return out;
    };
    const auto base = draw(1, 2, 3);
    EXPECT_EQ(base, draw(1, 2, 3));
    EXPECT_NE(base, draw(2, 2, 3));
    EXPECT_NE(base, draw(1, 3, 3));
    EXPECT_NE(base, draw(1, 2, 4));
    EXPECT_NE(base, draw(1, 2, 3 + (std::uint64_t{1} << 32)));
    EXPECT_NE(base, draw(1 + (std::uint64_t{1} << 32), 2, 3));
}

TEST(SampleRandom, UniformAndBelow) {
    SampleRandom random(5, 0, 0);
    double sum = 0;
    std::vector<int> counts(7);
    for (int i = 0; i < 70'000; ++i) {
        const double u = random.uniform(-1, 3);
        ASSERT_GE(u, -1);
        ASSERT_LT(u, 3);
        sum += u;
        ++counts[static_cast<std::size_t>(random.below(7))];
    }
    EXPECT_NEAR(sum / 70'000, 1, 0.02);
    for (const int c : counts)
        EXPECT_NEAR(c, 10'000, 500);
    EXPECT_EQ(random.below(1), 0);
    const std::int64_t large = std::int64_t{3} << 61;
    for (int i = 0; i < 100; ++i) {
        const std::int64_t v = random.below(large);
        ASSERT_GE(v, 0);
        ASSERT_LT(v, large);
    }
    EXPECT_ERROR(random.below(0), ValueError, "positive");
}

TEST(RandomPermutation, HoldsEachNumberOnce) {
    for (const std::int64_t n : {0, 1, 2, 1000}) {
        std::vector<std::int64_t> order = random_permutation(n, 42);
        EXPECT_EQ(order, random_permutation(n, 42));
        std::ranges::sort(order);
        std::vector<std::int64_t> all(static_cast<std::size_t>(n));
        std::iota(all.begin(), all.end(), std::int64_t{0});
        EXPECT_EQ(order, all);
    }
    EXPECT_NE(random_permutation(1000, 42), random_permutation(1000, 43));
    EXPECT_NE(random_permutation(1000, 42, 0), random_permutation(1000, 42, 1));
}

}  // namespace
}  // namespace pippin::data
