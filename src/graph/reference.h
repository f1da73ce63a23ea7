// Evaluates graphs with the records' fp64 references: the oracle of tests.
#pragma once

#include <functional>
#include <unordered_map>

#include "graph/node.h"

namespace pippin::graph {

using LeafValues = std::unordered_map<const Node*, RefArray>;

/// The value of `root`. A node with an entry in `leaves` has that value, whatever its op. A leaf
/// without one is read with `read_leaf` (which knows how a Value stores its bytes); without
/// `read_leaf` that is a ValueError.
RefArray evaluate_reference(const NodePtr& root, const LeafValues& leaves,
                            const std::function<RefArray(const Node&)>& read_leaf = {});

}  // namespace pippin::graph
