// Counters of what has run, for tests, benchmarks and people who wonder.
#pragma once

#include <cstdint>

#include "pippin/device.h"

namespace pippin {

struct Stats {
    std::int64_t launches = 0;        ///< kernels run since the start
    std::int64_t fallbacks = 0;       ///< of them: a GPU's, which the processor ran for it
    std::int64_t flushes = 0;         ///< plans run
    std::int64_t plans_compiled = 0;  ///< misses of the plan cache
    std::int64_t plans_cached = 0;    ///< entries in the plan cache now
    std::int64_t bytes_live = 0;      ///< bytes of tensors now
    std::int64_t bytes_cached = 0;    ///< bytes that the allocator keeps for later
    std::int64_t bytes_peak = 0;      ///< most bytes_live + arena since reset_peak_memory
};
Stats stats();
void reset_peak_memory();

/// Bytes of a device's memory that tensors and running plans hold now; the most since
/// reset_peak_memory(); bytes kept for later beside. As torch.cuda.memory_allocated,
/// max_memory_allocated and memory_reserved - memory_allocated.
std::int64_t memory_allocated(Device device = default_device());
std::int64_t max_memory_allocated(Device device = default_device());
std::int64_t memory_cached(Device device = default_device());
/// Bytes of the device.
std::int64_t memory_total(Device device = default_device());
/// This program takes at most that part of the device's memory, what is cached included; more is an
/// OutOfMemoryError. 1 unless set. ValueError unless fraction is above 0 and at most 1; DeviceError
/// where there is no such device. As torch.cuda.set_per_process_memory_fraction.
void set_memory_fraction(double fraction, Device device = default_device());
/// Gives cached memory back to the system and forgets compiled plans.
void empty_cache();
/// Bounds the plan cache (default 256 plans).
void set_plan_cache_limit(std::int64_t plans);

}  // namespace pippin
