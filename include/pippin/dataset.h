// What a dataset is, and the small ones: tensors, subsets, random splits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pippin/tensor.h"

namespace pippin::data {

/// Row-major elements on the processor that are in no graph: what loader threads work with.
class Array {
  public:
    Array() = default;
    /// Zeros.
    Array(DType dtype, const Shape& shape) { reset(dtype, shape); }
    /// A 0-d array, such as a label: Array::scalar(std::int64_t{3}).
    template <class T>
    static Array scalar(T value) {
        Array a(dtype_of<T>(), Shape{});
        *a.data<T>() = value;
        return a;
    }

    DType dtype() const { return dtype_; }
    const Shape& shape() const { return shape_; }
    std::size_t nbytes() const { return bytes_.size(); }
    /// TypeError unless T is the dtype.
    template <class T>
    T* data() {
        check(dtype_of<T>());
        return reinterpret_cast<T*>(bytes_.data());
    }
    template <class T>
    const T* data() const {
        check(dtype_of<T>());
        return reinterpret_cast<const T*>(bytes_.data());
    }
    std::byte* raw() { return bytes_.data(); }
    const std::byte* raw() const { return bytes_.data(); }

    /// Takes another dtype and shape, keeping the memory. The elements have no particular values.
    void reset(DType dtype, const Shape& shape);

  private:
    void check(DType asked) const;
    DType dtype_ = DType::Float32;
    Shape shape_{0};
    std::vector<std::byte> bytes_;
};

/// One sample, or (with one more dimension in front) a batch of them.
struct Example {
    Array data;    ///< for images float32 (C, H, W)
    Array target;  ///< for classification an int64 label, 0-d
    /// Further inputs by name, such as a text's "attention_mask". All samples of a dataset have the
    /// same names in the same order.
    std::vector<std::pair<std::string, Array>> more = {};
};

/// Random numbers of one sample in one epoch: Philox 4x32-10 under (seed, epoch, sample), so that
/// they depend on no other sample and on no thread.
class SampleRandom {
  public:
    SampleRandom(std::uint64_t seed, std::uint32_t epoch, std::uint64_t sample)
        : seed_(seed), sample_(sample), epoch_(epoch) {}

    std::uint32_t next();
    double uniform() { return next() * 0x1p-32; }  ///< in [0, 1)
    double uniform(double low, double high) { return low + (high - low) * uniform(); }
    /// In [0, n), all equally likely. n must be positive.
    std::int64_t below(std::int64_t n);

  private:
    std::uint64_t seed_, sample_;
    std::uint32_t epoch_, block_ = 0;
    std::uint32_t numbers_[4] = {};
    int left_ = 0;
};

/// What decides a sample's random choices.
struct Draws {
    std::uint64_t seed = 0;
    std::uint32_t epoch = 0;
    SampleRandom of(std::int64_t sample) const {
        return {seed, epoch, static_cast<std::uint64_t>(sample)};
    }
};

/// A numbered set of samples. Subclasses give size() and load(); several loader threads call load()
/// and load_batch() at once, so these may change nothing that they share.
class Dataset {
  public:
    virtual ~Dataset() = default;

    virtual std::int64_t size() const = 0;

    /// Sample `index`, which is within range. Take random numbers from `draws.of(index)`. What it
    /// throws reaches the thread that iterates over the loader.
    virtual Example load(std::int64_t index, Draws draws) const = 0;

    /// Puts these samples into one batch: what PyTorch calls collate_fn. This one calls load() for
    /// each and raises ValueError where shapes, dtypes or names differ; override it where that is
    /// too slow, or where samples have to be padded to one length. `batch` may hold an earlier
    /// batch, whose memory can be used again.
    virtual void load_batch(std::span<const std::int64_t> indices, Draws draws,
                            Example& batch) const;

    /// load() with the index checked (IndexError).
    Example get(std::int64_t index, Draws draws = {}) const;

  protected:
    Dataset() = default;
    Dataset(const Dataset&) = default;
    Dataset& operator=(const Dataset&) = default;
};
using DatasetPtr = std::shared_ptr<const Dataset>;

/// Rows of two tensors, (N, ...) each: sample i is data[i] with target[i]. Their values are copied
/// at construction.
class TensorDataset : public Dataset {
  public:
    /// ValueError unless both have the same N.
    TensorDataset(const Tensor& data, const Tensor& target);
    std::int64_t size() const override { return size_; }
    Example load(std::int64_t index, Draws draws) const override;
    void load_batch(std::span<const std::int64_t> indices, Draws draws,
                    Example& batch) const override;

  private:
    std::int64_t size_;
    Array data_, target_;
};

/// Some samples of another dataset, in the order given. A sample keeps the random numbers that it
/// has there.
class Subset : public Dataset {
  public:
    /// IndexError when an index is out of range.
    Subset(DatasetPtr dataset, std::vector<std::int64_t> indices);
    std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
    Example load(std::int64_t index, Draws draws) const override;
    void load_batch(std::span<const std::int64_t> indices, Draws draws,
                    Example& batch) const override;
    const std::vector<std::int64_t>& indices() const { return indices_; }

  private:
    DatasetPtr dataset_;
    std::vector<std::int64_t> indices_;
};

/// Parts of these fractions, which add up to 1, drawn at random: random_split(d, {0.8, 0.2}, 42).
/// As in PyTorch, each part's size is rounded down and the first parts get one of what is left.
/// Datasets of one size are split alike under one seed.
std::vector<std::shared_ptr<const Subset>> random_split(DatasetPtr dataset,
                                                        const std::vector<double>& fractions,
                                                        std::uint64_t seed);
/// Parts of these sizes, which add up to the dataset's.
std::vector<std::shared_ptr<const Subset>> random_split_sizes(
    DatasetPtr dataset, const std::vector<std::int64_t>& sizes, std::uint64_t seed);

/// 0 .. n-1 in a random order that depends on seed and epoch alone.
std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed,
                                             std::uint32_t epoch = 0);

}  // namespace pippin::data
