// Rewrites the traced graph into primitive ops with common subexpressions merged, constants folded
// and algebra applied.
#pragma once

#include <vector>

#include "plan/trace.h"

namespace pippin::plan {

/// The rewritten node of each target, in order. Nodes with run-time arguments stay the traced ones
/// (held without ownership: the trace's nodes must outlive the result).
std::vector<graph::NodePtr> simplify(const Trace& trace);

}  // namespace pippin::plan
