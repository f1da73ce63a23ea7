// randperm and multinomial, whose numbers are not PyTorch's.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/expect_error.h"
#include "pippin/pippin.h"

namespace pippin {
namespace {

using Ints = std::vector<std::int64_t>;

TEST(Randperm, GivesEachNumberOnce) {
    for (const std::int64_t n : {0, 1, 2, 7, 1000}) {
        manual_seed(4);
        Ints p = randperm(n).to_vector<std::int64_t>();
        manual_seed(4);
        EXPECT_EQ(p, randperm(n).to_vector<std::int64_t>());
        if (n == 1000) {
            EXPECT_NE(p, randperm(n).to_vector<std::int64_t>());
            EXPECT_FALSE(std::is_sorted(p.begin(), p.end()));
        }
        std::sort(p.begin(), p.end());
        EXPECT_EQ(p, arange(n).to_vector<std::int64_t>());
    }
    EXPECT_EQ(randperm(3, int32).dtype(), int32);
    EXPECT_ERROR(randperm(-1), ValueError, "-1");
}

TEST(Randperm, EveryOrderIsAsLikely) {
    manual_seed(1);
    std::map<Ints, int> seen;
    for (int i = 0; i < 600; ++i)
        ++seen[randperm(3).to_vector<std::int64_t>()];
    EXPECT_EQ(seen.size(), 6u);
    for (const auto& [order, count] : seen)
        EXPECT_NEAR(count, 100, 45);  // five standard deviations
}

TEST(Multinomial, FollowsTheWeights) {
    manual_seed(2);
    const Tensor w = tensor<float>({1, 0, 3, 4});
    const Ints drawn = multinomial(w, 8000, true).to_vector<std::int64_t>();
    Ints counts(4);
    for (const std::int64_t c : drawn)
        ++counts.at(static_cast<std::size_t>(c));
    EXPECT_EQ(counts[1], 0);
    EXPECT_NEAR(static_cast<double>(counts[0]), 1000, 150);
    EXPECT_NEAR(static_cast<double>(counts[2]), 3000, 220);
    EXPECT_NEAR(static_cast<double>(counts[3]), 4000, 230);
}

TEST(Multinomial, WithoutReplacementNoClassComesTwice) {
    manual_seed(3);
    const Tensor w = tensor<float>({1, 0, 3, 4, 2, 2, 2, 2}, {2, 4});
    int heaviest_first = 0;
    for (int i = 0; i < 300; ++i) {
        const Tensor t = multinomial(w, 3);
        ASSERT_EQ(t.shape().str(), "[2, 3]");
        const Ints v = t.to_vector<std::int64_t>();
        EXPECT_EQ(std::set<std::int64_t>(v.begin(), v.begin() + 3),
                  (std::set<std::int64_t>{0, 2, 3}));
        EXPECT_EQ(std::set<std::int64_t>(v.begin() + 3, v.end()).size(), 3u);
        heaviest_first += v[0] == 3;
    }
    EXPECT_NEAR(heaviest_first, 150, 45);
    EXPECT_ERROR(multinomial(w, 5), ValueError, "5 samples of 4");
    EXPECT_ERROR(multinomial(arange(4), 1), TypeError, "int64");
    EXPECT_ERROR(multinomial(rand({2, 2, 2}), 1), ValueError, "[2, 2, 2]");
}

}  // namespace
}  // namespace pippin
