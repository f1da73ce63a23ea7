// Reductions and what derives from them.
#include <cmath>

#include <fmt/format.h>

#include "graph/build.h"
#include "pippin/ops.h"
#include "tensor/promote.h"
#include "tensor/site.h"
#include "tensor/variable.h"

namespace pippin {

namespace g = graph;
using g::IntList;
using graph::NodePtr;

namespace {

Shape without(const Shape& s, const IntList& dims) {
    Shape out;
    for (int d = 0; d < s.rank(); ++d) {
        bool gone = false;
        for (auto r : dims)
            gone |= r == d;
        if (!gone) out.push_back(s[d]);
    }
    return out;
}

std::int64_t count(const Shape& s, const IntList& dims) {
    std::int64_t n = 1;
    for (auto d : dims)
        n *= s[static_cast<int>(d)];
    return n;
}

// f(node, dims) reduces with extents 1 kept; the dims are dropped here unless keepdim.
template <class F>
Tensor reduced(const Tensor& x, const Dims& dims, bool keepdim, const Site& site, F f) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const IntList d = normalized_dims(dims, n->shape.rank());
        NodePtr r = f(n, d);
        return wrap(keepdim ? r : g::reshape(r, without(n->shape, d)));
    });
}

void need_float(const NodePtr& n, const char* op) {
    if (!is_floating(n->dtype))
        throw TypeError(fmt::format("{}: the input must be floating point, it is {}; cast it first",
                                    op, name_of(n->dtype)));
}

NodePtr mean_node(const NodePtr& n, const IntList& d) {
    need_float(n, "mean");
    const NodePtr s = g::reduce_sum(n, d);
    return g::div(s, g::full_like(s, static_cast<double>(count(n->shape, d))));
}

NodePtr var_node(const NodePtr& n, const IntList& d, double correction) {
    need_float(n, "var");
    const NodePtr m2 = g::reduce_m2(n, d);
    // No degrees of freedom left: NaN, as in PyTorch.
    const double freedom = std::max(0.0, static_cast<double>(count(n->shape, d)) - correction);
    return g::div(m2, g::full_like(m2, freedom));
}

// sqrt(s) for s >= 0 whose gradient at 0 is 0, as PyTorch's norm and std have it.
NodePtr root(const NodePtr& s) {
    const NodePtr zero = g::eq(s, g::full_like(s, 0));
    return g::select(zero, g::full_like(s, 0), g::sqrt(g::select(zero, g::full_like(s, 1), s)));
}

Tensor arg_reduce(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim, const Site& site,
                  NodePtr (*f)(const NodePtr&, int)) {
    return at_site(site, [&] {
        NodePtr n = node_of(x);
        if (dim && n->shape.rank() > 0) {
            const int d = normalized_dim(*dim, n->shape.rank());
            const NodePtr r = f(n, d);
            return wrap(keepdim ? r : g::reshape(r, without(n->shape, {d})));
        }
        if (dim) normalized_dim(*dim, 0);
        Shape out;
        if (keepdim)
            for (int d = 0; d < n->shape.rank(); ++d)
                out.push_back(1);
        return wrap(g::reshape(f(g::reshape(n, {n->shape.numel()}), 0), out));
    });
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, bool keepdim, Site site) {
    return reduced(x, dims, keepdim, site, g::reduce_sum);
}
Tensor prod(const Tensor& x, const Dims& dims, bool keepdim, Site site) {
    return reduced(x, dims, keepdim, site, g::reduce_prod);
}
Tensor mean(const Tensor& x, const Dims& dims, bool keepdim, Site site) {
    return reduced(x, dims, keepdim, site, mean_node);
}
Tensor var(const Tensor& x, const Dims& dims, double correction, bool keepdim, Site site) {
    return reduced(x, dims, keepdim, site,
                   [&](const NodePtr& n, const IntList& d) { return var_node(n, d, correction); });
}
Tensor std(const Tensor& x, const Dims& dims, double correction, bool keepdim, Site site) {
    return reduced(x, dims, keepdim, site, [&](const NodePtr& n, const IntList& d) {
        return root(var_node(n, d, correction));
    });
}

