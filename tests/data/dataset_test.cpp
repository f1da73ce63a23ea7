// Arrays, batches made of samples, subsets and splits.
#include "pippin/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/expect_error.h"
#include "pippin/ops.h"

namespace pippin::data {
namespace {

// Sample i is [i, i + 0.5] with label 10 i, and so many numbers as `length` says.
class Numbers : public Dataset {
  public:
    explicit Numbers(std::int64_t n) : n_(n) {}
    std::int64_t size() const override { return n_; }
    Example load(std::int64_t i, Draws) const override {
        Array x(float32, {i == odd_one ? 3 : 2});
        x.data<float>()[0] = static_cast<float>(i);
        x.data<float>()[1] = static_cast<float>(i) + 0.5f;
        if (i == int_label) return {std::move(x), Array::scalar(std::int32_t{0})};
        return {std::move(x), Array::scalar(10 * i)};
    }
    std::int64_t odd_one = -1, int_label = -1;

  private:
    std::int64_t n_;
};

template <class T>
std::vector<T> values(const Array& a) {
    return {a.data<T>(), a.data<T>() + a.shape().numel()};
}

TEST(Array, KnowsItsDType) {
    Array a(float32, {2, 3});
    EXPECT_EQ(a.nbytes(), 24u);
    EXPECT_EQ(values<float>(a), std::vector<float>(6, 0));
    EXPECT_ERROR(a.data<std::int64_t>(), TypeError, "float32", "int64");
    a.reset(int64, {4});
    EXPECT_EQ(a.dtype(), int64);
    EXPECT_EQ(a.nbytes(), 32u);
    const Array label = Array::scalar(std::int64_t{7});
    EXPECT_EQ(label.shape().rank(), 0);
    EXPECT_EQ(*label.data<std::int64_t>(), 7);
    EXPECT_ERROR(Array(float32, {-1}), ValueError, "-1");
}

TEST(Dataset, PutsSamplesIntoABatch) {
    const Numbers numbers(10);
    Example batch;
    const std::vector<std::int64_t> indices = {3, 0, 9};
    numbers.load_batch(indices, {}, batch);
    EXPECT_EQ(batch.data.shape(), (Shape{3, 2}));
    EXPECT_EQ(batch.target.shape(), (Shape{3}));
    EXPECT_EQ(values<float>(batch.data), (std::vector<float>{3, 3.5f, 0, 0.5f, 9, 9.5f}));
    EXPECT_EQ(values<std::int64_t>(batch.target), (std::vector<std::int64_t>{30, 0, 90}));
}

TEST(Dataset, SaysWhichSamplesDiffer) {
    Numbers numbers(10);
    numbers.odd_one = 4;
    Example batch;
    const std::vector<std::int64_t> indices = {3, 4};
    EXPECT_ERROR(numbers.load_batch(indices, {}, batch), ValueError, "data of sample 4", "[3]",
                 "sample 3", "[2]", "Resize");
    numbers.odd_one = -1;
    numbers.int_label = 4;
    EXPECT_ERROR(numbers.load_batch(indices, {}, batch), ValueError, "target of sample 4", "int32",
                 "int64");
}

TEST(Dataset, ChecksTheIndex) {
    const Numbers numbers(10);
    EXPECT_EQ(*numbers.get(9).target.data<std::int64_t>(), 90);
    EXPECT_ERROR(numbers.get(10), IndexError, "sample 10", "10");
    EXPECT_ERROR(numbers.get(-1), IndexError, "sample -1");
}

TEST(TensorDataset, GivesRows) {
    const TensorDataset rows(tensor(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}),
                             tensor(std::vector<std::int64_t>{7, 8, 9}));
    EXPECT_EQ(rows.size(), 3);
    const Example row = rows.get(1);
    EXPECT_EQ(row.data.shape(), (Shape{2}));
    EXPECT_EQ(values<float>(row.data), (std::vector<float>{3, 4}));
    EXPECT_EQ(row.target.shape().rank(), 0);
    EXPECT_EQ(*row.target.data<std::int64_t>(), 8);
    Example batch;
    const std::vector<std::int64_t> indices = {2, 2, 0};
    rows.load_batch(indices, {}, batch);
    EXPECT_EQ(batch.data.shape(), (Shape{3, 2}));
    EXPECT_EQ(values<float>(batch.data), (std::vector<float>{5, 6, 5, 6, 1, 2}));
    EXPECT_EQ(values<std::int64_t>(batch.target), (std::vector<std::int64_t>{9, 9, 7}));

