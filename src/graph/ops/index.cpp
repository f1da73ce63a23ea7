// Ops that take positions from data. Positions are bounds-checked on every backend.
#include <mutex>

#include "graph/ops/check.h"
#include "graph/ops/records.h"
#include "graph/ops/ref.h"
#include "plan/program.h"

namespace pippin::graph::ops {
namespace {

using Nodes = std::span<const NodePtr>;

[[noreturn]] void out_of_range(const char* op, double v, std::int64_t low, std::int64_t high) {
    throw IndexError(text(op, ": index ", static_cast<std::int64_t>(v), " is out of range [", low,
                          ", ", high, ")"));
}
std::int64_t checked(const Node& n, double v, std::int64_t extent) {
    if (v < 0 || v >= static_cast<double>(extent)) out_of_range(n.op->name, v, 0, extent);
    return static_cast<std::int64_t>(v);
}

// --- gather: y[.., i, ..] = x[.., index[.., i, ..], ..] along dim; scatter_add: its adjoint ---

Type infer_gather(Nodes in, const Attrs& a) {
    const Shape &x = in[0]->shape, &index = in[1]->shape;
    need_index(*in[1]);
    const int dim = check_dim(a.i[0], x);
    if (index.rank() != x.rank()) bad_value("the index must have as many dimensions as the input");
    for (int d = 0; d < x.rank(); ++d)
        if (d != dim && index[d] > x[d])
            bad_value("the index's extent ", index[d], " of dim ", std::int64_t{d},
                      " is larger than the input's ", x[d]);
    return {in[0]->dtype, index};
}
Inputs grad_gather(const NodePtr& y, const NodePtr& dy) {
    const NodePtr &x = y->inputs[0], &index = y->inputs[1];
    const int dim = dim_attr(y->attrs);
    const NodePtr sums = scatter_add(index, dy, dim, x->shape[dim]);
    IntList low, high, inner;  // the index may leave out the end of other dims
    for (int d = 0; d < x->shape.rank(); ++d) {
        low.push_back(0);
        high.push_back(x->shape[d] - sums->shape[d]);
        inner.push_back(0);
    }
    return {pad(sums, low, high, inner, 0), nullptr};
}
RefArray ref_gather(const Node& n, Refs in) {
    const auto dim = static_cast<std::size_t>(dim_attr(n.attrs));
    const std::int64_t extent = in[0].shape[static_cast<int>(dim)];
    return generate(n.shape, [&](Point p) {
        p[dim] = checked(n, at(in[1], p), extent);
        return at(in[0], p);
    });
}

Type infer_scatter_add(Nodes in, const Attrs& a) {
    need_index(*in[0]);
    need_same_shape(*in[0], *in[1]);
    Shape out = in[1]->shape;
    out[check_dim(a.i[0], out)] = extent_attr(a);
    return {in[1]->dtype, countable(out)};
}
Inputs grad_scatter_add(const NodePtr& y, const NodePtr& dy) {
    return {nullptr, gather(dy, y->inputs[0], dim_attr(y->attrs))};
}
RefArray ref_scatter_add(const Node& n, Refs in) {
    const auto dim = static_cast<std::size_t>(dim_attr(n.attrs));
    RefArray y = zeros(n.shape);
    for_each_point(in[1].shape, [&](Point p) {
        const double v = at(in[1], p);
        p[dim] = checked(n, at(in[0], p), extent_attr(n.attrs));
        at(y, p) += v;
    });
    return y;
}

// --- index_select: whole slices of x along dim; index_add: its adjoint ---

Type infer_index_select(Nodes in, const Attrs& a) {
    need_index(*in[1]);
    need_rank(*in[1], 1, "the index");
    Shape out = in[0]->shape;
    out[check_dim(a.i[0], out)] = in[1]->shape[0];
    return {in[0]->dtype, countable(out)};
}
Inputs grad_index_select(const NodePtr& y, const NodePtr& dy) {
    const int dim = dim_attr(y->attrs);
    return {index_add(y->inputs[1], dy, dim, y->inputs[0]->shape[dim]), nullptr};
}
RefArray ref_index_select(const Node& n, Refs in) {
    const auto dim = static_cast<std::size_t>(dim_attr(n.attrs));
    const std::int64_t extent = in[0].shape[static_cast<int>(dim)];
    for (const double v : in[1].data)
        checked(n, v, extent);
    return generate(n.shape, [&](Point p) {
        p[dim] = static_cast<std::int64_t>(in[1].data[static_cast<std::size_t>(p[dim])]);
        return at(in[0], p);
    });
}

Type infer_index_add(Nodes in, const Attrs& a) {
    need_index(*in[0]);
    need_rank(*in[0], 1, "the index");
    Shape out = in[1]->shape;
    const int dim = check_dim(a.i[0], out);
    if (in[0]->shape[0] != out[dim])
        bad_value("the index has ", in[0]->shape[0], " elements for ", out[dim], " slices");
    out[dim] = extent_attr(a);
    return {in[1]->dtype, countable(out)};
}
Inputs grad_index_add(const NodePtr& y, const NodePtr& dy) {
    return {nullptr, index_select(dy, y->inputs[0], dim_attr(y->attrs))};
}
RefArray ref_index_add(const Node& n, Refs in) {
    const auto dim = static_cast<std::size_t>(dim_attr(n.attrs));
    for (const double v : in[0].data)
        checked(n, v, extent_attr(n.attrs));
    RefArray y = zeros(n.shape);
    for_each_point(in[1].shape, [&](Point p) {
        const double v = at(in[1], p);
        p[dim] = static_cast<std::int64_t>(in[0].data[static_cast<std::size_t>(p[dim])]);
        at(y, p) += v;
    });
    return y;
}

// --- check_index: the index itself, or an IndexError that names another op ---

Type infer_check_index(Nodes in, const Attrs&) {
    need_index(*in[0]);
    return {in[0]->dtype, in[0]->shape};
}
RefArray ref_check_index(const Node& n, Refs in) {
    const CheckIndexAttrs a = check_index_attrs(n.attrs);
    for (const double v : in[0].data)
        if (!(v >= static_cast<double>(a.low) && v < static_cast<double>(a.high)) &&
            v != static_cast<double>(a.ignore))
            out_of_range(a.op, v, a.low, a.high);
    return in[0];
}

// Names of checked ops get numbers, because attributes are numbers. There are only a few. They are
// never freed: errors point at them for as long as the process lives.
struct Names {
    std::mutex guard;
    std::vector<const std::string*> list;
};
Names& names() {
    static Names& all = *new Names;
    return all;
}

}  // namespace

std::int64_t number_of_name(const char* name) {
    Names& all = names();
    const std::lock_guard lock(all.guard);
    for (std::size_t k = 0; k < all.list.size(); ++k)
        if (*all.list[k] == name) return static_cast<std::int64_t>(k);
    all.list.push_back(new std::string(name));
    return static_cast<std::int64_t>(all.list.size() - 1);
}

CheckIndexAttrs check_index_attrs(const Attrs& a) {
    Names& all = names();
    const std::lock_guard lock(all.guard);
    return {a.i[0], a.i[1], a.i[2], all.list[static_cast<std::size_t>(a.i[3])]->c_str()};
}

const OpRecord kGather{"gather", Kind::Index, infer_gather, grad_gather, ref_gather, nullptr};
const OpRecord kScatterAdd{"scatter_add",    Kind::Index,     infer_scatter_add,
                           grad_scatter_add, ref_scatter_add, nullptr};
const OpRecord kIndexSelect{"index_select",    Kind::Index,      infer_index_select,
                            grad_index_select, ref_index_select, nullptr};
const OpRecord kIndexAdd{"index_add",    Kind::Index,   infer_index_add,
                         grad_index_add, ref_index_add, nullptr};
const OpRecord kCheckIndex{"check_index",
                           Kind::Elementwise,
                           infer_check_index,
                           nullptr,
                           ref_check_index,
                           nullptr,
                           static_cast<int>(plan::Opcode::CheckIndex)};

}  // namespace pippin::graph::ops
