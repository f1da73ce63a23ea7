// The loader: order, determinism, errors and early ends. Runs under the thread sanitizer too.
#include "pippin/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "common/expect_error.h"
#include "pippin/datasets.h"
#include "pippin/ops.h"

namespace pippin::data {
namespace {

// Sample i is [i, a random number] with label i. Takes its time, each sample another one.
class Slow : public Dataset {
  public:
    explicit Slow(std::int64_t n) : n_(n) {}
    std::int64_t size() const override { return n_; }
    Example load(std::int64_t i, Draws draws) const override {
        loads.fetch_add(1);
        if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay * (i % 3)));
        if (i == bad) throw FileError("images/cat_7.jpg: is truncated");
        if (i == worse) throw std::runtime_error("user code");
        SampleRandom random = draws.of(i);
        Array x(float32, {2});
        x.data<float>()[0] = static_cast<float>(i);
        x.data<float>()[1] = static_cast<float>(random.uniform());
        return {std::move(x), Array::scalar(i)};
    }
    std::int64_t bad = -1, worse = -1;
    int delay = 0;
    mutable std::atomic<int> loads = 0;

  private:
    std::int64_t n_;
};

// One epoch: the labels of each batch, and all random numbers.
struct Epoch {
    std::vector<std::vector<std::int64_t>> labels;
    std::vector<float> numbers;
    std::vector<std::int64_t> indices;
    bool operator==(const Epoch&) const = default;
};

Epoch run(DataLoader& loader) {
    Epoch epoch;
    for (const auto& [x, y, index] : loader) {
        EXPECT_EQ(x.size(0), y.size(0));
        epoch.labels.push_back(y.to_vector<std::int64_t>());
        const auto values = x.to_vector<float>();
        for (std::size_t i = 0; i < values.size(); i += 2) {
            EXPECT_EQ(static_cast<std::int64_t>(values[i]), epoch.labels.back()[i / 2]);
            epoch.numbers.push_back(values[i + 1]);
        }
        epoch.indices.push_back(index);
    }
    return epoch;
}

std::vector<std::int64_t> flat(const Epoch& epoch) {
    std::vector<std::int64_t> out;
    for (const auto& batch : epoch.labels)
        out.insert(out.end(), batch.begin(), batch.end());
    return out;
}

TEST(DataLoader, InOrderWithAShortLastBatch) {
    DataLoader loader(std::make_shared<const Slow>(10), {.batch_size = 4});
    EXPECT_EQ(loader.size(), 3);
    const Epoch epoch = run(loader);
    EXPECT_EQ(epoch.labels,
              (std::vector<std::vector<std::int64_t>>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}));
    EXPECT_EQ(epoch.indices, (std::vector<std::int64_t>{0, 1, 2}));

    DataLoader dropping(std::make_shared<const Slow>(10), {.batch_size = 4, .drop_last = true});
    EXPECT_EQ(dropping.size(), 2);
    EXPECT_EQ(run(dropping).labels.size(), 2u);
    DataLoader even(std::make_shared<const Slow>(8), {.batch_size = 4, .drop_last = true});
    EXPECT_EQ(even.size(), 2);
}

TEST(DataLoader, ShapesAndDTypes) {
    DataLoader loader(std::make_shared<const Slow>(3), {.batch_size = 2});
    auto at = loader.begin();
    EXPECT_EQ(at->data.shape(), (Shape{2, 2}));
    EXPECT_EQ(at->data.dtype(), float32);
    EXPECT_EQ(at->target.shape(), (Shape{2}));
    EXPECT_EQ(at->target.dtype(), int64);
    ++at;
    EXPECT_EQ(at->data.shape(), (Shape{1, 2}));
    ++at;
    EXPECT_TRUE(at == loader.end());
    EXPECT_ERROR(++at, ValueError, "over");
}

