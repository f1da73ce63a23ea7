// Submitting pending work.
#pragma once

#include "tensor/variable.h"

namespace pippin {

/// Submits every live pending tensor of this thread, and `v`.
void flush_for(Variable& v);

/// Gives a variable the value of node n as a leaf of its own (so that gradients stop at it).
void bind_leaf(Variable& v, const graph::NodePtr& n);

}  // namespace pippin
