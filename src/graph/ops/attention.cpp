// Attention: softmax(q k^T scale + mask) v, without ever holding all scores, and its gradient,
// which computes them again (Dao et al. 2022).
#include <algorithm>

#include "graph/ops/check.h"
#include "graph/ops/records_attention.h"
#include "graph/ops/ref.h"
#include "graph/philox.h"

namespace pippin::graph {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The inputs of a node of either record.
AttentionInputs inputs_of(const Node& n) {
    AttentionInputs in{n.inputs[0], n.inputs[1], n.inputs[2],
                       nullptr,     nullptr,     {n.run_args[0], n.run_args[1]}};
    std::size_t next = 3;
    if (ops::has_mask(n.attrs)) in.mask = n.inputs[next++];
    if (ops::has_dropout(n.attrs)) in.seed = n.inputs[next];
    return in;
}

NodePtr make_attention(const OpRecord& op, const AttentionInputs& in, const NodePtr& dy,
                       const AttentionAttrs& a) {
    Inputs inputs{in.q, in.k, in.v};
    if (in.mask) inputs.push_back(in.mask);
    if (in.seed) inputs.push_back(in.seed);
    if (dy) inputs.push_back(dy);
    Attrs attrs;
    attrs.i = {a.causal, in.mask != nullptr, in.seed != nullptr};
    attrs.f = {a.scale, a.dropout};
    NodePtr n = make_node(op, std::move(inputs), std::move(attrs));
    n->run_args[0] = in.random[0];
    n->run_args[1] = in.random[1];
    return n;
}

// A part of a 1-d node as [B, N, H, W], seen as [B, H, N, W].
NodePtr heads_of(const NodePtr& flat, std::int64_t* at, const Shape& like) {
    const std::int64_t n = like.numel();
    const NodePtr part = slice(flat, {*at}, {*at + n}, {1});
    *at += n;
    return permute(reshape(part, {like[0], like[2], like[1], like[3]}), {0, 2, 1, 3});
}

// The random numbers of the weights: they are drawn where `random` says, not anew.
NodePtr uniform_of(const AttentionInputs& in, const Shape& shape) {
    Attrs a;
    a.i = IntList(shape.begin(), shape.end());
    const NodePtr u = make_node(ops::kRandomUniform, {}, std::move(a));
    u->device = in.q->device;
    u->run_args[0] = in.random[0];
    u->run_args[1] = in.random[1];
    return u;
}

// softmax over the last dim whose rows of -infinity alone are zeros, with zero gradients.
NodePtr softmax_or_zero(const NodePtr& scores) {
    const int last = scores->shape.rank() - 1;
    const NodePtr most = detach(reduce_max(scores, {last}));
    const NodePtr dead = expand(eq(most, full_like(most, -kInf)), scores->shape);
    const NodePtr zero = full_like(scores, 0);
    return select(dead, zero, softmax(select(dead, zero, scores), last));
}

}  // namespace

NodePtr attention(const AttentionInputs& in, const AttentionAttrs& a) {
    return make_attention(ops::kAttention, in, nullptr, a);
}
NodePtr attention_grad(const AttentionInputs& in, const NodePtr& dy, const AttentionAttrs& a) {
    return make_attention(ops::kAttentionGrad, in, dy, a);
}

NodePtr composed_attention(const AttentionInputs& in, const AttentionAttrs& a) {
    NodePtr scores = matmul(mul_scalar(in.q, a.scale), in.k, false, true);
    const Shape& s = scores->shape;
    const int rank = s.rank();
    const NodePtr minus = full_like(scores, -kInf);
    if (in.mask && in.mask->dtype == DType::Bool)
        scores = select(expand_to(in.mask, s), scores, minus);
    else if (in.mask)
        scores = add(scores, expand_to(in.mask, s));
    if (a.causal) {
        const Shape last{s[rank - 2], s[rank - 1]};
        const NodePtr seen = le(iota(last, 1, DType::Int64, scores->device),
                                iota(last, 0, DType::Int64, scores->device));
        scores = select(expand_to(seen, s), scores, minus);
    }
    NodePtr weights =
        in.mask && s.numel() > 0 ? softmax_or_zero(scores) : softmax(scores, rank - 1);
    if (a.dropout == 1) {
        weights = mul(weights, full_like(weights, 0));
    } else if (a.dropout > 0) {
        const NodePtr u = uniform_of(in, s);
        weights = select(le(full_like(u, a.dropout), u), mul_scalar(weights, 1 / (1 - a.dropout)),
                         full_like(weights, 0));
    }
    return matmul(weights, in.v, false, false);
}

}  // namespace pippin::graph

