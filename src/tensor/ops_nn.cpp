// Linear algebra, convolution, pooling and normalisation on tensors.
#include <fmt/format.h>

#include "graph/build.h"
#include "pippin/ops.h"
#include "tensor/autocast.h"
#include "tensor/maps.h"
#include "tensor/promote.h"
#include "tensor/site.h"
#include "tensor/variable.h"

namespace pippin {

namespace g = graph;
using g::IntList;
using graph::NodePtr;

namespace {

thread_local DType autocast_dtype = DType::Float32;

NodePtr matmul_nodes(NodePtr a, NodePtr b) {
    const int ra = a->shape.rank(), rb = b->shape.rank();
    if (ra == 0 || rb == 0)
        throw ValueError(
            fmt::format("matmul: both inputs need at least 1 dimension, shapes {} and {}",
                        a->shape.str(), b->shape.str()));
    if (ra == 1) a = g::reshape(a, {1, a->shape[0]});
    if (rb == 1) b = g::reshape(b, {b->shape[0], 1});
    const std::int64_t m = a->shape[a->shape.rank() - 2], k = a->shape.back();
    const std::int64_t kb = b->shape[b->shape.rank() - 2], n = b->shape.back();
    if (k != kb)
        throw ValueError(fmt::format("matmul: inner extents differ: {} and {} (shapes {} and {})",
                                     k, kb, a->shape.str(), b->shape.str()));
    Shape batch_a(std::span<const std::int64_t>(a->shape.begin(),
                                                static_cast<std::size_t>(a->shape.rank() - 2)));
    Shape batch_b(std::span<const std::int64_t>(b->shape.begin(),
                                                static_cast<std::size_t>(b->shape.rank() - 2)));
    Shape batch = broadcast_shapes(batch_a, batch_b);
    NodePtr r;
    if (batch_b.rank() == 0 && batch_a.rank() > 0) {
        // One right-hand matrix for all: the batch joins the rows.
        r = g::matmul(g::reshape(a, {batch_a.numel() * m, k}), b, false, false);
    } else {
        Shape sa = batch, sb = batch;
        sa.push_back(m);
        sa.push_back(k);
        sb.push_back(k);
        sb.push_back(n);
        r = g::matmul(g::expand_to(a, sa), g::expand_to(b, sb), false, false);
    }
    Shape out = batch;
    if (ra > 1) out.push_back(m);
    if (rb > 1) out.push_back(n);
    return g::reshape(r, out);
}

}  // namespace

DType heavy_dtype(const NodePtr& a, const NodePtr& b, const char* op) {
    if (is_floating(a->dtype) && is_floating(b->dtype) && autocast_dtype != DType::Float32 &&
        a->dtype != DType::Float64 && b->dtype != DType::Float64)
        return autocast_dtype;
    if (a->dtype != b->dtype)
        throw TypeError(
            fmt::format("{}: both inputs must have one dtype, they are {} and {}; cast one", op,
                        name_of(a->dtype), name_of(b->dtype)));
    if (a->dtype == DType::Bool)
        throw TypeError(fmt::format("{}: not defined on bool tensors", op));
    return a->dtype;
}

NodePtr float32_under_autocast(const NodePtr& n) {
    return autocast_dtype != DType::Float32 && is_half(n->dtype) ? g::cast(n, DType::Float32) : n;
}

Autocast::Autocast(DType dtype) : before_(autocast_dtype) {
    if (!is_half(dtype) && dtype != DType::Float32)
        throw TypeError(
            fmt::format("Autocast: expected bfloat16, float16 or float32, got {}", name_of(dtype)));
    autocast_dtype = dtype;
}
Autocast::~Autocast() { autocast_dtype = before_; }

Tensor matmul(const Tensor& a, const Tensor& b, Site site) {
    return at_site(site, [&] {
        const NodePtr &x = node_of(a), &y = node_of(b);
        const DType t = heavy_dtype(x, y, "matmul");
        return wrap(matmul_nodes(g::cast(x, t), g::cast(y, t)));
    });
}
Tensor Tensor::matmul(const Tensor& o, Site site) const { return pippin::matmul(*this, o, site); }

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Site site) {
    return at_site(site, [&] {
        const NodePtr &n = node_of(x), &w = node_of(weight, "linear: the weight");
        const DType t = heavy_dtype(n, w, "linear");
        if (w->shape.rank() != 2 || n->shape.rank() < 1 || n->shape.back() != w->shape[1])
            throw ValueError(fmt::format(
                "linear: x of shape {} does not fit weight {} (out, in): the last extent of x must "
                "be {}",
                n->shape.str(), w->shape.str(), w->shape.rank() == 2 ? w->shape[1] : -1));
        check_vector(bias, w->shape[0], "linear", "the bias");
        Shape out = n->shape;
        out[out.rank() - 1] = w->shape[0];
        const std::int64_t k = w->shape[1];
        std::int64_t rows = 1;
        for (int d = 0; d + 1 < n->shape.rank(); ++d)
            rows *= n->shape[d];
        NodePtr y = g::matmul(g::reshape(g::cast(n, t), {rows, k}), g::cast(w, t), false, true);
        if (bias.defined()) y = g::add(y, g::expand_to(g::cast(node_of(bias), t), y->shape));
        return wrap(g::reshape(y, out));
    });
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv2dOptions o,
              Site site) {
    return on_maps(x, site, "conv2d", [&](const NodePtr& n) {
        const NodePtr& w = node_of(weight, "conv2d: the weight");
        const DType t = heavy_dtype(n, w, "conv2d");
        if (w->shape.rank() != 4)
            throw ValueError(fmt::format(
                "conv2d: the weight must be (out, in / groups, kh, kw), it has shape {}",
                w->shape.str()));
        check_vector(bias, w->shape[0], "conv2d", "the bias");
        g::ConvAttrs a;
        a.stride[0] = o.stride_h, a.stride[1] = o.stride_w;
        a.pad[0] = o.pad_h, a.pad[1] = o.pad_w;
        a.dilation[0] = o.dilation_h, a.dilation[1] = o.dilation_w;
        a.groups = o.groups;
        const NodePtr input = with_named_padding(g::cast(n, t), w->shape, o.padding, a, "conv2d");
        NodePtr y = g::conv2d(input, g::cast(w, t), a);
        if (bias.defined())
            y = g::add(y, g::expand_to(per_channel(g::cast(node_of(bias), t), y), y->shape));
        return y;
    });
}

