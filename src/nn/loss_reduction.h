// From a loss per element to what the caller asked for.
#pragma once

#include "graph/build.h"
#include "pippin/ops.h"

namespace pippin::nn {

/// The sum of all elements, 0-d.
inline graph::NodePtr sum_all(const graph::NodePtr& n) {
    graph::IntList dims;
    for (int d = 0; d < n->shape.rank(); ++d)
        dims.push_back(d);
    return graph::reshape(graph::reduce_sum(n, dims), {});
}

/// `total`, 0-d, is what the mean divides by.
inline graph::NodePtr reduce_loss(const graph::NodePtr& losses, Reduction reduction,
                                  const graph::NodePtr& total) {
    if (reduction == Reduction::None) return losses;
    const graph::NodePtr s = sum_all(losses);
    return reduction == Reduction::Sum ? s : graph::div(s, total);
}

/// The mean is over all elements.
inline graph::NodePtr reduce_loss(const graph::NodePtr& losses, Reduction reduction) {
    return reduce_loss(
        losses, reduction,
        graph::full(static_cast<double>(losses->shape.numel()), losses->dtype, {}, losses->device));
}

}  // namespace pippin::nn