namespace pippin::graph::ops {
namespace {

using Nodes = std::span<const NodePtr>;

// Extents by their names in build_attention.h.
struct Extents {
    std::int64_t b, h, l, e, s, ev;
};

Extents check_inputs(Nodes in, const Attrs& a) {
    const Node &q = *in[0], &k = *in[1], &v = *in[2];
    need_rank(q, 4, "the query");
    need_rank(k, 4, "the key");
    need_rank(v, 4, "the value");
    need_floating(q);
    need_same_dtype(q, k);
    need_same_dtype(q, v);
    const Extents x{q.shape[0], q.shape[1], q.shape[2], q.shape[3], k.shape[2], v.shape[3]};
    if (!(k.shape == Shape{x.b, x.h, x.s, x.e}) || !(v.shape == Shape{x.b, x.h, x.s, x.ev}))
        bad_value("query ", q.shape, ", key ", k.shape, " and value ", v.shape,
                  " do not fit together");
    std::size_t next = 3;
    if (has_mask(a)) {
        const Node& m = *in[next++];
        if (m.dtype != DType::Bool) need_same_dtype(q, m);
        need_rank(m, 4, "the mask");
        const Shape full{x.b, x.h, x.l, x.s};
        for (int d = 0; d < 4; ++d)
            if (m.shape[d] != 1 && m.shape[d] != full[d])
                bad_value("the mask ", m.shape, " does not expand to ", full);
    }
    if (has_dropout(a) && !(in[next]->dtype == DType::Int64 && in[next]->shape == Shape{2}))
        bad_value("the seed must be two int64");
    return x;
}
Type infer_attention(Nodes in, const Attrs& a) {
    const Extents x = check_inputs(in, a);
    return {in[0]->dtype, countable(Shape{x.b, x.l, x.h, x.ev})};
}
Type infer_attention_grad(Nodes in, const Attrs& a) {
    const Extents x = check_inputs(in, a);
    const Node& dy = *in[in.size() - 1];
    need_same_dtype(*in[0], dy);
    if (!(dy.shape == Shape{x.b, x.l, x.h, x.ev}))
        bad_value("the result's gradient must have shape ", Shape{x.b, x.l, x.h, x.ev}, ", not ",
                  dy.shape);
    return {in[0]->dtype, Shape{x.b * x.h * (x.l * x.e + x.s * (x.e + x.ev))}};
}

// Where the gradient is itself differentiated it comes in primitive ops.
Inputs composed_gradient(const AttentionInputs& in, const AttentionAttrs& a, const NodePtr& dy,
                         std::size_t inputs) {
    const NodePtr g = permute(dy, {0, 2, 1, 3});  // [B, H, L, Ev]
    AttentionInputs weights_of = in;              // attention of the identity: the weights
    const Shape& k = in.k->shape;
    const Shape eye{k[0], k[1], k[2], k[2]};
    weights_of.v =
        cast(eq(iota(eye, 2, DType::Int64, g->device), iota(eye, 3, DType::Int64, g->device)),
             in.q->dtype);
    AttentionAttrs kept = a;
    kept.dropout = 0;
    const NodePtr p = composed_attention(weights_of, kept);
    const NodePtr dropped = a.dropout > 0 ? composed_attention(weights_of, a) : p;
    NodePtr dp = matmul(g, in.v, false, true);
    if (a.dropout > 0) {
        // The factor of each weight: 0 or 1 / (1 - dropout).
        const NodePtr zero = full_like(p, 0);
        const NodePtr u = uniform_of(in, p->shape);
        dp = a.dropout == 1 ? mul(dp, zero)
                            : select(le(full_like(u, a.dropout), u),
                                     mul_scalar(dp, 1 / (1 - a.dropout)), zero);
    }
    const NodePtr dot = reduce_sum(mul(p, dp), {3});
    const NodePtr ds = mul_scalar(mul(p, sub(dp, expand(dot, dp->shape))), a.scale);
    Inputs out{matmul(ds, in.k, false, false), matmul(ds, in.q, true, false),
               matmul(dropped, g, true, false)};
    while (out.size() < inputs)
        out.push_back(nullptr);
    return out;
}
Inputs grad_attention(const NodePtr& y, const NodePtr& dy) {
    const AttentionInputs in = inputs_of(*y);
    const AttentionAttrs a = attention_attrs(y->attrs);
    if (grad_mode()) return composed_gradient(in, a, dy, y->inputs.size());
    const NodePtr flat = attention_grad(in, dy, a);
    std::int64_t at = 0;
    Inputs out;
    for (const NodePtr* x : {&in.q, &in.k, &in.v})
        out.push_back(heads_of(flat, &at, (*x)->shape));
    while (out.size() < y->inputs.size())
        out.push_back(nullptr);
    return out;
}

// --- the references: one row of weights after the other ---

struct Row {
    std::vector<double> weights, factors;  ///< softmax; what dropout makes of each
};
Row weights_of(const Node& n, Refs in, std::int64_t b, std::int64_t h, std::int64_t i) {
    const AttentionAttrs a = attention_attrs(n.attrs);
    const Shape &q = in[0].shape, &k = in[1].shape;
    const auto keys = static_cast<std::size_t>(k[2]);
    Row r{std::vector<double>(keys, -kInf), std::vector<double>(keys, 1)};
    double most = -kInf, sum = 0;
    for (std::int64_t j = 0; j < k[2]; ++j) {
        double s = 0;
        for (std::int64_t e = 0; e < q[3]; ++e)
            s += at(in[0], Point{b, h, i, e}) * at(in[1], Point{b, h, j, e});
        s *= a.scale;
        if (has_mask(n.attrs)) {
            const double m = at_broadcast(in[3], Point{b, h, i, j});
            if (n.inputs[3]->dtype == DType::Bool)
                s = m != 0 ? s : -kInf;
            else
                s += m;
        }
        if (a.causal && j > i) s = -kInf;
        r.weights[static_cast<std::size_t>(j)] = s;
        most = std::isnan(s) ? s : std::isnan(most) ? most : std::max(most, s);
    }
    for (double& w : r.weights) {
        w = most == -kInf ? 0 : std::exp(w - most);
        sum += w;
    }
    for (std::size_t j = 0; j < keys; ++j) {
        if (most != -kInf) r.weights[j] /= sum;
        if (!has_dropout(n.attrs)) continue;
        const std::int64_t index =
            ((b * q[1] + h) * q[2] + i) * k[2] + static_cast<std::int64_t>(j);
        const double u =
            (random_word(n.run_args[0], n.run_args[1], static_cast<std::uint64_t>(index)) >> 8) *
            0x1p-24;
        r.factors[j] = a.dropout == 1 || u < static_cast<double>(static_cast<float>(a.dropout))
                           ? 0
                           : 1 / (1 - a.dropout);
    }
    return r;
}
RefArray ref_attention(const Node& n, Refs in) {
    RefArray y = zeros(n.shape);
    const std::int64_t keys = in[1].shape[2], width = in[2].shape[3];
    for_each_point(Shape{n.shape[0], n.shape[2], n.shape[1]}, [&](const Point& p) {
        const Row r = weights_of(n, in, p[0], p[1], p[2]);
        for (std::int64_t j = 0; j < keys; ++j)
            for (std::int64_t e = 0; e < width; ++e)
                at(y, Point{p[0], p[2], p[1], e}) += r.weights[static_cast<std::size_t>(j)] *
                                                     r.factors[static_cast<std::size_t>(j)] *
                                                     at(in[2], Point{p[0], p[1], j, e});
    });
    return y;
}
RefArray ref_attention_grad(const Node& n, Refs in) {
    const Shape &q = in[0].shape, &k = in[1].shape, &v = in[2].shape;
    const RefArray& dy = in[in.size() - 1];
    const double scale = attention_attrs(n.attrs).scale;
    RefArray out = zeros(n.shape);
    const auto place = [&](std::int64_t first, const Shape& s, const Point& p) -> double& {
        const Shape laid{s[0], s[2], s[1], s[3]};
        return out
            .data[static_cast<std::size_t>(first) + offset(laid, Point{p[0], p[2], p[1], p[3]})];
    };
    const std::int64_t dk = q.numel(), dv = dk + k.numel();
    for_each_point(Shape{q[0], q[1], q[2]}, [&](const Point& p) {
        const std::int64_t b = p[0], h = p[1], i = p[2];
        const Row r = weights_of(n, in, b, h, i);
        std::vector<double> dp(r.weights.size());
        double dot = 0;
        for (std::int64_t j = 0; j < k[2]; ++j) {
            const auto at_j = static_cast<std::size_t>(j);
            for (std::int64_t e = 0; e < v[3]; ++e) {
                const double g = at(dy, Point{b, i, h, e});
                place(dv, v, Point{b, h, j, e}) += r.weights[at_j] * r.factors[at_j] * g;
                dp[at_j] += g * at(in[2], Point{b, h, j, e}) * r.factors[at_j];
            }
            dot += r.weights[at_j] * dp[at_j];
        }
        for (std::int64_t j = 0; j < k[2]; ++j) {
            const auto at_j = static_cast<std::size_t>(j);
            const double ds = r.weights[at_j] * (dp[at_j] - dot) * scale;
            for (std::int64_t e = 0; e < q[3]; ++e) {
                place(0, q, Point{b, h, i, e}) += ds * at(in[1], Point{b, h, j, e});
                place(dk, k, Point{b, h, j, e}) += ds * at(in[0], Point{b, h, i, e});
            }
        }
    });
    return out;
}

}  // namespace

const OpRecord kAttention{"attention",    Kind::Heavy,   infer_attention,
                          grad_attention, ref_attention, nullptr};
const OpRecord kAttentionGrad{"attention_grad", Kind::Heavy,        infer_attention_grad,
                              nullptr,          ref_attention_grad, nullptr};

}  // namespace pippin::graph::ops
