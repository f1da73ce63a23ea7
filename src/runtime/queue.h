// The queue of a device: runs submissions in order on its own thread, so that building the next
// step's graph overlaps this step's work. Where a device works on by itself, a second thread waits
// for what is in flight, so that the next run is with the device before this one has ended.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/backend.h"
#include "runtime/value.h"

namespace pippin::runtime {

/// An input that an earlier run may still be computing: if it is lost, so is what depends on it.
struct Dependency {
    std::shared_ptr<Fence> fence;
    std::int32_t result = 0;  ///< of that run
    std::int32_t input = 0;   ///< of this one
};

/// When a result is lost to an error.
struct ResultFate {
    std::int32_t launch = -1;  ///< that writes it last; -1: none
    /// It is written over its variable's former value, which is still there if the launch did not
    /// run: a parameter after a step that failed.
    bool keeps_old = false;
    bool lost(const std::vector<LaunchState>& launches) const {
        if (launch < 0) return false;
        const LaunchState s = launches[static_cast<std::size_t>(launch)];
        return s == LaunchState::Failed || (s == LaunchState::Skipped && !keeps_old);
    }
};

struct Submission {
    std::shared_ptr<Executable> executable;
    std::vector<BufferPtr> inputs, outputs;
    std::vector<Dependency> waits_for;
    std::vector<ResultFate> results;  ///< by Value::result
    std::vector<std::uint64_t> scalars;
    std::int64_t arena_bytes = 0, launches = 0;
    std::shared_ptr<Fence> fence;
};

void submit(Device device, Submission s);
/// Waits until nothing is queued on any device. Throws the first error that no one has seen yet.
void drain();
/// The same, leaving errors for whoever reads the results.
void wait_until_idle();
/// Gives the arena back when no work is queued.
void drop_idle_arena(Device device);

struct QueueStats {
    std::int64_t runs = 0, launches = 0, arena_bytes = 0;
    std::int64_t fallbacks = 0;  ///< launches of a GPU that the processor ran
};
void count_fallback();
/// Of all devices together.
QueueStats queue_stats();

}  // namespace pippin::runtime
