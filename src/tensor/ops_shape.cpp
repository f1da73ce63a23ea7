// Reshaping, indexing by ranges, joining and padding.
#include <algorithm>

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

// Resolves one -1 and checks the count.
Shape reshaped(const Shape& from, const Shape& to) {
    Shape out = to;
    std::int64_t known = 1, unknown = -1;
    for (int d = 0; d < to.rank(); ++d) {
        if (to[d] == -1) {
            if (unknown >= 0)
                throw ValueError(fmt::format("reshape: more than one -1 in {}", to.str()));
            unknown = d;
        } else if (to[d] < 0) {
            throw ValueError(fmt::format("reshape: negative extent in {}", to.str()));
        } else {
            known *= to[d];
        }
    }
    const std::int64_t n = from.numel();
    if (unknown >= 0) {
        if (known == 0 || n % known != 0)
            throw ValueError(fmt::format("reshape: {} elements of shape {} do not fit {}", n,
                                         from.str(), to.str()));
        out[static_cast<int>(unknown)] = n / known;
    } else if (known != n) {
        throw ValueError(fmt::format("reshape: shape {} has {} elements, {} has {}", from.str(), n,
                                     to.str(), known));
    }
    return out;
}

// What an index picks, as one slice over the tensor followed by a reshape.
struct Picked {
    IntList start, stop, step;
    Shape result;  ///< without integer dims, with new ones
};

Picked pick(const Shape& s, std::span<const Index> index) {
    int named = 0, rests = 0;
    for (auto& i : index) {
        named += i.kind == Index::Kind::Integer || i.kind == Index::Kind::Range;
        rests += i.kind == Index::Kind::Rest;
    }
    if (rests > 1) throw ValueError("index: more than one Ellipsis");
    if (named > s.rank())
        throw IndexError(fmt::format("index: {} items for a tensor of {} dimensions, shape {}",
                                     named, s.rank(), s.str()));
    Picked p;
    int d = 0;
    auto all = [&](int upto) {
        for (; d < upto; ++d) {
            p.start.push_back(0);
            p.stop.push_back(s[d]);
            p.step.push_back(1);
            p.result.push_back(s[d]);
        }
    };
    for (auto& i : index) {
        switch (i.kind) {
            case Index::Kind::Axis:
                p.result.push_back(1);
                break;
            case Index::Kind::Rest:
                all(d + s.rank() - named);
                break;
            case Index::Kind::Integer: {
                const std::int64_t at = i.integer < 0 ? i.integer + s[d] : i.integer;
                if (at < 0 || at >= s[d])
                    throw IndexError(
                        fmt::format("index {} is out of range for dimension {} of shape {}",
                                    i.integer, d, s.str()));
                p.start.push_back(at);
                p.stop.push_back(at + 1);
                p.step.push_back(1);
                ++d;
                break;
            }
            case Index::Kind::Range: {
                if (i.range.step < 1)
                    throw ValueError(fmt::format(
                        "index: slice step must be at least 1, got {} (use flip)", i.range.step));
                auto bound = [&](std::optional<std::int64_t> v, std::int64_t otherwise) {
                    if (!v) return otherwise;
                    return std::clamp(*v < 0 ? *v + s[d] : *v, std::int64_t{0}, s[d]);
                };
                const std::int64_t from = bound(i.range.start, 0);
                const std::int64_t to = std::max(from, bound(i.range.stop, s[d]));
                p.start.push_back(from);
                p.stop.push_back(to);
                p.step.push_back(i.range.step);
                p.result.push_back((to - from + i.range.step - 1) / i.range.step);
                ++d;
                break;
            }
        }
    }
    all(s.rank());
    return p;
}

std::vector<NodePtr> nodes_to_join(std::span<const Tensor> tensors, const char* op) {
    if (tensors.empty()) throw ValueError(fmt::format("{}: no tensors given", op));
    DType t = tensors[0].dtype();
    for (auto& x : tensors)
        t = promote_types(t, x.dtype());
    std::vector<NodePtr> nodes;
    for (auto& x : tensors)
        nodes.push_back(g::cast(node_of(x), t));
    return nodes;
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape, Site site) {
    return at_site(site, [&] { return wrap(g::reshape(node_of(x), reshaped(x.shape(), shape))); });
}

Tensor flatten(const Tensor& x, std::int64_t start, std::int64_t end, Site site) {
    return at_site(site, [&] {
        const Shape& s = x.shape();
        const int a = normalized_dim(start, s.rank()), b = normalized_dim(end, s.rank());
        if (a > b)
            throw ValueError(
                fmt::format("flatten: start dimension {} comes after end {}", start, end));
        Shape out;
        std::int64_t n = 1;
        for (int d = 0; d < s.rank(); ++d) {
            if (d < a || d > b) {
                out.push_back(s[d]);
            } else {
                n *= s[d];
                if (d == b) out.push_back(n);
            }
        }
        if (s.rank() == 0) out.push_back(1);
        return wrap(g::reshape(node_of(x), out));
    });
}

