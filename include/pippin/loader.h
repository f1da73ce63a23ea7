// DataLoader: batches for a training loop, made ahead by worker threads.
//
//   for (auto& [x, y, index] : loader) { ... }
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pippin/dataset.h"

namespace pippin::data {

/// data (N, ...) and target (N, ...): for images float32 (N, C, H, W) and int64 (N). It falls apart
/// into these three: auto& [x, y, index] = batch. Further inputs have names:
/// batch["attention_mask"].
struct Batch {
    Tensor data;
    Tensor target;
    std::int64_t index = 0;  ///< within its epoch
    std::vector<std::pair<std::string, Tensor>> more = {};
    /// One of `more`. ValueError, with the names there are, for another name.
    const Tensor& operator[](std::string_view name) const;
};
template <std::size_t I>
auto& get(Batch& b) {
    if constexpr (I == 0)
        return b.data;
    else if constexpr (I == 1)
        return b.target;
    else
        return b.index;
}
template <std::size_t I>
const auto& get(const Batch& b) {
    return get<I>(const_cast<Batch&>(b));
}
template <std::size_t I>
auto&& get(Batch&& b) {
    return std::move(get<I>(b));
}

struct LoaderOptions {
    std::int64_t batch_size = 1;
    bool shuffle = false;
    /// Of the order and of random transforms. Unset: manual_seed's, when the loader is made.
    std::optional<std::uint64_t> seed = std::nullopt;
    int workers = 0;         ///< threads; 0: batches are made by the thread that asks for them
    int prefetch = 4;        ///< batches made ahead, at most; at least 1
    bool drop_last = false;  ///< leave out a last batch that is not full
    std::optional<Device> device = std::nullopt;  ///< unset: default_device()
};

/// Each loop over it is one epoch. Order and random transforms depend on the seed and the number of
/// the epoch alone: not on the workers, nor on what was read before. What a worker throws, a
/// damaged file say, is thrown by the loop; the loop is over then, and the next one starts the next
/// epoch.
class DataLoader {
  public:
    /// ValueError for a batch size or prefetch below 1 or negative workers.
    explicit DataLoader(DatasetPtr dataset, LoaderOptions options = {});
    template <std::derived_from<Dataset> D>
    explicit DataLoader(D dataset, LoaderOptions options = {})
        : DataLoader(std::make_shared<const D>(std::move(dataset)), options) {}
    ~DataLoader();
    DataLoader(DataLoader&&) noexcept;
    DataLoader& operator=(DataLoader&&) noexcept;

    std::int64_t size() const;  ///< batches in an epoch (of this process)
    const Dataset& dataset() const;
    const LoaderOptions& options() const;

    /// The number of the epoch that the next loop is; loops count up from 0.
    std::int64_t epoch() const;
    void set_epoch(std::int64_t epoch);
    /// The next loop begins at this batch (0 to size()) of its epoch, and loads none before it.
    void skip_to(std::int64_t batch);

    /// Where the loop under way is, or where the next one begins: what a checkpoint keeps.
    struct Position {
        std::int64_t epoch = 0, batch = 0;  ///< batches of it that were given out
        std::uint64_t seed = 0;
    };
    Position position() const;
    /// The next loop begins there. The seed replaces the loader's.
    void set_position(const Position& p);
    /// Number of the loop under way, counted over all loaders of the process; 0 when there is none.
    std::uint64_t active_loop() const;

    /// One of several processes takes every num_processes-th batch, from its own index on, of an
    /// order that all have alike; first samples fill up what is missing for all to have equally
    /// many full batches (with drop_last, what is missing is left out for all).
    /// Accelerator.prepare() calls it.
    void split(int process_index, int num_processes);
    /// Of the samples that the processes' last batches have together, those that fill nothing up.
    std::int64_t last_samples() const;

    class Iterator;
    /// Starts an epoch, ending a loop that may be under way, and loads its first batch.
    Iterator begin();
    std::default_sentinel_t end() const { return {}; }

  private:
    struct Impl;
    std::shared_ptr<Impl> impl_;
};

/// One pass over an epoch. Destroying it stops the loading: then no worker touches the dataset.
class DataLoader::Iterator {
  public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    Iterator(Iterator&& o) noexcept;
    Iterator& operator=(Iterator&& o) noexcept;
    ~Iterator();

    Batch& operator*() const { return batch_; }
    Batch* operator->() const { return &batch_; }
    /// Waits for the next batch. ValueError when another loop over the loader has begun since.
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return impl_ == nullptr; }

  private:
    friend class DataLoader;
    explicit Iterator(std::shared_ptr<Impl> impl);
    void finish();
    std::shared_ptr<Impl> impl_;  ///< null at the end
    std::uint64_t run_;           ///< which of the loader's loops this is
    mutable Batch batch_;
};

}  // namespace pippin::data

template <>
struct std::tuple_size<pippin::data::Batch> : std::integral_constant<std::size_t, 3> {};
template <std::size_t I>
struct std::tuple_element<I, pippin::data::Batch> {
    using type = std::conditional_t<I == 2, std::int64_t, pippin::Tensor>;
};
