// Makes the batches of an epoch, ahead of time where it has threads. Knows nothing of tensors, so
// no thread but the caller's ever touches a graph.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "pippin/dataset.h"

namespace pippin::data {

/// Which samples make up an epoch's batches.
struct EpochPlan {
    std::vector<std::int64_t> order;
    std::int64_t batch_size = 1;
    std::int64_t batches = 0;
    Draws draws;

    std::span<const std::int64_t> batch(std::int64_t k) const {
        const auto from = static_cast<std::size_t>(k * batch_size);
        const auto n = static_cast<std::size_t>(batch_size);
        return std::span(order).subspan(from, std::min(n, order.size() - from));
    }
};

class Prefetcher {
  public:
    Prefetcher(DatasetPtr dataset, int workers, int ahead);
    ~Prefetcher();
    Prefetcher(const Prefetcher&) = delete;
    Prefetcher& operator=(const Prefetcher&) = delete;

    /// Goes to batch `first` of another epoch, after stop().
    void start(std::shared_ptr<const EpochPlan> plan, std::int64_t first);
    /// Makes no further batches until start(). Waits for those under way, so that nothing touches
    /// the dataset afterwards.
    void stop();
    /// The next batch, or what making it threw. Only while there is one (the caller counts).
    std::unique_ptr<Example> next();
    /// Takes a batch back, to use its memory again.
    void recycle(std::unique_ptr<Example> batch);

  private:
    struct Slot {
        bool ready = false;
        std::unique_ptr<Example> batch;
        std::exception_ptr error;
    };
    void work();
    void quit();
    std::unique_ptr<Example> make(const EpochPlan& plan, std::int64_t k,
                                  std::unique_ptr<Example> batch) const;
    // These need the mutex.
    std::unique_ptr<Example> spare();  ///< null when there is none
    void keep(std::unique_ptr<Example> batch);
    Slot& slot(std::int64_t k) { return slots_[static_cast<std::size_t>(k) % slots_.size()]; }

    const DatasetPtr dataset_;
    std::mutex mutex_;
    std::condition_variable may_work_, is_ready_;
    bool quit_ = false;
    int busy_ = 0;                                 ///< workers that are making a batch
    std::shared_ptr<const EpochPlan> plan_;        ///< null while stopped
    std::int64_t taken_ = 0;                       ///< the next batch to be made
    std::int64_t given_ = 0;                       ///< the next batch to be handed out
    std::vector<Slot> slots_;                      ///< batch k is in slot k mod size
    std::vector<std::unique_ptr<Example>> spare_;  ///< buffers to use again
    std::vector<std::thread> threads_;
};

}  // namespace pippin::data
