// A plan's launches, as the recorder wants them.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "profile/recorder.h"

namespace pippin::recording {

/// One for each launch, in order.
std::vector<WorkPtr> describe(const plan::Plan& plan);

}  // namespace pippin::recording
