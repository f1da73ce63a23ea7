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

struct Submission {
    std::shared_ptr<Executable> executable;
    std::vector<BufferPtr> inputs, outputs;
    std::vector<std::shared_ptr<Fence>>
        waits_for;  ///< of the inputs: their errors are this run's too
    std::vector<std::uint64_t> scalars;
    std::int64_t arena_bytes = 0, launches = 0;
    std::shared_ptr<Fence> fence;
};

void submit(Device device, Submission s);
/// Waits until nothing is queued on any device. Throws the first error that no one has seen yet.
void drain();
/// Gives the arena back when no work is queued.
void drop_idle_arena(Device device);

struct QueueStats {
    std::int64_t runs = 0, launches = 0, arena_bytes = 0;
};
/// Of all devices together.
QueueStats queue_stats();

}  // namespace pippin::runtime
