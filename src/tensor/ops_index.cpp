// Sorting, running sums, reading and writing by index.
#include "pippin/ops_index.h"

#include <limits>

#include <fmt/format.h>

#include "graph/build_order.h"
#include "tensor/promote.h"
#include "tensor/site.h"
#include "tensor/variable.h"

namespace pippin {

namespace g = graph;
using g::IntList;
using graph::NodePtr;

namespace {

int dim_of(const NodePtr& n, std::int64_t dim) { return normalized_dim(dim, n->shape.rank()); }

std::int64_t extent(const NodePtr& n, int dim) { return n->shape.rank() ? n->shape[dim] : 1; }

// Without the dim, whose extent is 1, unless it is kept.
NodePtr dropped(const NodePtr& n, int dim, bool keepdim) {
    if (keepdim || n->shape.rank() == 0) return n;
    Shape s = n->shape;
    s.erase(dim);
    return g::reshape(n, s);
}

NodePtr part(const NodePtr& n, int dim, std::int64_t start, std::int64_t stop) {
    if (n->shape.rank() == 0) return n;
    IntList lo, hi, step;
    for (int d = 0; d < n->shape.rank(); ++d) {
        lo.push_back(d == dim ? start : 0);
        hi.push_back(d == dim ? stop : n->shape[d]);
        step.push_back(1);
    }
    return g::slice(n, lo, hi, step);
}

ValuesIndices picked(const NodePtr& x, const NodePtr& index, int dim, bool keepdim) {
    return {wrap(dropped(g::gather(x, index, dim), dim, keepdim)),
            wrap(dropped(index, dim, keepdim))};
}

ValuesIndices extremum(const Tensor& x, std::int64_t dim, bool keepdim, const Site& site,
                       NodePtr (*arg)(const NodePtr&, int)) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const int d = dim_of(n, dim);
        return picked(n, arg(n, d), d, keepdim);
    });
}

// Number k of a sorted line, counted from 0.
NodePtr sorted_at(const NodePtr& n, int d, std::int64_t k) {
    return part(g::argsort(n, d, false, k + 1), d, k, k + 1);
}

ValuesIndices median_of(const NodePtr& n, int d, bool keepdim) {
    if (extent(n, d) == 0)
        throw ValueError(fmt::format("median: dimension {} of shape {} is empty", std::int64_t{d},
                                     n->shape.str()));
    NodePtr index = sorted_at(n, d, (extent(n, d) - 1) / 2);
    if (is_floating(n->dtype)) {  // argmax finds the first NaN
        const NodePtr first = g::reduce_argmax(n, d);
        index = g::select(g::isnan(g::gather(n, first, d)), first, index);
    }
    return picked(n, index, d, keepdim);
}

const NodePtr& index_node(const Tensor& index, const char* op) {
    const NodePtr& n = node_of(index, "the index");
    if (n->dtype != DType::Int64 && n->dtype != DType::Int32)
        throw TypeError(
            fmt::format("{}: the index must be int64 or int32, it is {}", op, name_of(n->dtype)));
    return n;
}

void need_dtype(const NodePtr& x, const NodePtr& src, const char* op) {
    if (x->dtype != src->dtype)
        throw TypeError(fmt::format("{}: the source must have the input's dtype {}, it has {}", op,
                                    name_of(x->dtype), name_of(src->dtype)));
}

// The part of src that the index has indices for.
NodePtr source_part(const NodePtr& src, const NodePtr& index, const char* op) {
    const Shape &s = src->shape, &i = index->shape;
    bool fits = s.rank() == i.rank();
    for (int d = 0; fits && d < s.rank(); ++d)
        fits = i[d] <= s[d];
    if (!fits)
        throw ValueError(
            fmt::format("{}: an index of shape {} needs a source at least as large, "
                        "this one has shape {}",
                        op, i.str(), s.str()));
    IntList lo, hi, step;
    for (int d = 0; d < s.rank(); ++d) {
        lo.push_back(0);
        hi.push_back(i[d]);
        step.push_back(1);
    }
    return s.rank() ? g::slice(src, lo, hi, step) : src;
}

