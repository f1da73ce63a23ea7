// Networks so small that starting their launches takes a GPU longer than a processor computes them.
#pragma once

#include <string>

#include "plan/plan.h"

namespace pippin::gpu {

/// Rough seconds of one run, good enough to tell a tenth from ten.
double seconds_on_gpu(const plan::Plan& plan);
double seconds_on_processor(const plan::Plan& plan, int threads);

/// What a person who runs this plan again and again should hear, or "": that the processor would
/// take less than half of the time.
std::string advice(const plan::Plan& plan, int threads);

}  // namespace pippin::gpu
