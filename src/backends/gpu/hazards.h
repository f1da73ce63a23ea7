// Which dispatches must wait for those before them, and which may run beside them.
#pragma once

#include "backends/gpu/work.h"

namespace pippin::gpu {

/// Gives steps scratch memory of their own, one behind the other, so that neighbours need not wait
/// for each other; from the start again when that would take more than a step needs, or 64 MiB.
void spread_scratch(Work& w);

/// Sets Dispatch::waits: whether it reads or writes what one since the last such wait writes, or
/// writes what one reads. Memory is compared by slots' places; an output that takes over an
/// input's buffer is that input.
void find_waits(Work& w, const plan::Plan& plan);

}  // namespace pippin::gpu
