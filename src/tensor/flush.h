// Submitting pending work.
#pragma once

#include <optional>

#include "pippin/tensor.h"
#include "plan/plan.h"
#include "tensor/variable.h"

namespace pippin {

/// Submits every live pending tensor of this thread, and `v`.
void flush_for(Variable& v);

/// The plan of `t` and of what else is pending on its device; nothing where that is nothing.
/// Computes nothing.
std::optional<plan::Plan> pending_plan(const Tensor& t);

/// What the plan for `t` (and all else that is pending) would do. Computes nothing.
struct PlanCost {
    std::int64_t heavy_flops = 0;  ///< of convolutions, products and the like
    std::int64_t launches = 0, arena_bytes = 0;
    std::int64_t output_bytes = 0;  ///< of results in memory of their own
};
PlanCost plan_cost(const Tensor& t);

/// Gives a variable the value of node n as a leaf of its own (so that gradients stop at it).
void bind_leaf(Variable& v, const graph::NodePtr& n);

}  // namespace pippin
