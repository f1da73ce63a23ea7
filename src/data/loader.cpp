#include "pippin/loader.h"

#include <fmt/format.h>

#include <atomic>
#include <limits>
#include <numeric>

#include "data/prefetcher.h"
#include "pippin/error.h"
#include "pippin/ops.h"
#include "pippin/random.h"
#include "profile/recorder.h"

namespace pippin::data {
namespace {

Tensor to_tensor(const Array& a, Device device) {
    return from_bytes(a.raw(), a.shape(), a.dtype(), device);
}

}  // namespace

struct DataLoader::Impl {
    DatasetPtr dataset;
    LoaderOptions options;
    std::uint64_t seed;
    int process = 0, processes = 1;
    std::int64_t batches;
    std::int64_t next_epoch = 0;
    std::int64_t first_batch = 0;  ///< of the next loop
    std::uint64_t run = 0;         ///< the loop under way
    std::uint64_t active = 0;      ///< its number in the process; 0 once it is over
    std::int64_t next_batch = 0;   ///< of the loop under way
    Prefetcher prefetcher;

    Impl(DatasetPtr d, const LoaderOptions& o)
        : dataset(std::move(d)),
          options(o),
          seed(o.seed ? *o.seed : random_state().seed),
          batches(count_batches()),
          prefetcher(dataset, o.workers, o.prefetch) {}

    // Batches in an epoch: of one process of several.
    std::int64_t count_batches() const {
        const std::int64_t n = dataset->size(), size = options.batch_size;
        if (options.drop_last) return n / size / processes;
        const std::int64_t round = size * processes;
        return processes == 1 ? n / size + (n % size != 0) : n / round + (n % round != 0);
    }

    std::vector<std::int64_t> share_of(const std::vector<std::int64_t>& order) const {
        std::vector<std::int64_t> own;
        for (std::int64_t b = 0; b < batches; ++b)
            for (std::int64_t i = 0; i < options.batch_size; ++i) {
                const auto at =
                    static_cast<std::size_t>((b * processes + process) * options.batch_size + i);
                own.push_back(order[at % order.size()]);
            }
        return own;
    }

