// Scales of a convolution's channels go into its weights (batch norm in evaluation).
#pragma once

#include <vector>

#include "graph/node.h"

namespace pippin::plan {

/// The targets' graph with conv2d(x, w) * s[channel] as conv2d(x, w * s) wherever nothing else
/// reads the convolution and the weights are fewer than its results: one pass over a map less, and
/// a bias, a sum and an activation behind become the convolution's own. Rounds differently in the
/// last place. Simplified nodes (simplify.h) are expected.
std::vector<graph::NodePtr> fold_scales(const std::vector<graph::NodePtr>& targets);

}  // namespace pippin::plan