Tensor max_pool2d(const Tensor& x, Pool2dOptions o, Site site) {
    return on_maps(x, site, "max_pool2d",
                   [&](const NodePtr& n) { return g::max_pool2d(n, pool_attrs(o, "max_pool2d")); });
}
Tensor avg_pool2d(const Tensor& x, Pool2dOptions o, Site site) {
    return on_maps(x, site, "avg_pool2d",
                   [&](const NodePtr& n) { return g::avg_pool2d(n, pool_attrs(o, "avg_pool2d")); });
}
Tensor adaptive_avg_pool2d(const Tensor& x, std::int64_t h, std::int64_t w, Site site) {
    return on_maps(x, site, "adaptive_avg_pool2d",
                   [&](const NodePtr& n) { return g::adaptive_avg_pool2d(n, h, w); });
}

namespace {

// A running value moved towards `now` by a momentum, whatever form that has: move(old, now).
template <class Move>
Tensor batch_norm_by(const Move& move_by, const Tensor& x, Tensor running_mean, Tensor running_var,
                     const Tensor& weight, const Tensor& bias, bool training, double eps,
                     const Site& site) {
    return at_site(site, [&] {
        const NodePtr& input = node_of(x);
        const Shape& s = input->shape;
        if (s.rank() < 2)
            throw ValueError(
                fmt::format("batch_norm: expected at least (N, C), got shape {}", s.str()));
        if (!is_floating(input->dtype))
            throw TypeError(fmt::format("batch_norm: the input must be floating point, it is {}",
                                        name_of(input->dtype)));
        const std::int64_t c = s[1], n = c ? s.numel() / c : 0;
        check_vector(running_mean, c, "batch_norm", "running_mean");
        check_vector(running_var, c, "batch_norm", "running_var");
        check_vector(weight, c, "batch_norm", "the weight");
        check_vector(bias, c, "batch_norm", "the bias");
        if (training && n == 1)
            throw ValueError(fmt::format(
                "batch_norm: training needs more than one value per channel, got shape {}",
                s.str()));
        if (!training && (!running_mean.defined() || !running_var.defined()))
            throw ValueError("batch_norm: evaluation needs running_mean and running_var");
        IntList dims;
        for (int d = 0; d < s.rank(); ++d)
            if (d != 1) dims.push_back(d);
        // Statistics and the whole formula in float32 (or float64), also for half inputs.
        const DType t = is_half(input->dtype) ? DType::Float32 : input->dtype;
        const NodePtr v = g::cast(input, t);
        auto channel = [&](const Tensor& p, double otherwise) {
            if (p.defined()) return per_channel(g::cast(node_of(p), t), v);
            return per_channel(g::full(otherwise, t, {c}, v->device), v);
        };
        const NodePtr w = channel(weight, 1), b = channel(bias, 0);
        NodePtr y;
        if (training) {
            // The statistics carry no gradient of their own: normalize's rule accounts for them.
            const NodePtr plain = g::detach(v);
            const NodePtr sum = g::reduce_sum(plain, dims), m2 = g::reduce_m2(plain, dims);
            const NodePtr mean = g::div(sum, g::full_like(sum, static_cast<double>(n)));
            const NodePtr var = g::div(m2, g::full_like(m2, static_cast<double>(n)));
            y = g::normalize(v, mean, g::rsqrt(g::add_scalar(var, eps)), w, b, dims);
            NoGrad off;
            auto move = [&](Tensor& running, const NodePtr& now) {
                if (!running.defined()) return;
                const NodePtr& old = node_of(running);
                running.assign_(wrap(move_by(old, g::cast(g::reshape(now, {c}), old->dtype))));
            };
            move(running_mean, mean);
            move(running_var, g::div(m2, g::full_like(m2, static_cast<double>(n - 1))));
        } else {
            const NodePtr invstd = g::rsqrt(g::add_scalar(channel(running_var, 1), eps));
            const NodePtr scale = g::mul(invstd, w);
            const NodePtr shift = g::sub(b, g::mul(channel(running_mean, 0), scale));
            y = g::add(g::mul(v, g::expand_to(scale, s)), g::expand_to(shift, s));
        }
        return wrap(g::cast(y, input->dtype));
    });
}

}  // namespace