// A 1-d index (or a 0-d one, as one element) and a source with as many slices.
struct SliceWrite {
    NodePtr x, index, source;
    int dim;
};
SliceWrite slice_write(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                       const char* op) {
    SliceWrite w{node_of(x), index_node(index, op), node_of(source, "the source"), 0};
    w.dim = dim_of(w.x, dim);
    need_dtype(w.x, w.source, op);
    if (w.index->shape.rank() > 1)
        throw ValueError(fmt::format("{}: the index must have one dimension, its shape is {}", op,
                                     w.index->shape.str()));
    const std::int64_t count = w.index->shape.numel();
    w.index = g::reshape(w.index, {count});
    Shape expected = w.x->shape;
    if (expected.rank() > 0) expected[w.dim] = count;
    if (!(w.source->shape == expected))
        throw ValueError(
            fmt::format("{}: {} indices into dimension {} of shape {} need a source of "
                        "shape {}, this one has {}",
                        op, count, dim, w.x->shape.str(), expected.str(), w.source->shape.str()));
    return w;
}

// A 1-d index laid along dim of a shape.
NodePtr spread(const NodePtr& index, const Shape& shape, int dim) {
    Shape line;
    for (int d = 0; d < shape.rank(); ++d)
        line.push_back(d == dim ? index->shape[0] : 1);
    return g::expand(g::reshape(index, line), shape);
}

}  // namespace

// --- in order ---

Tensor argsort(const Tensor& x, std::int64_t dim, bool descending, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const int d = dim_of(n, dim);
        return wrap(g::argsort(n, d, descending, extent(n, d)));
    });
}

ValuesIndices sort(const Tensor& x, std::int64_t dim, bool descending, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const int d = dim_of(n, dim);
        return picked(n, g::argsort(n, d, descending, extent(n, d)), d, true);
    });
}

ValuesIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const int d = dim_of(n, dim);
        if (k < 0 || k > extent(n, d))
            throw ValueError(fmt::format("topk: k = {} is not in [0, {}], dimension {} of shape {}",
                                         k, extent(n, d), dim, n->shape.str()));
        if (n->shape.rank() == 0 && k == 0)
            throw ValueError("topk: a 0-d tensor has no 0 of its elements");
        return picked(n, g::argsort(n, d, largest, k), d, true);
    });
}

ValuesIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim, bool keepdim, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const int d = dim_of(n, dim);
        if (k < 1 || k > extent(n, d))
            throw ValueError(
                fmt::format("kthvalue: k = {} is not in [1, {}], dimension {} of shape {}", k,
                            extent(n, d), dim, n->shape.str()));
        return picked(n, sorted_at(n, d, k - 1), d, keepdim);
    });
}

ValuesIndices median(const Tensor& x, std::int64_t dim, bool keepdim, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        return median_of(n, dim_of(n, dim), keepdim);
    });
}
Tensor median(const Tensor& x, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        if (n->shape.numel() == 0)
            return full({}, std::numeric_limits<double>::quiet_NaN(), Options(n->dtype, n->device));
        return median_of(g::reshape(n, {n->shape.numel()}), 0, false).values;
    });
}

ValuesIndices max(const Tensor& x, std::int64_t dim, bool keepdim, Site site) {
    return extremum(x, dim, keepdim, site, g::reduce_argmax);
}
ValuesIndices min(const Tensor& x, std::int64_t dim, bool keepdim, Site site) {
    return extremum(x, dim, keepdim, site, g::reduce_argmin);
}

Tensor cumsum(const Tensor& x, std::int64_t dim, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const NodePtr wide = is_floating(n->dtype) ? n : g::cast(n, DType::Int64);
        return wrap(g::cumsum(wide, dim_of(n, dim), false));
    });
}

