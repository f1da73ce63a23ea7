// What one flush is asked to compute: the pending nodes in order, their key, and what dies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/node.h"

namespace pippin::plan {

using graph::Key;

/// A pending node that must have a value afterwards, and how many variables hold it.
struct Target {
    graph::Node* node = nullptr;
    long holders = 1;
    bool keeps_graph = false;    ///< its inputs stay, for a later backward()
    Variable* holder = nullptr;  ///< one of those that hold it; the flush's own note
};

struct Trace {
    std::vector<graph::Node*> nodes;     ///< inputs before users; leaves with values among them
    std::vector<graph::NodePtr> inputs;  ///< nodes with values, in order of first use
    std::vector<bool> input_dies;        ///< nobody but this plan will read its value again
    std::vector<Target> targets;         ///< distinct
    std::vector<std::uint64_t> scalars;  ///< run-time arguments, in order of nodes
    Key key;                             ///< of all of the above but values and run-time arguments
};

/// How many run-time arguments a node has.
int num_run_args(const graph::Node& n);

/// The key without shapes and attributes, to tell what makes plans differ.
Key structure(const Trace& t);

/// Walks from the targets to values and sources. Under the graph lock, with a fresh mark.
Trace trace(std::vector<Target> targets, std::uint32_t mark);

}  // namespace pippin::plan