Tensor batch_norm(const Tensor& x, Tensor running_mean, Tensor running_var, const Tensor& weight,
                  const Tensor& bias, bool training, double momentum, double eps, Site site) {
    const auto move = [&](const NodePtr& old, const NodePtr& now) {
        return g::add(g::mul_scalar(old, 1 - momentum), g::mul_scalar(now, momentum));
    };
    return batch_norm_by(move, x, running_mean, running_var, weight, bias, training, eps, site);
}

Tensor batch_norm(const Tensor& x, Tensor running_mean, Tensor running_var, const Tensor& weight,
                  const Tensor& bias, bool training, const Tensor& momentum, double eps,
                  Site site) {
    const auto move = [&](const NodePtr& old, const NodePtr& now) {
        const NodePtr& m = node_of(momentum, "batch_norm: the momentum");
        if (m->shape.rank() != 0)
            throw ValueError(fmt::format(
                "batch_norm: the momentum must be a tensor without dimensions, it has shape {}",
                m->shape.str()));
        const DType wide = is_half(old->dtype) ? DType::Float32 : old->dtype;
        const NodePtr share = g::expand_to(g::cast(m, wide), old->shape);
        const NodePtr from = g::cast(old, wide);
        const NodePtr moved = g::add(from, g::mul(share, g::sub(g::cast(now, wide), from)));
        return g::cast(moved, old->dtype);
    };
    return batch_norm_by(move, x, running_mean, running_var, weight, bias, training, eps, site);
}

Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight, const Tensor& bias,
                  double eps, Site site) {
    return at_site(site, [&] {
        const NodePtr& input = node_of(x);
        const Shape& s = input->shape;
        const int lead = s.rank() - shape.rank();
        bool fits = lead >= 0 && shape.rank() > 0;
        for (int d = 0; fits && d < shape.rank(); ++d)
            fits = s[lead + d] == shape[d];
        if (!fits)
            throw ValueError(
                fmt::format("layer_norm: shape {} does not end in {}", s.str(), shape.str()));
        if (!is_floating(input->dtype))
            throw TypeError(fmt::format("layer_norm: the input must be floating point, it is {}",
                                        name_of(input->dtype)));
        for (auto* p : {&weight, &bias})
            if (p->defined() && !(p->shape() == shape))
                throw ValueError(
                    fmt::format("layer_norm: weight and bias must have shape {}, got {}",
                                shape.str(), p->shape().str()));
        IntList dims;
        for (int d = lead; d < s.rank(); ++d)
            dims.push_back(d);
        const DType t = is_half(input->dtype) ? DType::Float32 : input->dtype;
        const NodePtr v = g::cast(input, t), plain = g::detach(v);
        const auto n = static_cast<double>(shape.numel());
        const NodePtr sum = g::reduce_sum(plain, dims), m2 = g::reduce_m2(plain, dims);
        const NodePtr mean = g::div(sum, g::full_like(sum, n));
        const NodePtr invstd = g::rsqrt(g::add_scalar(g::div(m2, g::full_like(m2, n)), eps));
        Shape row;
        for (int d = 0; d < s.rank(); ++d)
            row.push_back(d < lead ? 1 : s[d]);
        auto trailing = [&](const Tensor& p, double otherwise) {
            return p.defined() ? g::reshape(g::cast(node_of(p), t), row)
                               : g::full(otherwise, t, row, v->device);
        };
        return wrap(
            g::cast(g::normalize(v, mean, invstd, trailing(weight, 1), trailing(bias, 0), dims),
                    input->dtype));
    });
}