    void begin_epoch() {
        auto plan = std::make_shared<EpochPlan>();
        plan->batch_size = options.batch_size;
        plan->batches = batches;
        plan->draws = {seed, static_cast<std::uint32_t>(next_epoch)};
        if (options.shuffle) {
            plan->order = random_permutation(dataset->size(), seed, plan->draws.epoch);
        } else {
            plan->order.resize(static_cast<std::size_t>(dataset->size()));
            std::iota(plan->order.begin(), plan->order.end(), std::int64_t{0});
        }
        if (processes > 1) plan->order = share_of(plan->order);
        static std::atomic<std::uint64_t> loops{0};
        ++run;
        active = ++loops;
        ++next_epoch;
        next_batch = std::exchange(first_batch, 0);
        prefetcher.start(std::move(plan), next_batch);
    }
};

const Tensor& Batch::operator[](std::string_view name) const {
    std::string names;
    for (const auto& [n, tensor] : more) {
        if (n == name) return tensor;
        names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", n);
    }
    throw ValueError(fmt::format("the batch has no \"{}\"; beside data and target it has {}", name,
                                 names.empty() ? "nothing" : names));
}

namespace {

const DatasetPtr& checked(const DatasetPtr& dataset, const LoaderOptions& o) {
    if (!dataset) throw ValueError("DataLoader: the dataset is null");
    if (o.batch_size < 1)
        throw ValueError(fmt::format("DataLoader: batch_size {} must be positive", o.batch_size));
    if (o.workers < 0 || o.workers > 1024)
        throw ValueError(fmt::format("DataLoader: workers {} is not in 0 to 1024", o.workers));
    if (o.prefetch < 1)
        throw ValueError(fmt::format("DataLoader: prefetch {} must be positive", o.prefetch));
    return dataset;
}

}  // namespace

DataLoader::DataLoader(DatasetPtr dataset, LoaderOptions options)
    : impl_(std::make_shared<Impl>(checked(dataset, options), options)) {}
DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

std::int64_t DataLoader::size() const { return impl_->batches; }
const Dataset& DataLoader::dataset() const { return *impl_->dataset; }
const LoaderOptions& DataLoader::options() const { return impl_->options; }
std::int64_t DataLoader::epoch() const { return impl_->next_epoch; }

void DataLoader::set_epoch(std::int64_t epoch) {
    if (epoch < 0 || epoch > std::numeric_limits<std::uint32_t>::max())
        throw ValueError(fmt::format("DataLoader: epoch {} is not in 0 to 2^32 - 1", epoch));
    impl_->next_epoch = epoch;
}

void DataLoader::skip_to(std::int64_t batch) {
    if (batch < 0 || batch > impl_->batches)
        throw ValueError(fmt::format("DataLoader: cannot skip to batch {} of an epoch of {}", batch,
                                     impl_->batches));
    impl_->first_batch = batch;
}

DataLoader::Position DataLoader::position() const {
    if (impl_->active) return {impl_->next_epoch - 1, impl_->next_batch, impl_->seed};
    return {impl_->next_epoch, impl_->first_batch, impl_->seed};
}

void DataLoader::set_position(const Position& p) {
    const std::int64_t epoch = impl_->next_epoch;
    set_epoch(p.epoch);
    try {
        skip_to(p.batch);
    } catch (...) {
        impl_->next_epoch = epoch;
        throw;
    }
    impl_->seed = p.seed;
}

void DataLoader::split(int process_index, int num_processes) {
    if (num_processes < 1 || process_index < 0 || process_index >= num_processes)
        throw ValueError(fmt::format("DataLoader.split: process {} of {} does not exist",
                                     process_index, num_processes));
    if (impl_->active) throw ValueError("DataLoader.split: a loop over this loader is under way");
    impl_->process = process_index;
    impl_->processes = num_processes;
    impl_->batches = impl_->count_batches();
    impl_->first_batch = 0;
}

std::int64_t DataLoader::last_samples() const {
    const std::int64_t round = impl_->options.batch_size * impl_->processes;
    const std::int64_t rest = dataset().size() % round;
    return rest == 0 || impl_->options.drop_last ? round : rest;
}

std::uint64_t DataLoader::active_loop() const { return impl_->active; }

DataLoader::Iterator DataLoader::begin() {
    impl_->begin_epoch();
    return Iterator(impl_);
}

DataLoader::Iterator::Iterator(std::shared_ptr<Impl> impl)
    : impl_(std::move(impl)), run_(impl_->run) {
    ++*this;
}

DataLoader::Iterator::Iterator(Iterator&& o) noexcept
    : impl_(std::move(o.impl_)), run_(o.run_), batch_(std::move(o.batch_)) {}

DataLoader::Iterator& DataLoader::Iterator::operator=(Iterator&& o) noexcept {
    if (this != &o) {
        finish();
        impl_ = std::move(o.impl_);
        run_ = o.run_;
        batch_ = std::move(o.batch_);
    }
    return *this;
}

DataLoader::Iterator::~Iterator() { finish(); }

void DataLoader::Iterator::finish() {
    if (impl_ && impl_->run == run_) {
        impl_->prefetcher.stop();
        impl_->active = 0;
    }
    impl_ = nullptr;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
    if (!impl_) throw ValueError("DataLoader: this loop is over");
    if (impl_->run != run_)
        throw ValueError(
            "DataLoader: another loop over this loader has begun, which ended this one");
    if (impl_->next_batch == impl_->batches) {
        finish();
        batch_ = {};
        return *this;
    }
    try {
        std::unique_ptr<Example> made = impl_->prefetcher.next();
        const recording::Range range("batch to tensors");
        const Device device = impl_->options.device.value_or(default_device());
        batch_.data = to_tensor(made->data, device);
        batch_.target = to_tensor(made->target, device);
        batch_.more.clear();
        for (const auto& [name, array] : made->more)
            batch_.more.emplace_back(name, to_tensor(array, device));
        batch_.index = impl_->next_batch++;
        impl_->prefetcher.recycle(std::move(made));
    } catch (...) {
        finish();
        throw;
    }
    return *this;
}

}  // namespace pippin::data