// Hillis and Steele 1986: after the step of 2^k each element holds the product of 2^(k + 1).
Tensor cumprod(const Tensor& x, std::int64_t dim, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const int d = dim_of(n, dim);
        const std::int64_t count = extent(n, d);
        // Halves are multiplied in float32 and rounded once.
        NodePtr y = is_half(n->dtype)       ? g::cast(n, DType::Float32)
                    : is_floating(n->dtype) ? n
                                            : g::cast(n, DType::Int64);
        IntList low, none;
        for (int k = 0; k < n->shape.rank(); ++k) {
            low.push_back(0);
            none.push_back(0);
        }
        for (std::int64_t step = 1; step < count; step *= 2) {
            low[static_cast<std::size_t>(d)] = step;
            y = g::mul(y, g::pad(part(y, d, 0, count - step), low, none, none, 1));
        }
        return wrap(is_half(n->dtype) ? g::cast(y, n->dtype) : y);
    });
}

// --- by index ---

Tensor take_along_dim(const Tensor& x, const Tensor& index, std::int64_t dim, Site site) {
    return at_site(site, [&] {
        const NodePtr &n = node_of(x), &i = index_node(index, "take_along_dim");
        const int d = dim_of(n, dim);
        if (n->shape.rank() != i->shape.rank())
            throw ValueError(
                fmt::format("take_along_dim: the input and the index must have as many dimensions, "
                            "their shapes are {} and {}",
                            n->shape.str(), i->shape.str()));
        Shape a = n->shape, b = i->shape;
        if (a.rank() > 0) a[d] = b[d] = 1;
        Shape both = broadcast_shapes(a, b), from = both, at = both;
        if (a.rank() > 0) {
            from[d] = n->shape[d];
            at[d] = i->shape[d];
        }
        return wrap(g::gather(g::expand(n, from), g::expand(i, at), d));
    });
}

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
               Site site) {
    return at_site(site, [&] {
        const NodePtr &n = node_of(x), &i = index_node(index, "scatter"),
                      &s = node_of(src, "scatter: the source");
        need_dtype(n, s, "scatter");
        return wrap(g::scatter(n, i, source_part(s, i, "scatter"), dim_of(n, dim)));
    });
}
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, double value, Site site) {
    return at_site(site, [&] {
        const NodePtr &n = node_of(x), &i = index_node(index, "scatter");
        return wrap(
            g::scatter(n, i, g::full(value, n->dtype, i->shape, n->device), dim_of(n, dim)));
    });
}

Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                   Site site) {
    return at_site(site, [&] {
        const NodePtr &n = node_of(x), &i = index_node(index, "scatter_add"),
                      &s = node_of(src, "scatter_add: the source");
        const int d = dim_of(n, dim);
        need_dtype(n, s, "scatter_add");
        bool fits = n->shape.rank() == i->shape.rank();
        for (int k = 0; fits && k < n->shape.rank(); ++k)
            fits = k == d || i->shape[k] <= n->shape[k];
        if (!fits)
            throw ValueError(fmt::format(
                "scatter_add: an index of shape {} does not fit into shape {} outside of dimension "
                "{}",
                i->shape.str(), n->shape.str(), dim));
        // bool has no sums: what is true stays or becomes true.
        const DType t = n->dtype == DType::Bool ? DType::UInt8 : n->dtype;
        NodePtr sums =
            g::scatter_add(i, g::cast(source_part(s, i, "scatter_add"), t), d, extent(n, d));
        if (n->shape.rank() > 0) {
            IntList low, high, inner;
            for (int k = 0; k < n->shape.rank(); ++k) {
                low.push_back(0);
                high.push_back(n->shape[k] - sums->shape[k]);
                inner.push_back(0);
            }
            sums = g::pad(sums, low, high, inner, 0);
        }
        return wrap(g::add(n, g::cast(sums, n->dtype)));
    });
}

Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                 double alpha, Site site) {
    return at_site(site, [&] {
        const SliceWrite w = slice_write(x, dim, index, source, "index_add");
        if (w.x->dtype == DType::Bool)
            throw TypeError("index_add: not defined on bool tensors; cast to an integer");
        const NodePtr sums =
            g::index_add(w.index, g::mul_scalar(w.source, alpha), w.dim, extent(w.x, w.dim));
        return wrap(g::add(w.x, sums));
    });
}

Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                  Site site) {
    return at_site(site, [&] {
        const SliceWrite w = slice_write(x, dim, index, source, "index_copy");
        const NodePtr at =
            w.x->shape.rank() ? spread(w.index, w.source->shape, w.dim) : g::reshape(w.index, {});
        return wrap(g::scatter(w.x, at, w.source, w.dim));
    });
}
Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, double value, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        Shape s = n->shape;
        if (s.rank() > 0) s[dim_of(n, dim)] = index.numel();
        return index_copy(x, dim, index, full(s, value, Options(n->dtype, n->device)), site);
    });
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value, Site site) {
    return at_site(site, [&] {
        const NodePtr &n = node_of(x), &m = node_of(mask, "masked_fill: the mask");
        if (m->dtype != DType::Bool)
            throw TypeError(
                fmt::format("masked_fill: the mask must be bool, it is {}", name_of(m->dtype)));
        const Shape s = broadcast_shapes(n->shape, m->shape);
        return wrap(g::select(g::expand_to(m, s), g::full(value, n->dtype, s, n->device),
                              g::expand_to(n, s)));
    });
}

