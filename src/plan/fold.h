// Scales of a convolution's channels go into its weights (batch norm in evaluation).
#pragma once

#include <vector>

#include "plan/trace.h"

namespace pippin::plan {

/// The graph of `targets`, which is the trace's after simplify(), with conv2d(x, w) * s[channel] as
/// conv2d(x, w * s) wherever nothing else reads the convolution and the weights are fewer than its
/// results: one pass over a map less, and a bias, a sum and an activation behind become the
/// convolution's own. Rounds differently in the last place.
std::vector<graph::NodePtr> fold_scales(const Trace& trace, std::vector<graph::NodePtr> targets);

}  // namespace pippin::plan
