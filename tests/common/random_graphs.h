// Random graphs of random ops as recipes: data that can be built again with parts left out, so that
// a failing graph can be shrunk to the smallest one that still fails.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/reference.h"
#include "pippin/pippin.h"

namespace pippin::random_graphs {

/// One op: which one, of which earlier nodes, with which parameters. Numbers are taken modulo what
/// there is (they are below 2^31), so that every list of choices is a graph.
struct Choice {
    std::uint32_t op = 0, a = 0, b = 0, c = 0;
};

struct Recipe {
    std::uint32_t seed = 0;     ///< of the leaves' values
    std::uint32_t base = 0;     ///< which shape the leaves have
    std::uint32_t targets = 0;  ///< which nodes are computed beside the last
    bool smooth = false;        ///< only ops whose gradient is continuous
    std::vector<Choice> steps;
};

Recipe random_recipe(std::uint32_t seed, int steps, bool smooth = false);

struct Graph {
    std::vector<graph::NodePtr> nodes;
    std::vector<Tensor> leaves, targets;
    graph::LeafValues values;
    std::string text;  ///< a line for each node
};

/// `each` sees every node as it is made, before another uses it.
Graph build(const Recipe& r, DType dtype, Device device,
            const std::function<void(const graph::NodePtr&)>& each = {});

/// What differs between the plan of all targets together, every op run alone, and the references;
/// empty when they agree. With `smooth`, gradients of the leaves are compared as well.
std::string difference(const Recipe& r, DType dtype, double tolerance,
                       Device device = Device::Type::CPU);

/// The smallest recipe found, by leaving out steps, for which `fails` still gives a text; and that
/// text. Empty when `fails` is content with `r` itself.
struct Shrunk {
    Recipe recipe;
    std::string text;
};
Shrunk shrink(Recipe r, const std::function<std::string(const Recipe&)>& fails);

}  // namespace pippin::random_graphs
