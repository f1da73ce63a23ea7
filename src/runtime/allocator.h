// The caching allocator of each device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/value.h"

namespace pippin::runtime {

/// A block of at least `bytes`. Blocks given back are kept for reuse within a bound. When the
/// device has no room, caches are released and the request is tried once more; then
/// OutOfMemoryError names the request, what is live, the largest live blocks and what the device
/// has.
BufferPtr allocate(Device device, std::size_t bytes);

/// Gives all cached blocks back to the system.
void release_cached();

struct MemoryStats {
    std::int64_t live = 0, cached = 0, peak = 0;
};
MemoryStats memory_stats(Device device);
/// Live and cached blocks of a device stay below that part of its memory.
void limit_memory(Device device, double fraction);
void reset_peak();

}  // namespace pippin::runtime
