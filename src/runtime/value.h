// Bytes on a device, and the handle through which they become ready.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "pippin/device.h"
#include "plan/plan.h"
#include "runtime/memory.h"

namespace pippin {

/// One run's completion. Signalled once; carries the error if there was one.
class Fence {
  public:
    void wait() const;  ///< blocks; throws what the run threw
    bool done() const { return done_.load(std::memory_order_acquire) != 0; }
    void signal(std::exception_ptr error = nullptr);
    bool failed() const { return done() && error_; }
    bool failed_unseen() const { return done() && error_ && !seen_.load(); }

  private:
    std::atomic<std::uint32_t> done_{0};
    mutable std::atomic<bool> seen_{false};  ///< someone was told of the error
    std::exception_ptr error_;
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
    /// Another Value has the same bytes (or once had): never overwrite them in place. The buffer's
    /// own count would not tell, since submitted runs hold buffers too.
    mutable bool shared = false;
    /// Row-major bytes that the processor reads, once someone asked for them, where the buffer's
    /// own cannot be read in place.
    mutable BufferPtr host_copy;
};

}  // namespace pippin
