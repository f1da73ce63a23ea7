#include "pippin/dataset.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "pippin/error.h"

namespace pippin::data {
namespace {

Shape batch_of(std::size_t n, const Shape& sample) {
    Shape shape = sample;
    shape.insert(0, static_cast<std::int64_t>(n));
    return shape;
}

// Copies one sample's array into its place in the batch's.
void put(Array& batch, std::size_t place, const Array& sample, std::int64_t index,
         std::int64_t first_index, std::string_view which) {
    bool same =
        sample.dtype() == batch.dtype() && sample.shape().rank() + 1 == batch.shape().rank();
    for (int d = 0; same && d < sample.shape().rank(); ++d)
        same = sample.shape()[d] == batch.shape()[d + 1];
    if (!same) {
        Shape expected = batch.shape();
        expected.erase(0);
        throw ValueError(fmt::format(
            "the {} of sample {} is {} {}, but that of sample {}, the first of its batch, is {} "
            "{}. "
            "A batch needs equal ones: give the dataset a transform with a fixed size, such as "
            "Resize(height, width), or use batches of 1",
            which, index, name_of(sample.dtype()), sample.shape().str(), first_index,
            name_of(batch.dtype()), expected.str()));
    }
    const std::size_t bytes = sample.nbytes();
    if (bytes > 0) std::memcpy(batch.raw() + place * bytes, sample.raw(), bytes);
}

void check_names(const Example& batch, const Example& sample, std::int64_t index) {
    const auto names = [](const Example& e) {
        std::vector<std::string_view> out;
        for (const auto& entry : e.more)
            out.emplace_back(entry.first);
        return out;
    };
    if (names(sample) != names(batch))
        throw ValueError(
            fmt::format("sample {} has the further inputs [{}], but the first of its "
                        "batch has [{}]",
                        index, fmt::join(names(sample), ", "), fmt::join(names(batch), ", ")));
}

}  // namespace

void Array::reset(DType dtype, const Shape& shape) {
    const std::int64_t n = shape.numel();
    if (n < 0) throw ValueError(fmt::format("an array cannot have the shape {}", shape.str()));
    dtype_ = dtype;
    shape_ = shape;
    bytes_.resize(static_cast<std::size_t>(n) * size_of(dtype));
}

void Array::check(DType asked) const {
    if (asked != dtype_)
        throw TypeError(fmt::format("this array is {}, not {}", name_of(dtype_), name_of(asked)));
}

Example Dataset::get(std::int64_t index, Draws draws) const {
    if (index < 0 || index >= size())
        throw IndexError(fmt::format("sample {} of a dataset of {}", index, size()));
    return load(index, draws);
}

void Dataset::load_batch(std::span<const std::int64_t> indices, Draws draws, Example& batch) const {
    for (std::size_t place = 0; place < indices.size(); ++place) {
        const Example sample = load(indices[place], draws);
        if (place == 0) {
            batch.data.reset(sample.data.dtype(), batch_of(indices.size(), sample.data.shape()));
            batch.target.reset(sample.target.dtype(),
                               batch_of(indices.size(), sample.target.shape()));
            batch.more.resize(sample.more.size());
            for (std::size_t i = 0; i < sample.more.size(); ++i) {
                const auto& [name, array] = sample.more[i];
                batch.more[i].first = name;
                batch.more[i].second.reset(array.dtype(), batch_of(indices.size(), array.shape()));
            }
        }
        put(batch.data, place, sample.data, indices[place], indices[0], "data");
        put(batch.target, place, sample.target, indices[place], indices[0], "target");
        check_names(batch, sample, indices[place]);
        for (std::size_t i = 0; i < sample.more.size(); ++i)
            put(batch.more[i].second, place, sample.more[i].second, indices[place], indices[0],
                sample.more[i].first);
    }
}

Subset::Subset(DatasetPtr dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
    if (!dataset_) throw ValueError("Subset: the dataset is null");
    for (const std::int64_t i : indices_)
        if (i < 0 || i >= dataset_->size())
            throw IndexError(
                fmt::format("Subset: index {} in a dataset of {}", i, dataset_->size()));
}

Example Subset::load(std::int64_t index, Draws draws) const {
    return dataset_->load(indices_[static_cast<std::size_t>(index)], draws);
}

void Subset::load_batch(std::span<const std::int64_t> indices, Draws draws, Example& batch) const {
    std::vector<std::int64_t> mapped;
    mapped.reserve(indices.size());
    for (const std::int64_t i : indices)
        mapped.push_back(indices_[static_cast<std::size_t>(i)]);
    dataset_->load_batch(mapped, draws, batch);
}

std::vector<std::shared_ptr<const Subset>> random_split(DatasetPtr dataset,
                                                        const std::vector<double>& fractions,
                                                        std::uint64_t seed) {
    if (!dataset) throw ValueError("random_split: the dataset is null");
    double sum = 0;
    bool valid = !fractions.empty();
    for (const double f : fractions) {
        valid = valid && f >= 0 && f <= 1;
        sum += f;
    }
    if (!valid || std::abs(sum - 1) > 1e-6)
        throw ValueError(
            fmt::format("random_split: fractions must lie in [0, 1] and add up to 1, not [{}]; "
                        "random_split_sizes takes numbers of samples",
                        fmt::join(fractions, ", ")));
    const std::int64_t n = dataset->size();
    std::vector<std::int64_t> sizes;
    for (const double f : fractions)
        sizes.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(n) * f)));
    std::int64_t left = n - std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    for (std::size_t i = 0; left > 0; i = (i + 1) % sizes.size(), --left)
        ++sizes[i];
    return random_split_sizes(std::move(dataset), sizes, seed);
}

std::vector<std::shared_ptr<const Subset>> random_split_sizes(
    DatasetPtr dataset, const std::vector<std::int64_t>& sizes, std::uint64_t seed) {
    if (!dataset) throw ValueError("random_split: the dataset is null");
    std::int64_t sum = 0;
    bool valid = true;
    for (const std::int64_t s : sizes) {
        valid = valid && s >= 0 && s <= dataset->size();
        sum += valid ? s : 0;
    }
    if (!valid || sum != dataset->size())
        throw ValueError(
            fmt::format("random_split_sizes: sizes [{}] do not add up to the dataset's {}",
                        fmt::join(sizes, ", "), dataset->size()));
    const std::vector<std::int64_t> order = random_permutation(dataset->size(), seed);
    std::vector<std::shared_ptr<const Subset>> parts;
    auto from = order.begin();
    for (const std::int64_t s : sizes) {
        parts.push_back(
            std::make_shared<const Subset>(dataset, std::vector<std::int64_t>(from, from + s)));
        from += s;
    }
    return parts;
}

}  // namespace pippin::data
