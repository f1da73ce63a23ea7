// Builders of the ops that go along one dim in order: running sums, sorting, writing by index.
#pragma once

#include "graph/build.h"

namespace pippin::graph {

// sums of x's elements up to each place along dim; reverse: from each place on. Not for bool.
NodePtr cumsum(const NodePtr& x, int dim, bool reverse);
// int64 positions of the first `count` elements in order along dim. Equal ones keep their order;
// NaN counts as the largest.
NodePtr argsort(const NodePtr& x, int dim, bool descending, std::int64_t count);
// x with y[.., index[.., j, ..], ..] = src[.., j, ..] along dim; of several writers the last stays
NodePtr scatter(const NodePtr& x, const NodePtr& index, const NodePtr& src, int dim);

}  // namespace pippin::graph