Tensor permute(const Tensor& x, const Dims& dims, Site site) {
    return at_site(site, [&] {
        const int rank = x.shape().rank();
        if (static_cast<int>(dims.size()) != rank)
            throw ValueError(fmt::format("permute: {} dimensions named for shape {}", dims.size(),
                                         x.shape().str()));
        IntList order;
        for (auto d : dims) {
            const int at = normalized_dim(d, rank);
            if (std::find(order.begin(), order.end(), at) != order.end())
                throw ValueError(fmt::format("permute: dimension {} is named twice", d));
            order.push_back(at);
        }
        return wrap(g::permute(node_of(x), order));
    });
}

Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b, Site site) {
    return at_site(site, [&] {
        const int rank = x.shape().rank();
        const int i = normalized_dim(a, rank), j = normalized_dim(b, rank);
        return rank == 0 || i == j ? x : wrap(g::transpose(node_of(x), i, j));
    });
}

Tensor squeeze(const Tensor& x, std::optional<std::int64_t> dim, Site site) {
    return at_site(site, [&] {
        const Shape& s = x.shape();
        const int only = dim ? normalized_dim(*dim, s.rank()) : -1;
        Shape out;
        for (int d = 0; d < s.rank(); ++d)
            if (s[d] != 1 || (dim && d != only)) out.push_back(s[d]);
        return wrap(g::reshape(node_of(x), out));
    });
}

Tensor unsqueeze(const Tensor& x, std::int64_t dim, Site site) {
    return at_site(site, [&] {
        Shape out = x.shape();
        out.insert(normalized_dim(dim, out.rank() + 1), 1);
        return wrap(g::reshape(node_of(x), out));
    });
}

Tensor expand(const Tensor& x, const Shape& shape, Site site) {
    return at_site(site, [&] {
        const Shape& s = x.shape();
        Shape out = shape;
        const int extra = shape.rank() - s.rank();
        if (extra < 0)
            throw ValueError(
                fmt::format("expand: shape {} has fewer dimensions than {}", shape.str(), s.str()));
        for (int d = 0; d < shape.rank(); ++d) {
            const std::int64_t have = d < extra ? 1 : s[d - extra];
            if (out[d] == -1) out[d] = have;
            if (have != out[d] && have != 1)
                throw ValueError(
                    fmt::format("expand: shape {} does not expand to {}", s.str(), shape.str()));
        }
        return wrap(g::expand_to(node_of(x), out));
    });
}

Tensor flip(const Tensor& x, const Dims& dims, Site site) {
    return at_site(site, [&] {
        if (dims.empty()) return x;
        return wrap(g::flip(node_of(x), normalized_dims(dims, x.shape().rank())));
    });
}

Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length,
              Site site) {
    return at_site(site, [&] {
        const Shape& s = x.shape();
        const int d = normalized_dim(dim, s.rank());
        if (s.rank() == 0) throw ValueError("narrow: a 0-d tensor has no dimension to narrow");
        const std::int64_t from = start < 0 ? start + s[d] : start;
        if (from < 0 || length < 0 || from + length > s[d])
            throw IndexError(fmt::format("narrow: [{}, {}) is not inside dimension {} of shape {}",
                                         start, start + length, d, s.str()));
        IntList lo, hi, step;
        for (int i = 0; i < s.rank(); ++i) {
            lo.push_back(i == d ? from : 0);
            hi.push_back(i == d ? from + length : s[i]);
            step.push_back(1);
        }
        return wrap(g::slice(node_of(x), lo, hi, step));
    });
}

Tensor cat(std::span<const Tensor> tensors, std::int64_t dim, Site site) {
    return at_site(site, [&] {
        auto nodes = nodes_to_join(tensors, "cat");
        const int d = normalized_dim(dim, nodes[0]->shape.rank());
        if (nodes[0]->shape.rank() == 0)
            throw ValueError("cat: 0-d tensors cannot be joined; use stack");
        return wrap(nodes.size() == 1 ? nodes[0]
                                      : g::concat(g::Inputs(nodes.begin(), nodes.end()), d));
    });
}

Tensor stack(std::span<const Tensor> tensors, std::int64_t dim, Site site) {
    return at_site(site, [&] {
        auto nodes = nodes_to_join(tensors, "stack");
        const int d = normalized_dim(dim, nodes[0]->shape.rank() + 1);
        for (auto& n : nodes) {
            if (!(n->shape == tensors[0].shape()))
                throw ValueError(fmt::format("stack: shapes differ: {} and {}",
                                             tensors[0].shape().str(), n->shape.str()));
            Shape s = n->shape;
            s.insert(d, 1);
            n = g::reshape(n, s);
        }
        return wrap(nodes.size() == 1 ? nodes[0]
                                      : g::concat(g::Inputs(nodes.begin(), nodes.end()), d));
    });
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t dim, Site site) {
    return at_site(site, [&] {
        if (size < 1) throw ValueError(fmt::format("split: size must be at least 1, got {}", size));
        std::vector<Tensor> parts;
        const std::int64_t n = x.size(dim);
        for (std::int64_t at = 0; at < n; at += size)
            parts.push_back(narrow(x, dim, at, std::min(size, n - at), site));
        return parts;
    });
}