Tensor dropout(const Tensor& x, double p, bool training, Site site) {
    return at_site(site, [&] {
        if (!(p >= 0 && p <= 1))
            throw ValueError(fmt::format("dropout: probability {} is not in [0, 1]", p));
        if (!training || p == 0) return x;
        const NodePtr& n = node_of(x);
        if (!is_floating(n->dtype))
            throw TypeError(fmt::format("dropout: the input must be floating point, it is {}",
                                        name_of(n->dtype)));
        if (p == 1) return wrap(g::mul(n, g::full_like(n, 0)));
        const NodePtr u = g::random_uniform(n->shape, n->device);
        const NodePtr keep = g::le(g::full_like(u, p), u);
        return wrap(g::select(keep, g::mul_scalar(n, 1 / (1 - p)), g::full_like(n, 0)));
    });
}

Tensor one_hot(const Tensor& index, std::int64_t classes, Site site) {
    return at_site(site, [&] {
        if (classes < 1) throw ValueError(fmt::format("one_hot: {} classes", classes));
        const NodePtr& n = node_of(index);
        if (n->dtype != DType::Int64)
            throw TypeError(
                fmt::format("one_hot: the index must be int64, it is {}", name_of(n->dtype)));
        const NodePtr i = g::check_index(n, 0, classes, 0, "one_hot");
        Shape s = n->shape, column = n->shape;
        s.push_back(classes);
        column.push_back(1);
        return wrap(g::cast(g::eq(g::iota(s, s.rank() - 1, DType::Int64, n->device),
                                  g::expand_to(g::reshape(i, column), s)),
                            DType::Int64));
    });
}

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index, Site site) {
    return at_site(site, [&] {
        return wrap(g::gather(node_of(x), node_of(index, "gather: the index"),
                              normalized_dim(dim, x.shape().rank())));
    });
}

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index, Site site) {
    return at_site(site, [&] {
        return wrap(g::index_select(node_of(x), node_of(index, "index_select: the index"),
                                    normalized_dim(dim, x.shape().rank())));
    });
}

Tensor embedding(const Tensor& ids, const Tensor& weight, std::int64_t padding_idx, Site site) {
    return at_site(site, [&] {
        const NodePtr &i = node_of(ids), &w = node_of(weight, "embedding: the weight");
        if (w->shape.rank() != 2)
            throw ValueError(fmt::format(
                "embedding: the weight must be (rows, width), it has shape {}", w->shape.str()));
        if (i->dtype != DType::Int64 && i->dtype != DType::Int32)
            throw TypeError(fmt::format("embedding: ids must be int64 or int32, they are {}",
                                        name_of(i->dtype)));
        NodePtr table = w;
        if (padding_idx >= 0) {
            // The padding row takes part in the result and gets no gradient.
            const NodePtr row = g::expand_to(
                g::reshape(g::iota({w->shape[0]}, 0, DType::Int64, w->device), {w->shape[0], 1}),
                w->shape);
            const NodePtr is_pad =
                g::eq(row, g::full_int(padding_idx, DType::Int64, w->shape, w->device));
            table = g::select(is_pad, g::detach(w), w);
        }
        Shape out = i->shape;
        out.push_back(w->shape[1]);
        return wrap(g::reshape(g::index_select(table, g::reshape(i, {i->shape.numel()}), 0), out));
    });
}

}  // namespace pippin