// --- random ---

Tensor randperm(std::int64_t n, Options o) {
    if (n < 0) throw ValueError(fmt::format("randperm: negative count {}", n));
    const Device device = o.device.value_or(default_device());
    // 62 random bits: equal keys, whose order would not be random, do not happen.
    const NodePtr high = g::random_bits({n}, device), low = g::random_bits({n}, device);
    const NodePtr keys =
        g::add(g::mul(high, g::full_int(std::int64_t{1} << 30, DType::Int64, {n}, device)), low);
    return wrap(g::cast(g::argsort(keys, 0, false, n), o.dtype.value_or(DType::Int64)));
}

// The class with the largest weight / e, e exponentially distributed, is a sample; the next ones
// in order are samples without replacement (Efraimidis and Spirakis 2006).
Tensor multinomial(const Tensor& weights, std::int64_t samples, bool replacement, Site site) {
    return at_site(site, [&] {
        const NodePtr& w = node_of(weights, "multinomial: the weights");
        const int rank = w->shape.rank();
        if (rank != 1 && rank != 2)
            throw ValueError(fmt::format(
                "multinomial: weights are (classes) or (rows, classes), these have shape {}",
                w->shape.str()));
        if (!is_floating(w->dtype))
            throw TypeError(fmt::format("multinomial: weights must be floating point, they are {}",
                                        name_of(w->dtype)));
        const std::int64_t classes = w->shape.back(), rows = rank == 2 ? w->shape[0] : 1;
        if (samples < 1 || classes < 1 || (!replacement && samples > classes))
            throw ValueError(fmt::format("multinomial: {} samples of {} classes {} replacement",
                                         samples, classes, replacement ? "with" : "without"));
        const std::int64_t draws = replacement ? samples : 1;
        const Shape each{rows, draws, classes};
        const NodePtr p =
            g::expand(g::reshape(g::cast(g::detach(w), DType::Float32), {rows, 1, classes}), each);
        const NodePtr e =
            g::neg(g::log(g::add_scalar(g::neg(g::random_uniform(each, w->device)), 1)));
        // e is 0 where the random number is.
        const NodePtr score = g::div(p, g::maximum(e, g::full_like(e, 1e-30)));
        const NodePtr index =
            replacement ? g::reduce_argmax(score, 2) : g::argsort(score, 2, true, samples);
        return wrap(g::reshape(index, rank == 2 ? Shape{rows, samples} : Shape{samples}));
    });
}

}  // namespace pippin
