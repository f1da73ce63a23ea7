// One table of small graphs: what gradient rules are checked with.
#pragma once

#include <span>
#include <vector>

#include "graph/build.h"

namespace pippin::graph {

/// A leaf of a case: numbers drawn from [low, high), or an int64 index below `high`.
struct CaseInput {
    Shape shape;
    double low = -2, high = 2;
    bool index = false;
};

struct GradientCase {
    const char* name;
    std::vector<CaseInput> inputs;
    /// The graph over the leaves, all floating ones of one dtype.
    NodePtr (*build)(const std::vector<NodePtr>& in);
};

std::span<const GradientCase> gradient_cases();

}  // namespace pippin::graph
