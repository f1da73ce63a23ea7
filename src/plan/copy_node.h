// A node like another, of other inputs.
#pragma once

#include <utility>

#include "graph/node.h"

namespace pippin::plan {

inline std::shared_ptr<graph::Node> copy_node(const graph::Node& n, graph::Inputs inputs) {
    auto copy = graph::new_node();
    copy->op = n.op;
    copy->dtype = n.dtype;
    copy->device = n.device;
    copy->shape = n.shape;
    copy->attrs = n.attrs;
    copy->inputs = std::move(inputs);
    return copy;
}

}  // namespace pippin::plan