TEST(DataLoader, WorkersChangeNothing) {
    const auto set = std::make_shared<Slow>(103);
    set->delay = 100;
    std::vector<Epoch> expected;
    for (const int workers : {0, 1, 2, 5})
        for (const int prefetch : {1, 3, 64}) {
            DataLoader loader(set, {.batch_size = 10,
                                    .shuffle = true,
                                    .seed = 42,
                                    .workers = workers,
                                    .prefetch = prefetch});
            std::vector<Epoch> epochs;
            for (int e = 0; e < 2; ++e)
                epochs.push_back(run(loader));
            if (expected.empty()) expected = epochs;
            EXPECT_TRUE(epochs == expected) << workers << " workers, prefetch " << prefetch;
        }
    for (const Epoch& epoch : expected) {
        std::vector<std::int64_t> labels = flat(epoch);
        EXPECT_FALSE(std::ranges::is_sorted(labels));
        std::ranges::sort(labels);
        std::vector<std::int64_t> all(103);
        std::iota(all.begin(), all.end(), std::int64_t{0});
        EXPECT_EQ(labels, all);
    }
    EXPECT_NE(flat(expected[0]), flat(expected[1]));
    EXPECT_NE(expected[0].numbers, expected[1].numbers);
}

TEST(DataLoader, SeedsDiffer) {
    const auto set = std::make_shared<const Slow>(50);
    DataLoader a(set, {.batch_size = 50, .shuffle = true, .seed = 1});
    DataLoader b(set, {.batch_size = 50, .shuffle = true, .seed = 2});
    EXPECT_NE(flat(run(a)), flat(run(b)));
}

TEST(DataLoader, ResumesInTheMiddle) {
    const auto set = std::make_shared<const Slow>(40);
    const LoaderOptions options{.batch_size = 4, .shuffle = true, .seed = 9, .workers = 2};
    DataLoader whole(set, options);
    run(whole);
    const Epoch second = run(whole);
    EXPECT_EQ(whole.epoch(), 2);

    DataLoader resumed(set, options);
    resumed.set_epoch(1);
    resumed.skip_to(7);
    const int before = set->loads;
    const Epoch rest = run(resumed);
    EXPECT_EQ(set->loads - before, 12);  // nothing that was skipped is loaded
    EXPECT_EQ(rest.indices, (std::vector<std::int64_t>{7, 8, 9}));
    EXPECT_TRUE(std::equal(rest.labels.begin(), rest.labels.end(), second.labels.begin() + 7));
    EXPECT_TRUE(std::equal(rest.numbers.begin(), rest.numbers.end(), second.numbers.begin() + 28));
    EXPECT_EQ(run(resumed).labels.size(), 10u);  // one loop only

    resumed.skip_to(10);
    EXPECT_TRUE(run(resumed).labels.empty());
    EXPECT_ERROR(resumed.skip_to(11), ValueError, "batch 11", "10");
    EXPECT_ERROR(resumed.set_epoch(-1), ValueError, "epoch -1");
}

TEST(DataLoader, AnErrorReachesTheLoop) {
    const auto set = std::make_shared<Slow>(40);
    set->bad = 21;
    for (const int workers : {0, 1, 3}) {
        DataLoader loader(set, {.batch_size = 4, .workers = workers});
        int seen = 0;
        try {
            for (const Batch& batch : loader) {
                EXPECT_EQ(batch.index, seen);
                ++seen;
            }
            ADD_FAILURE() << "the error was lost";
        } catch (const FileError& e) {
            EXPECT_STREQ(e.what(), "images/cat_7.jpg: is truncated");
        }
        EXPECT_EQ(seen, 5);  // the batches before it arrive
        // The loader lives on.
        EXPECT_THROW(run(loader), FileError);
        loader.skip_to(6);
        EXPECT_EQ(run(loader).labels.size(), 4u);
    }
    set->bad = 0;
    DataLoader first(set, {.batch_size = 4, .workers = 2});
    EXPECT_THROW(first.begin(), FileError);
    set->bad = -1;
    set->worse = 5;
    DataLoader foreign(set, {.batch_size = 4, .workers = 2});
    EXPECT_THROW(run(foreign), std::runtime_error);
}

TEST(DataLoader, EarlyBreakAndAnotherEpoch) {
    const auto set = std::make_shared<Slow>(200);
    set->delay = 50;
    DataLoader loader(set, {.batch_size = 4, .shuffle = true, .seed = 3, .workers = 3});
    DataLoader other(set, {.batch_size = 4, .shuffle = true, .seed = 3});
    for (int e = 0; e < 10; ++e) {
        for (const Batch& batch : loader)
            if (batch.index == e % 4) break;
    }
    for (int e = 0; e < 10; ++e)
        if (other.begin()->index != 0) ADD_FAILURE();
    EXPECT_TRUE(run(loader) == run(other));  // both are at epoch 10
    const int loads = set->loads;
    EXPECT_LT(loads, 2 * 200 + 10 * 4 * (4 + 4 + 3) + 10 * 4);  // breaks stop the prefetching
}

