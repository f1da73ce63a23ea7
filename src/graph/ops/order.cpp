// Running sums, sorting and writing by index along one dim.
#include <algorithm>
#include <numeric>

#include "graph/build_order.h"
#include "graph/ops/check.h"
#include "graph/ops/records_order.h"
#include "graph/ops/ref.h"

namespace pippin::graph::ops {
namespace {

using Nodes = std::span<const NodePtr>;

// Calls f(first point) for each line of a shape along dim.
template <class F>
void for_each_line(Shape shape, int dim, F f) {
    shape[dim] = std::min<std::int64_t>(shape[dim], 1);
    for_each_point(shape, f);
}

// --- cumsum ---

Type infer_cumsum(Nodes in, const Attrs& a) {
    check_dim(a.i[0], in[0]->shape);
    if (in[0]->dtype == DType::Bool) bad_type("bool cannot be added up; cast to int64");
    return {in[0]->dtype, in[0]->shape};
}
Inputs grad_cumsum(const NodePtr& y, const NodePtr& dy) {
    return {cumsum(dy, dim_attr(y->attrs), !reverse_attr(y->attrs))};
}
RefArray ref_cumsum(const Node& n, Refs in) {
    const auto dim = static_cast<std::size_t>(dim_attr(n.attrs));
    const std::int64_t extent = n.shape[static_cast<int>(dim)];
    const bool reverse = reverse_attr(n.attrs);
    RefArray y = in[0];
    for_each_line(n.shape, static_cast<int>(dim), [&](Point p) {
        double sum = 0;
        for (std::int64_t j = 0; j < extent; ++j) {
            p[dim] = reverse ? extent - 1 - j : j;
            sum += at(in[0], p);
            at(y, p) = stored_as(n.dtype, sum);
        }
    });
    return y;
}

// --- argsort ---

Type infer_argsort(Nodes in, const Attrs& a) {
    Shape out = in[0]->shape;
    const int dim = check_dim(a.i[0], out);
    if (count_attr(a) < 0 || count_attr(a) > out[dim])
        bad_value("cannot give the first ", count_attr(a), " of ", out[dim], " elements");
    out[dim] = count_attr(a);
    return {DType::Int64, out};
}
RefArray ref_argsort(const Node& n, Refs in) {
    const auto dim = static_cast<std::size_t>(dim_attr(n.attrs));
    const std::int64_t extent = in[0].shape[static_cast<int>(dim)];
    const bool descending = descending_attr(n.attrs);
    RefArray y = zeros(n.shape);
    std::vector<std::int64_t> order(static_cast<std::size_t>(extent));
    for_each_line(n.shape, static_cast<int>(dim), [&](Point p) {
        const auto value = [&](std::int64_t j) {
            Point q = p;
            q[dim] = j;
            return at(in[0], q);
        };
        const auto less = [](double a, double b) {
            return std::isnan(a) ? false : std::isnan(b) || a < b;
        };
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
            return descending ? less(value(j), value(i)) : less(value(i), value(j));
        });
        for (std::int64_t j = 0; j < count_attr(n.attrs); ++j) {
            p[dim] = j;
            at(y, p) = static_cast<double>(order[static_cast<std::size_t>(j)]);
        }
    });
    return y;
}

// --- scatter ---

Type infer_scatter(Nodes in, const Attrs& a) {
    const Node &x = *in[0], &index = *in[1], &src = *in[2];
    need_index(index);
    need_same_dtype(x, src);
    need_same_shape(index, src);
    const int dim = check_dim(a.i[0], x.shape);
    need_rank(index, x.shape.rank(), "the index");
    for (int d = 0; d < x.shape.rank(); ++d)
        if (d != dim && index.shape[d] > x.shape[d])
            bad_value("the index's extent ", index.shape[d], " of dim ", std::int64_t{d},
                      " is larger than the input's ", x.shape[d]);
    return {x.dtype, x.shape};
}
// As in PyTorch, src gets what its place in the result has, also where another src stayed there.
Inputs grad_scatter(const NodePtr& y, const NodePtr& dy) {
    const NodePtr &x = y->inputs[0], &index = y->inputs[1], &src = y->inputs[2];
    const int dim = dim_attr(y->attrs);
    Inputs g{nullptr, nullptr, nullptr};
    if (x->requires_grad) g[0] = scatter(dy, index, full_like(src, 0), dim);
    if (src->requires_grad) g[2] = gather(dy, index, dim);
    return g;
}
RefArray ref_scatter(const Node& n, Refs in) {
    const auto dim = static_cast<std::size_t>(dim_attr(n.attrs));
    const std::int64_t extent = n.shape[static_cast<int>(dim)];
    RefArray y = in[0];
    for_each_point(in[1].shape, [&](Point p) {
        const double where = at(in[1], p), v = at(in[2], p);
        if (where < 0 || where >= static_cast<double>(extent))
            throw IndexError(text("scatter: index ", static_cast<std::int64_t>(where),
                                  " is out of range [0, ", extent, ")"));
        p[dim] = static_cast<std::int64_t>(where);
        at(y, p) = v;
    });
    return y;
}

}  // namespace

const OpRecord kCumSum{"cumsum", Kind::Index, infer_cumsum, grad_cumsum, ref_cumsum, nullptr};
const OpRecord kArgSort{"argsort", Kind::Index, infer_argsort, nullptr, ref_argsort, nullptr};
const OpRecord kScatter{"scatter", Kind::Index, infer_scatter, grad_scatter, ref_scatter, nullptr};

}  // namespace pippin::graph::ops

namespace pippin::graph {
namespace {

// Ops along one dim take a 0-d tensor as a row of one element, as PyTorch does.
NodePtr along(const OpRecord& op, Inputs inputs, IntList i) {
    const Shape shape = inputs[0]->shape;
    if (shape.rank() == 0)
        for (NodePtr& x : inputs)
            if (x->shape.rank() == 0) x = reshape(x, {1});
    Attrs a;
    a.i = std::move(i);
    const NodePtr y = make_node(op, std::move(inputs), std::move(a));
    return shape.rank() == 0 ? reshape(y, {}) : y;
}

}  // namespace

NodePtr cumsum(const NodePtr& x, int dim, bool reverse) {
    return along(ops::kCumSum, {x}, {dim, reverse});
}
NodePtr argsort(const NodePtr& x, int dim, bool descending, std::int64_t count) {
    return along(ops::kArgSort, {x}, {dim, descending, count});
}
NodePtr scatter(const NodePtr& x, const NodePtr& index, const NodePtr& src, int dim) {
    return along(ops::kScatter, {x, index, src}, {dim});
}

}  // namespace pippin::graph
