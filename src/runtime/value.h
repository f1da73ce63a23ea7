// Bytes on a device, and the handle through which they become ready.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pippin/device.h"
#include "plan/plan.h"
#include "runtime/memory.h"

namespace pippin {

/// One run's completion. Signalled once; carries the error if there was one, and which of the run's
/// results were lost to it.
class Fence {
  public:
    void wait() const;  ///< blocks; throws what the run threw
    /// Blocks; throws what the run threw if that result was lost.
    void wait_for(std::int32_t result) const;
    bool done() const { return done_.load(std::memory_order_acquire) != 0; }
    /// `lost`: a flag for each result. Empty: all of them, if there is an error.
    void signal(std::exception_ptr error = nullptr, std::vector<char> lost = {});
    bool failed() const { return done() && error_; }
    bool lost(std::int32_t result) const {
        return failed() && (lost_.empty() || lost_[static_cast<std::size_t>(result)]);
    }
    std::exception_ptr error() const { return done() ? error_ : nullptr; }
    bool failed_unseen() const { return done() && error_ && !seen_.load(); }
    void block() const;  ///< until it is signalled, whatever the outcome

    // --- a run that is under way ---
    /// Which launch of the run writes each result last; before the run is submitted.
    void set_launches(std::vector<std::int32_t> of_results) { launches_ = std::move(of_results); }
    /// Launches that have ended well, in order: the device's to count up, if it can.
    std::atomic<std::int32_t>& progress() { return progress_; }
    /// Whether a result's bytes are there, although the run may go on: what lets processes exchange
    /// gradients while others are still being computed.
    bool has(std::int32_t result) const {
        if (done()) return !lost(result);
        const auto k = static_cast<std::size_t>(result);
        return k < launches_.size() && progress_.load(std::memory_order_acquire) > launches_[k];
    }
    /// The launch that writes a result last; -1 where that is not known.
    std::int32_t launch_of(std::int32_t result) const {
        const auto k = static_cast<std::size_t>(result);
        return k < launches_.size() ? launches_[k] : -1;
    }

  private:
    std::atomic<std::uint32_t> done_{0};
    std::atomic<std::int32_t> progress_{0};
    mutable std::atomic<bool> seen_{false};  ///< someone was told of the error
    std::exception_ptr error_;
    std::vector<char> lost_;
    std::vector<std::int32_t> launches_;
};

/// A block from a device's allocator, given back when the last holder goes.
struct Buffer {
    runtime::Memory memory;
    std::size_t bytes = 0;
    Device device;
    ~Buffer();
};
using BufferPtr = std::shared_ptr<Buffer>;

/// A computed tensor: dense bytes in one of two orders.
struct Value {
    BufferPtr buffer;
    std::size_t bytes = 0;
    plan::Order order = plan::Order::RowMajor;
    std::shared_ptr<Fence> ready;  ///< null: ready from the start
    std::int32_t result = 0;       ///< which of that run's results this is
    /// Another Value has the same bytes (or once had): never overwrite them in place. The buffer's
    /// own count would not tell, since submitted runs hold buffers too.
    mutable bool shared = false;
    /// Row-major bytes that the processor reads, once someone asked for them, where the buffer's
    /// own cannot be read in place.
    mutable BufferPtr host_copy;

    /// Blocks until the bytes are there; throws what kept them from it.
    void wait() const {
        if (ready) ready->wait_for(result);
    }
};

}  // namespace pippin
