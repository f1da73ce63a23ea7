// A loader's share of the samples as one of several processes.
#include <gtest/gtest.h>

#include <algorithm>

#include "pippin/data.h"
#include "pippin/pippin.h"

namespace pippin {
namespace {

data::DataLoader loader_of(std::int64_t n, data::LoaderOptions o) {
    const Tensor all = arange(n).reshape({n, 1});
    return data::DataLoader(data::TensorDataset(all, all), o);
}

std::vector<std::vector<std::int64_t>> batches(data::DataLoader& loader) {
    std::vector<std::vector<std::int64_t>> out;
    for (const auto& b : loader)
        out.push_back(b.data.to_vector<std::int64_t>());
    return out;
}

using Batches = std::vector<std::vector<std::int64_t>>;

TEST(Split, EveryOtherBatchAndFirstSamplesToFillUp) {
    auto loader = loader_of(10, {.batch_size = 4});
    loader.split(0, 2);
    EXPECT_EQ(loader.size(), 2);
    EXPECT_EQ(loader.last_samples(), 2);
    EXPECT_EQ(batches(loader), (Batches{{0, 1, 2, 3}, {8, 9, 0, 1}}));
    loader.split(1, 2);
    EXPECT_EQ(batches(loader), (Batches{{4, 5, 6, 7}, {2, 3, 4, 5}}));
    loader.split(0, 1);
    EXPECT_EQ(loader.last_samples(), 2);
    EXPECT_EQ(batches(loader), (Batches{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}));
}

TEST(Split, FewerSamplesThanOneRoundTakes) {
    auto loader = loader_of(3, {.batch_size = 4});
    loader.split(1, 2);
    EXPECT_EQ(batches(loader), (Batches{{1, 2, 0, 1}}));
    EXPECT_EQ(loader.last_samples(), 3);
}

TEST(Split, DropLastDropsWhatIsNotFullEverywhere) {
    auto loader = loader_of(23, {.batch_size = 4, .drop_last = true});
    loader.split(1, 2);
    EXPECT_EQ(batches(loader), (Batches{{4, 5, 6, 7}, {12, 13, 14, 15}}));
    EXPECT_EQ(loader.last_samples(), 8);
}

TEST(Split, AllShuffleAlike) {
    std::vector<std::int64_t> seen;
    for (int k = 0; k < 3; ++k) {
        auto loader = loader_of(30, {.batch_size = 5, .shuffle = true, .seed = 4, .workers = 1});
        loader.split(k, 3);
        for (const auto& b : batches(loader))
            seen.insert(seen.end(), b.begin(), b.end());
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, arange(30).to_vector<std::int64_t>());
}

TEST(Split, RefusesWhatMakesNoSense) {
    auto loader = loader_of(10, {.batch_size = 4});
    EXPECT_THROW(loader.split(2, 2), ValueError);
    EXPECT_THROW(loader.split(-1, 2), ValueError);
    EXPECT_THROW(loader.split(0, 0), ValueError);
    const auto under_way = loader.begin();
    EXPECT_THROW(loader.split(0, 2), ValueError);
}

}  // namespace
}  // namespace pippin