    EXPECT_ERROR(TensorDataset(zeros({3, 2}), zeros({2})), ValueError, "[3, 2]", "[2]");
    EXPECT_ERROR(TensorDataset(zeros({3}), Tensor()), ValueError, "undefined");
    EXPECT_ERROR(TensorDataset(scalar(1), scalar(1)), ValueError, "same N");
    EXPECT_EQ(TensorDataset(zeros({0, 4}), zeros({0})).size(), 0);
}

TEST(Subset, MapsIndices) {
    const auto numbers = std::make_shared<const Numbers>(10);
    const Subset some(numbers, {8, 1, 1});
    EXPECT_EQ(some.size(), 3);
    EXPECT_EQ(*some.get(0).target.data<std::int64_t>(), 80);
    Example batch;
    const std::vector<std::int64_t> indices = {2, 0};
    some.load_batch(indices, {}, batch);
    EXPECT_EQ(values<std::int64_t>(batch.target), (std::vector<std::int64_t>{10, 80}));
    EXPECT_ERROR(Subset(numbers, {0, 10}), IndexError, "index 10", "10");
    EXPECT_ERROR(Subset(numbers, {-1}), IndexError, "index -1");
    EXPECT_ERROR(Subset(nullptr, {}), ValueError, "null");
}

TEST(RandomSplit, CoversTheDatasetOnce) {
    const auto numbers = std::make_shared<const Numbers>(103);
    const auto parts = random_split(numbers, {0.8, 0.15, 0.05}, 42);
    ASSERT_EQ(parts.size(), 3u);
    // 82.4, 15.45 and 5.15 rounded down, and the one that is left to the first.
    EXPECT_EQ(parts[0]->size(), 83);
    EXPECT_EQ(parts[1]->size(), 15);
    EXPECT_EQ(parts[2]->size(), 5);
    std::set<std::int64_t> all;
    for (const auto& part : parts)
        all.insert(part->indices().begin(), part->indices().end());
    EXPECT_EQ(all.size(), 103u);
    EXPECT_FALSE(std::ranges::is_sorted(parts[0]->indices()));

    const auto again = random_split(std::make_shared<const Numbers>(103), {0.8, 0.15, 0.05}, 42);
    EXPECT_EQ(parts[0]->indices(), again[0]->indices());
    EXPECT_NE(parts[0]->indices(), random_split(numbers, {0.8, 0.2}, 43)[0]->indices());

    const auto sizes = random_split_sizes(numbers, {100, 0, 3}, 1);
    EXPECT_EQ(sizes[0]->size(), 100);
    EXPECT_EQ(sizes[1]->size(), 0);
    EXPECT_EQ(sizes[2]->size(), 3);
}

TEST(RandomSplit, Refuses) {
    const auto numbers = std::make_shared<const Numbers>(10);
    EXPECT_ERROR(random_split(numbers, {0.8, 0.3}, 0), ValueError, "0.8, 0.3", "add up to 1");
    EXPECT_ERROR(random_split(numbers, {1.2, -0.2}, 0), ValueError, "add up to 1");
    EXPECT_ERROR(random_split(numbers, {}, 0), ValueError, "add up to 1");
    EXPECT_ERROR(random_split_sizes(numbers, {5, 6}, 0), ValueError, "5, 6", "10");
    EXPECT_ERROR(random_split_sizes(numbers, {11, -1}, 0), ValueError, "11, -1");
    EXPECT_ERROR(random_split(nullptr, {1.0}, 0), ValueError, "null");
}

}  // namespace
}  // namespace pippin::data