TEST(DataLoader, DestroyedAtAnyMoment) {
    const auto set = std::make_shared<Slow>(100);
    set->delay = 30;
    for (int round = 0; round < 60; ++round) {
        auto loader = std::make_unique<DataLoader>(set, LoaderOptions{.batch_size = 3,
                                                                      .shuffle = true,
                                                                      .seed = 0,
                                                                      .workers = round % 4,
                                                                      .prefetch = 1 + round % 3});
        if (round % 5 == 0) continue;  // before anything
        {
            auto at = loader->begin();
            for (int i = 0; i < round % 7; ++i)
                ++at;
        }
        if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
    }
}

TEST(DataLoader, OneLoopAtATime) {
    DataLoader loader(std::make_shared<const Slow>(20), {.batch_size = 2, .workers = 1});
    auto first = loader.begin();
    auto second = loader.begin();
    EXPECT_ERROR(++first, ValueError, "another loop");
    ++second;
    EXPECT_EQ(second->index, 1);
    {
        auto moved = std::move(first);
    }  // the end of a loop that was ended before does not end the one under way
    ++second;
    EXPECT_EQ(second->index, 2);
    DataLoader taken = std::move(loader);
    ++second;
    EXPECT_EQ(second->index, 3);
}

TEST(DataLoader, EmptyDatasets) {
    DataLoader none(std::make_shared<const Slow>(0),
                    {.batch_size = 2, .shuffle = true, .workers = 2});
    EXPECT_EQ(none.size(), 0);
    EXPECT_TRUE(run(none).labels.empty());
    DataLoader dropped(std::make_shared<const Slow>(3), {.batch_size = 4, .drop_last = true});
    EXPECT_EQ(dropped.size(), 0);
    EXPECT_TRUE(run(dropped).labels.empty());
}

TEST(DataLoader, ChecksItsOptions) {
    const auto set = std::make_shared<const Slow>(3);
    EXPECT_ERROR(DataLoader(set, {.batch_size = 0}), ValueError, "batch_size 0");
    EXPECT_ERROR(DataLoader(set, {.workers = -1}), ValueError, "workers -1");
    EXPECT_ERROR(DataLoader(set, {.prefetch = 0}), ValueError, "prefetch 0");
    EXPECT_ERROR(DataLoader(DatasetPtr(nullptr), {}), ValueError, "null");
}

TEST(DataLoader, TakesADatasetByValue) {
    DataLoader loader(TensorDataset(tensor(std::vector<float>{1, 2, 3}, {3, 1}),
                                    tensor(std::vector<float>{4, 5, 6})),
                      {.batch_size = 3});
    auto at = loader.begin();
    EXPECT_EQ(at->data.shape(), (Shape{3, 1}));
    EXPECT_EQ(at->target.to_vector<float>(), (std::vector<float>{4, 5, 6}));
}

TEST(DataLoader, ASubsetKeepsItsSamplesRandomNumbers) {
    const auto set = std::make_shared<const Slow>(30);
    DataLoader all(set, {.batch_size = 30, .seed = 4});
    const Epoch whole = run(all);
    DataLoader some(Subset(set, {20, 3, 11}), {.batch_size = 2, .seed = 4, .workers = 2});
    const Epoch part = run(some);
    EXPECT_EQ(part.numbers,
              (std::vector<float>{whole.numbers[20], whole.numbers[3], whole.numbers[11]}));
}

// Batches must not share memory that the loader uses again.
TEST(DataLoader, BatchesStayAsTheyAre) {
    DataLoader loader(std::make_shared<const Slow>(64), {.batch_size = 4, .workers = 2});
    std::vector<Tensor> kept;
    for (const Batch& batch : loader)
        kept.push_back(batch.target);
    for (std::size_t b = 0; b < kept.size(); ++b)
        EXPECT_EQ(kept[b].to_vector<std::int64_t>()[3], static_cast<std::int64_t>(b * 4 + 3));
}

}  // namespace
}  // namespace pippin::data
