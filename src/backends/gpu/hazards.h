// In which order dispatches go, which must wait for those before them, and which may run beside
// them.
#pragma once

#include "backends/gpu/work.h"

namespace pippin::gpu {

/// Gives steps scratch memory of their own, one behind the other, so that neighbours need not wait
/// for each other; from the start again when that would take more than a step needs, or 64 MiB.
void spread_scratch(Work& w);

/// Makes Work::order, and sets Dispatch::waits. Between two steps of the processor, dispatches go
/// by levels: each is one level behind all that it depends on, so that the few that small batches
/// leave waiting for each other have company (a convolution's two gradients, the packing of
/// weights). What depends on nothing goes right before who needs it. A level's first dispatch waits
/// for all before it. Two depend on each other if one writes what the other reads or writes; memory
/// is compared by slots' places, and an output that takes over an input's buffer is that input.
void order_dispatches(Work& w, const plan::Plan& plan);

}  // namespace pippin::gpu
