// Ops that are worth a gradient rule of their own but run as programs of primitive ops.
// Half types are computed in float32 and rounded once, at the end.
#include "graph/ops/check.h"
#include "graph/ops/records.h"
#include "graph/ops/ref.h"

namespace pippin::graph::ops {
namespace {

using Nodes = std::span<const NodePtr>;

NodePtr wide(const NodePtr& x) { return cast(x, wide_type(x->dtype)); }
NodePtr grown(const NodePtr& kept, const NodePtr& like) { return expand(kept, like->shape); }

Type infer_softmax(Nodes in, const Attrs& a) {
    need_floating(*in[0]);
    check_dim(a.i[0], in[0]->shape);
    return {in[0]->dtype, in[0]->shape};
}

// x minus its row's maximum, so that exp cannot overflow.
NodePtr shifted(const NodePtr& x, int dim) { return sub(x, grown(reduce_max(x, {dim}), x)); }

// --- softmax ---

Inputs grad_softmax(const NodePtr& y, const NodePtr& dy) {
    const NodePtr w = wide(y), g = wide(dy);
    const NodePtr dot = reduce_sum(mul(g, w), {dim_attr(y->attrs)});
    return {cast(mul(w, sub(g, grown(dot, g))), y->dtype)};
}
NodePtr decompose_softmax(const Node& n) {
    const NodePtr& x = n.inputs[0];
    const int dim = dim_attr(n.attrs);
    if (x->shape.numel() == 0) return x;
    const NodePtr e = exp(shifted(wide(x), dim));
    return cast(div(e, grown(reduce_sum(e, {dim}), e)), x->dtype);
}

// Calls f(row of values) for each row along dim and writes back what f leaves in it.
template <class F>
RefArray map_rows(const RefArray& x, int dim, F f) {
    RefArray y = x;
    Shape outer = x.shape;
    outer[dim] = x.shape[dim] > 0 ? 1 : 0;
    std::vector<double> row(static_cast<std::size_t>(x.shape[dim]));
    for_each_point(outer, [&](Point p) {
        for (std::size_t k = 0; k < row.size(); ++k) {
            p[static_cast<std::size_t>(dim)] = static_cast<std::int64_t>(k);
            row[k] = at(x, p);
        }
        f(row);
        for (std::size_t k = 0; k < row.size(); ++k) {
            p[static_cast<std::size_t>(dim)] = static_cast<std::int64_t>(k);
            at(y, p) = row[k];
        }
    });
    return y;
}
double log_sum_exp(const std::vector<double>& row) {
    double most = row[0], sum = 0;
    for (const double v : row)
        most = std::fmax(most, v);
    for (const double v : row)
        sum += std::exp(v - most);
    return most + std::log(sum);
}
RefArray ref_softmax(const Node& n, Refs in) {
    return map_rows(in[0], dim_attr(n.attrs), [](std::vector<double>& row) {
        const double lse = log_sum_exp(row);
        for (double& v : row)
            v = std::exp(v - lse);
    });
}

// --- log_softmax ---

Inputs grad_log_softmax(const NodePtr& y, const NodePtr& dy) {
    const NodePtr w = wide(y), g = wide(dy);
    const NodePtr sum = reduce_sum(g, {dim_attr(y->attrs)});
    return {cast(sub(g, mul(exp(w), grown(sum, g))), y->dtype)};
}
NodePtr decompose_log_softmax(const Node& n) {
    const NodePtr& x = n.inputs[0];
    const int dim = dim_attr(n.attrs);
    if (x->shape.numel() == 0) return x;
    const NodePtr s = shifted(wide(x), dim);
    return cast(sub(s, grown(log(reduce_sum(exp(s), {dim})), s)), x->dtype);
}
RefArray ref_log_softmax(const Node& n, Refs in) {
    return map_rows(in[0], dim_attr(n.attrs), [](std::vector<double>& row) {
        const double lse = log_sum_exp(row);
        for (double& v : row)
            v -= lse;
    });
}

// --- softmax_cross_entropy: one loss per row, no gather, stable ---

Type infer_cross_entropy(Nodes in, const Attrs& a) {
    need_rank(*in[0], 2, "the logits");
    need_rank(*in[1], 1, "the target");
    need_floating(*in[0]);
    need_index(*in[1]);
    if (in[0]->shape[0] != in[1]->shape[0])
        bad_value("there are ", in[0]->shape[0], " rows of logits but ", in[1]->shape[0],
                  " targets");
    if (in[0]->shape[1] < 1) bad_value("the logits have no classes");
    const double smoothing = label_smoothing(a);
    if (!(smoothing >= 0 && smoothing <= 1)) bad_value("label smoothing must be within [0, 1]");
    return {in[0]->dtype, in[1]->shape};
}

// The checked target as a column [N, 1], and where it names each class [N, C].
struct Target {
    NodePtr column, one_hot, valid;
};
Target target_of(const Node& n) {
    const NodePtr &x = n.inputs[0], &t = n.inputs[1];
    const NodePtr checked = check_index(t, 0, x->shape[1], ignore_index(n.attrs), "cross_entropy");
    const NodePtr column = reshape(checked, {x->shape[0], 1});
    const NodePtr classes = iota(x->shape, 1, t->dtype, x->device);
    const NodePtr ignored = full_int(ignore_index(n.attrs), t->dtype, column->shape, x->device);
    return {column, eq(classes, grown(column, classes)), ne(column, ignored)};
}
Inputs grad_cross_entropy(const NodePtr& y, const NodePtr& dy) {
    const NodePtr x = wide(y->inputs[0]);
    const Target t = target_of(*y);
    const double smooth = label_smoothing(y->attrs),
                 share = smooth / static_cast<double>(x->shape[1]);
    const NodePtr wanted = select(t.one_hot, full_like(x, 1 - smooth + share), full_like(x, share));
    const NodePtr g = reshape(wide(dy), {x->shape[0], 1});
    const NodePtr dx = mul(sub(softmax(x, 1), wanted), grown(g, x));
    return {cast(select(grown(t.valid, x), dx, full_like(x, 0)), y->dtype), nullptr};
}
NodePtr decompose_cross_entropy(const Node& n) {
    const NodePtr s = shifted(wide(n.inputs[0]), 1);
    const Target t = target_of(n);
    const double smooth = label_smoothing(n.attrs);
    const NodePtr lse = log(reduce_sum(exp(s), {1}));
    NodePtr loss = sub(lse, reduce_sum(select(t.one_hot, s, full_like(s, 0)), {1}));
    if (smooth > 0) {  // mixed with the mean loss over all classes
        const NodePtr mean =
            sub(lse, mul_scalar(reduce_sum(s, {1}), 1 / static_cast<double>(s->shape[1])));
        loss = add(mul_scalar(loss, 1 - smooth), mul_scalar(mean, smooth));
    }
    loss = select(t.valid, loss, full_like(loss, 0));
    return reshape(cast(loss, n.dtype), n.shape);
}
RefArray ref_cross_entropy(const Node& n, Refs in) {
    const double smooth = label_smoothing(n.attrs);
    const std::int64_t classes = in[0].shape[1];
    return generate(n.shape, [&](const Point& p) {
        const double t = at(in[1], p);
        if (t == static_cast<double>(ignore_index(n.attrs))) return 0.0;
        if (t < 0 || t >= static_cast<double>(classes))
            throw IndexError(text("cross_entropy: index ", static_cast<std::int64_t>(t),
                                  " is out of range [0, ", classes, ")"));
        const double* first = in[0].data.data() + p[0] * classes;
        const std::vector<double> row(first, first + classes);
        const double lse = log_sum_exp(row);
        double all = 0;
        for (const double v : row)
            all += lse - v;
        return (1 - smooth) * (lse - row[static_cast<std::size_t>(t)]) +
               (smooth > 0 ? smooth * all / static_cast<double>(classes) : 0);
    });
}

// --- normalize: (x - mean) * invstd * weight + bias ---

// A parameter of a half tensor may be float32, as statistics of half tensors always are.
Type infer_normalize(Nodes in, const Attrs& a) {
    const Node& x = *in[0];
    need_floating(x);
    constexpr const char* names[] = {"x", "mean", "invstd", "weight", "bias"};
    for (std::size_t k = 1; k < 5; ++k) {
        const Node& v = *in[k];
        if (v.dtype != x.dtype && v.dtype != wide_type(x.dtype))
            bad_type(names[k], " is ", v.dtype, " but x is ", x.dtype);
        if (v.shape.rank() != x.shape.rank())
            bad_value(names[k], " must have x's number of dimensions");
        for (int d = 0; d < x.shape.rank(); ++d)
            if (v.shape[d] != 1 && v.shape[d] != x.shape[d])
                bad_value(names[k], " of shape ", v.shape, " does not expand to ", x.shape);
    }
    for (const std::int64_t d : a.i) {
        const int dim = check_dim(d, x.shape);
        if (in[1]->shape[dim] != 1 || in[2]->shape[dim] != 1)
            bad_value("mean and invstd must have extent 1 on dim ", d);
    }
    return {x.dtype, x.shape};
}
bool constant_over(const NodePtr& v, const IntList& dims) {
    for (const std::int64_t d : dims)
        if (v->shape[static_cast<int>(d)] != 1) return false;
    return true;
}
// With xhat = (x - mean) * invstd and g = dy * weight, and sums over `dims` of N elements:
// dx = invstd * (g - sum(g) / N - xhat * sum(g * xhat) / N).
// A weight that is constant over `dims` (batch norm) comes out of the sums, and then dx, dweight
// and dbias all share the same two: sum(dy) and sum(dy * xhat).
Inputs grad_normalize(const NodePtr& y, const NodePtr& dy_) {
    const NodePtr &x_ = y->inputs[0], &mean_ = y->inputs[1], &invstd_ = y->inputs[2],
                  &weight_ = y->inputs[3], &bias_ = y->inputs[4];
    const IntList& dims = y->attrs.i;
    const NodePtr x = wide(x_), dy = wide(dy_), invstd = wide(invstd_), weight = wide(weight_);
    const NodePtr xhat = mul(sub(x, grown(wide(mean_), x)), grown(invstd, x));
    const bool factored = constant_over(weight_, dims);
    const double n = elements(x->shape, dims);

    const NodePtr g = factored ? dy : mul(dy, grown(weight, x));
    const NodePtr s1 = reduce_sum(g, dims), s2 = reduce_sum(mul(g, xhat), dims);
    Inputs out{nullptr, nullptr, nullptr, nullptr, nullptr};
    if (x_->requires_grad) {
        const NodePtr centered = sub(sub(g, grown(mul_scalar(s1, 1 / n), x)),
                                     mul(xhat, grown(mul_scalar(s2, 1 / n), x)));
        NodePtr scale = grown(invstd, s1);
        if (factored) scale = mul(scale, grown(weight, s1));
        out[0] = cast(mul(centered, grown(scale, x)), x_->dtype);
    }
    if (weight_->requires_grad)
        out[3] = cast(sum_to(factored ? s2 : mul(dy, xhat), weight_->shape), weight_->dtype);
    if (bias_->requires_grad) {
        const bool shared = factored && constant_over(bias_, dims);
        out[4] = cast(sum_to(shared ? s1 : dy, bias_->shape), bias_->dtype);
    }
    return out;
}
NodePtr decompose_normalize(const Node& n) {
    const NodePtr x = wide(n.inputs[0]);
    const auto arg = [&](std::size_t k) { return grown(wide(n.inputs[k]), x); };
    const NodePtr xhat = mul(sub(x, arg(1)), arg(2));
    return cast(add(mul(xhat, arg(3)), arg(4)), n.dtype);
}
RefArray ref_normalize(const Node& n, Refs in) {
    return generate(n.shape, [&](const Point& p) {
        const double xhat = (at(in[0], p) - at_broadcast(in[1], p)) * at_broadcast(in[2], p);
        return xhat * at_broadcast(in[3], p) + at_broadcast(in[4], p);
    });
}

}  // namespace

const OpRecord kSoftmax{"softmax",    Kind::Composite, infer_softmax,
                        grad_softmax, ref_softmax,     decompose_softmax};
const OpRecord kLogSoftmax{"log_softmax",    Kind::Composite, infer_softmax,
                           grad_log_softmax, ref_log_softmax, decompose_log_softmax};
const OpRecord kSoftmaxCrossEntropy{"softmax_cross_entropy", Kind::Composite,
                                    infer_cross_entropy,     grad_cross_entropy,
                                    ref_cross_entropy,       decompose_cross_entropy};
const OpRecord kNormalize{"normalize",    Kind::Composite, infer_normalize,
                          grad_normalize, ref_normalize,   decompose_normalize};

}  // namespace pippin::graph::ops
