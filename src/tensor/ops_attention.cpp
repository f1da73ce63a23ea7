// scaled_dot_product_attention: checks, and the choice between the op with a kernel of its own and
// matrix products with a softmax between them.
#include "pippin/ops_attention.h"

#include <cmath>

#include <fmt/format.h>

#include "graph/build_attention.h"
#include "graph/random.h"
#include "pippin/ops.h"
#include "tensor/maps.h"
#include "tensor/promote.h"
#include "tensor/site.h"
#include "tensor/variable.h"

namespace pippin {

namespace g = graph;
using graph::NodePtr;

namespace {

Shape leading(const Shape& s) {
    return Shape(std::span<const std::int64_t>(s.begin(), static_cast<std::size_t>(s.rank() - 2)));
}

// What the scores' shape is; ValueError or TypeError where the three do not fit together.
Shape scores_shape(const NodePtr& q, const NodePtr& k, const NodePtr& v) {
    constexpr const char* kName = "scaled_dot_product_attention";
    const Shape &qs = q->shape, &ks = k->shape, &vs = v->shape;
    const auto shapes = fmt::format("query {}, key {}, value {}", qs.str(), ks.str(), vs.str());
    if (qs.rank() < 2 || ks.rank() < 2 || vs.rank() < 2)
        throw ValueError(fmt::format(
            "{}: each input needs at least 2 dimensions (length, width); {}", kName, shapes));
    if (q->dtype != k->dtype || q->dtype != v->dtype)
        throw TypeError(
            fmt::format("{}: query, key and value must have one dtype, they are {}, {} "
                        "and {}",
                        kName, name_of(q->dtype), name_of(k->dtype), name_of(v->dtype)));
    if (!is_floating(q->dtype))
        throw TypeError(fmt::format("{}: the inputs must be floating point, they are {}", kName,
                                    name_of(q->dtype)));
    if (qs.back() != ks.back())
        throw ValueError(fmt::format("{}: query and key must have one width; {}", kName, shapes));
    if (ks[ks.rank() - 2] != vs[vs.rank() - 2])
        throw ValueError(fmt::format("{}: key and value must have one length; {}", kName, shapes));
    Shape out = broadcast_shapes(broadcast_shapes(leading(qs), leading(ks)), leading(vs));
    out.push_back(qs[qs.rank() - 2]);
    out.push_back(ks[ks.rank() - 2]);
    return out;
}

// [B, H, N, W], whatever the number of leading dims up to two.
NodePtr with_heads(const NodePtr& n) {
    Shape s = n->shape;
    while (s.rank() < 4)
        s.insert(s.rank() == 3 ? 1 : 0, 1);
    return g::reshape(n, s);
}

// A mask beside shape [B, H, L, S] of the scores, which had `rank` dims.
NodePtr mask_with_heads(const NodePtr& m, int rank) {
    Shape s = m->shape;
    while (s.rank() < rank)
        s.insert(0, 1);
    return with_heads(g::reshape(m, s));
}

// Whether attention's own kernel is the better choice; what it cannot do, it does not get. Measured
// with bench/attention on a processor with AVX-512 and AMX: without gradients the kernel wins; with
// them from about 128 x 128 scores a head on, where recomputing them costs less than keeping them.
// Products of bfloat16 are so fast there that the kernel, which computes in float32, pays for its
// memory alone.
bool kernel_pays(const g::AttentionInputs& in, const Shape& scores) {
    if (scores.rank() > 4 || scores.numel() == 0 || in.q->dtype == DType::Float64 ||
        in.q->shape.back() == 0 || in.v->shape.back() == 0 || (in.mask && in.mask->requires_grad))
        return false;
    constexpr std::int64_t kMany = std::int64_t{1} << 25;
    if (scores.numel() >= kMany) return true;
    if (in.q->dtype == DType::BFloat16) return false;
    const bool trains =
        g::grad_mode() && (in.q->requires_grad || in.k->requires_grad || in.v->requires_grad);
    const std::int64_t each = scores[scores.rank() - 2] * scores.back();
    // A head's gradient is one thread's work.
    return !trains || (each >= 128 * 128 && scores.numel() / each >= 4);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, Site site) {
    return at_site(site, [&] {
        const NodePtr &q = node_of(query, "scaled_dot_product_attention: the query"),
                      &k = node_of(key, "scaled_dot_product_attention: the key"),
                      &v = node_of(value, "scaled_dot_product_attention: the value");
        const Shape shape = scores_shape(q, k, v);
        if (!(dropout_p >= 0 && dropout_p <= 1))
            throw ValueError(
                fmt::format("scaled_dot_product_attention: dropout probability {} is not in [0, 1]",
                            dropout_p));
        if (mask.defined() && is_causal)
            throw ValueError(
                "scaled_dot_product_attention: give a mask or is_causal, not both; a mask can "
                "hold the causal one too");
        g::AttentionAttrs a{scale.value_or(1 / std::sqrt(static_cast<double>(q->shape.back()))),
                            dropout_p, is_causal};
        const DType t = heavy_dtype(q, k, "scaled_dot_product_attention");
        const auto expanded = [&](const NodePtr& n) {
            Shape s = leading(shape);
            s.push_back(n->shape[n->shape.rank() - 2]);
            s.push_back(n->shape.back());
            return g::expand_to(g::cast(n, t), s);
        };
        g::AttentionInputs in{expanded(q), expanded(k), expanded(v), nullptr, nullptr, {0, 0}};
        if (mask.defined()) {
            const NodePtr& m = node_of(mask);
            if (!(broadcast_shapes(m->shape, shape) == shape))
                throw ValueError(fmt::format(
                    "scaled_dot_product_attention: a mask of shape {} does not broadcast to the "
                    "scores' {}",
                    m->shape.str(), shape.str()));
            if (m->dtype != DType::Bool && !is_floating(m->dtype))
                throw TypeError(fmt::format(
                    "scaled_dot_product_attention: the mask must be bool or floating point, it is "
                    "{}",
                    name_of(m->dtype)));
            in.mask = m->dtype == DType::Bool ? m : g::cast(m, t);
        }
        if (dropout_p > 0) {
            std::tie(in.random[0], in.random[1]) = g::next_random();
            in.seed = node_of(tensor<std::int64_t>(
                {static_cast<std::int64_t>(in.random[0]), static_cast<std::int64_t>(in.random[1])},
                Options(q->device)));
        }
        if (!kernel_pays(in, shape)) return wrap(g::composed_attention(in, a));
        const int rank = shape.rank();
        if (in.mask) in.mask = mask_with_heads(in.mask, rank);
        for (NodePtr* n : {&in.q, &in.k, &in.v})
            *n = with_heads(*n);
        Shape out = leading(shape);
        out.push_back(shape[rank - 2]);
        out.push_back(v->shape.back());
        return wrap(g::reshape(g::permute(g::attention(in, a), {0, 2, 1, 3}), out));
    });
}

}  // namespace pippin
