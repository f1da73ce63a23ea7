// Counters of what has run, for tests, benchmarks and people who wonder.
#pragma once

#include <cstdint>

#include "pippin/device.h"

namespace pippin {

struct Stats {
    std::int64_t launches = 0;        ///< kernels run since the start
    std::int64_t flushes = 0;         ///< plans run
    std::int64_t plans_compiled = 0;  ///< misses of the plan cache
    std::int64_t plans_cached = 0;    ///< entries in the plan cache now
    std::int64_t bytes_live = 0;      ///< bytes of tensors now
    std::int64_t bytes_cached = 0;    ///< bytes that the allocator keeps for later
    std::int64_t bytes_peak = 0;      ///< most bytes_live + arena since reset_peak_memory
};
Stats stats();
void reset_peak_memory();
/// Gives cached memory back to the system and forgets compiled plans.
void empty_cache();
/// Bounds the plan cache (default 256 plans).
void set_plan_cache_limit(std::int64_t plans);

}  // namespace pippin