Tensor norm(const Tensor& x, double p, const Dims& dims, bool keepdim, Site site) {
    return reduced(x, dims, keepdim, site, [&](const NodePtr& n, const IntList& d) {
        need_float(n, "norm");
        if (p == 2) return root(g::reduce_sum(g::mul(n, n), d));
        const NodePtr a = g::abs(n);
        if (p == HUGE_VAL) return g::reduce_max(a, d);
        if (p == -HUGE_VAL) return g::reduce_min(a, d);
        if (p == 1) return g::reduce_sum(a, d);
        if (p == 0) return g::reduce_sum(g::cast(g::ne(n, g::full_like(n, 0)), n->dtype), d);
        const NodePtr s = g::reduce_sum(g::pow(a, g::full_like(a, p)), d);
        // As in root(): the gradient of the norm of zeros is 0.
        const NodePtr zero = g::eq(s, g::full_like(s, 0));
        const NodePtr safe = g::select(zero, g::full_like(s, 1), s);
        return g::select(zero, s, g::pow(safe, g::full_like(s, 1 / p)));
    });
}

Tensor amax(const Tensor& x, const Dims& dims, bool keepdim, Site site) {
    return reduced(x, dims, keepdim, site, g::reduce_max);
}
Tensor amin(const Tensor& x, const Dims& dims, bool keepdim, Site site) {
    return reduced(x, dims, keepdim, site, g::reduce_min);
}
Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim, Site site) {
    return arg_reduce(x, dim, keepdim, site, g::reduce_argmax);
}
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim, Site site) {
    return arg_reduce(x, dim, keepdim, site, g::reduce_argmin);
}

// On truth values as int32: the extremum over an empty range is the neutral one, as in PyTorch.
Tensor any(const Tensor& x, const Dims& dims, bool keepdim, Site site) {
    return reduced(x, dims, keepdim, site, [](const NodePtr& n, const IntList& d) {
        const NodePtr s = g::reduce_sum(g::cast(n, DType::Bool), d);
        return g::cast(s, DType::Bool);
    });
}
Tensor all(const Tensor& x, const Dims& dims, bool keepdim, Site site) {
    return reduced(x, dims, keepdim, site, [](const NodePtr& n, const IntList& d) {
        const NodePtr s = g::reduce_sum(g::logical_not(g::cast(n, DType::Bool)), d);
        return g::logical_not(g::cast(s, DType::Bool));
    });
}

Tensor softmax(const Tensor& x, std::int64_t dim, Site site) {
    return at_site(site, [&] {
        need_float(node_of(x), "softmax");
        return wrap(g::softmax(node_of(x), normalized_dim(dim, x.shape().rank())));
    });
}
Tensor log_softmax(const Tensor& x, std::int64_t dim, Site site) {
    return at_site(site, [&] {
        need_float(node_of(x), "log_softmax");
        return wrap(g::log_softmax(node_of(x), normalized_dim(dim, x.shape().rank())));
    });
}

Tensor logsumexp(const Tensor& x, std::int64_t dim, bool keepdim, Site site) {
    return reduced(x, {dim}, keepdim, site, [](const NodePtr& n, const IntList& d) {
        need_float(n, "logsumexp");
        if (count(n->shape, d) == 0) return g::log(g::reduce_sum(n, d));  // of nothing: -inf
        // The shift only keeps exp in range; an infinite maximum shifts by nothing.
        const NodePtr m = g::detach(g::reduce_max(n, d));
        const NodePtr shift = g::select(g::isfinite(m), m, g::full_like(m, 0));
        const NodePtr s = g::reduce_sum(g::exp(g::sub(n, g::expand_to(shift, n->shape))), d);
        return g::add(g::log(s), shift);
    });
}

Tensor Tensor::sum(const Dims& d, bool k, Site s) const { return pippin::sum(*this, d, k, s); }
Tensor Tensor::mean(const Dims& d, bool k, Site s) const { return pippin::mean(*this, d, k, s); }
Tensor Tensor::max(Site s) const { return pippin::amax(*this, {}, false, s); }
Tensor Tensor::min(Site s) const { return pippin::amin(*this, {}, false, s); }
Tensor Tensor::amax(const Dims& d, bool k, Site s) const { return pippin::amax(*this, d, k, s); }
Tensor Tensor::argmax(std::optional<std::int64_t> d, bool k, Site s) const {
    return pippin::argmax(*this, d, k, s);
}
Tensor Tensor::softmax(std::int64_t d, Site s) const { return pippin::softmax(*this, d, s); }

bool equal(const Tensor& a, const Tensor& b, Site site) {
    const SiteScope scope(site);
    return a.shape() == b.shape() && a.dtype() == b.dtype() && all(a == b).item<bool>();
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, Site site) {
    const SiteScope scope(site);
    const Tensor x = cast(a, DType::Float64), y = cast(b, DType::Float64);
    const Tensor near = abs(x - y) <= abs(y) * rtol + atol;
    return all(logical_or(x == y, logical_and(near, isfinite(y)))).item<bool>();
}

}  // namespace pippin