Tensor pad(const Tensor& x, const Dims& amounts, double value, Site site) {
    return at_site(site, [&] {
        const Shape& s = x.shape();
        if (amounts.size() % 2 != 0 || static_cast<int>(amounts.size() / 2) > s.rank())
            throw ValueError(fmt::format(
                "pad: {} amounts for shape {}; give (low, high) for each of the last dimensions",
                amounts.size(), s.str()));
        IntList low, high, inner, start, stop, step;
        for (int d = 0; d < s.rank(); ++d) {
            const auto at = static_cast<std::size_t>(2 * (s.rank() - 1 - d));
            const std::int64_t lo = at < amounts.size() ? amounts[at] : 0;
            const std::int64_t hi = at < amounts.size() ? amounts[at + 1] : 0;
            if (s[d] + std::min<std::int64_t>(lo, 0) + std::min<std::int64_t>(hi, 0) < 0)
                throw ValueError(fmt::format(
                    "pad: amounts {} and {} cut away more than dimension {} of shape {}", lo, hi, d,
                    s.str()));
            start.push_back(std::max<std::int64_t>(-lo, 0));
            stop.push_back(s[d] - std::max<std::int64_t>(-hi, 0));
            step.push_back(1);
            low.push_back(std::max<std::int64_t>(lo, 0));
            high.push_back(std::max<std::int64_t>(hi, 0));
            inner.push_back(0);
        }
        return wrap(g::pad(g::slice(node_of(x), start, stop, step), low, high, inner, value));
    });
}

// --- Tensor's spellings ---

Tensor Tensor::operator[](At at) const { return index({at.i}, at.site); }

Tensor Tensor::index(std::initializer_list<Index> items, Site site) const {
    return at_site(site, [&] {
        const NodePtr& n = node_of(*this);
        const Picked p = pick(n->shape, {items.begin(), items.size()});
        return wrap(g::reshape(g::slice(n, p.start, p.stop, p.step), p.result));
    });
}

// As a select between the old value and the new one laid over the named part.
Tensor& Tensor::index_put_(std::initializer_list<Index> items, const Tensor& value, Site site) {
    at_site(site, [&] {
        const NodePtr& n = node_of(*this);
        const Picked p = pick(n->shape, {items.begin(), items.size()});
        Shape part;
        IntList low, high, inner;
        for (int d = 0; d < n->shape.rank(); ++d) {
            const auto k = static_cast<std::size_t>(d);
            const std::int64_t count = (p.stop[k] - p.start[k] + p.step[k] - 1) / p.step[k];
            part.push_back(count);
            low.push_back(p.start[k]);
            inner.push_back(p.step[k] - 1);
            const std::int64_t last = count ? p.start[k] + (count - 1) * p.step[k] + 1 : p.start[k];
            high.push_back(n->shape[d] - last);
        }
        NodePtr v = g::cast(node_of(value, "index_put_: the value"), n->dtype);
        v = g::reshape(g::expand_to(v, p.result), part);
        const NodePtr where = g::pad(g::full(1, DType::Bool, part, n->device), low, high, inner, 0);
        assign_(wrap(g::select(where, g::pad(v, low, high, inner, 0), n)), site);
    });
    return *this;
}

Tensor Tensor::reshape(const Shape& s, Site site) const { return pippin::reshape(*this, s, site); }
Tensor Tensor::flatten(std::int64_t a, std::int64_t b, Site site) const {
    return pippin::flatten(*this, a, b, site);
}
Tensor Tensor::permute(const Dims& dims, Site site) const {
    return pippin::permute(*this, dims, site);
}
Tensor Tensor::transpose(std::int64_t a, std::int64_t b, Site site) const {
    return pippin::transpose(*this, a, b, site);
}
Tensor Tensor::squeeze(std::optional<std::int64_t> d, Site site) const {
    return pippin::squeeze(*this, d, site);
}
Tensor Tensor::unsqueeze(std::int64_t d, Site site) const {
    return pippin::unsqueeze(*this, d, site);
}
Tensor Tensor::expand(const Shape& s, Site site) const { return pippin::expand(*this, s, site); }
Tensor Tensor::t(Site site) const {
    if (dim() > 2)
        at_site(site, [&] {
            throw ValueError(
                fmt::format("t: expected at most 2 dimensions, got shape {}", shape().str()));
        });
    return dim() < 2 ? *this : pippin::transpose(*this, 0, 1, site);
}

}  // namespace pippin
