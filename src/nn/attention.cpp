// Multi-head attention and the transformer's encoder.
#include "pippin/nn_attention.h"

#include <limits>

#include "nn/repr.h"
#include "pippin/ops_attention.h"
#include "tensor/site.h"

namespace pippin::nn {
namespace {

template <class F>
auto called(const Site& site, F f) {
    const SiteScope scope(site);
    return at_site(site, f);
}

// A mask of PyTorch's meaning as numbers to add.
Tensor additive(const Tensor& mask, const Tensor& like) {
    if (is_floating(mask.dtype())) return cast(mask, like.dtype());
    const double inf = std::numeric_limits<double>::infinity();
    return where(mask, full({}, -inf, {like.dtype(), like.device()}),
                 zeros({}, {like.dtype(), like.device()}));
}

void check_mask(const char* what, const Tensor& mask) {
    if (mask.dtype() != boolean && !is_floating(mask.dtype()))
        throw TypeError(
            fmt::format("MultiheadAttention: {} must be bool or floating point, it is {}", what,
                        name_of(mask.dtype())));
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       AttentionOptions o)
    : embed_dim_(embed_dim), num_heads_(num_heads), o_(o) {
    if (embed_dim <= 0 || num_heads <= 0 || embed_dim % num_heads != 0)
        throw ValueError(fmt::format(
            "MultiheadAttention: embed_dim {} must be a positive multiple of num_heads {}",
            embed_dim, num_heads));
    if (o.kdim < 0 || o.vdim < 0)
        throw ValueError(fmt::format("MultiheadAttention: kdim {} and vdim {} cannot be negative",
                                     o.kdim, o.vdim));
    if (!(o.dropout >= 0 && o.dropout <= 1))
        throw ValueError(
            fmt::format("MultiheadAttention: dropout must be from 0 to 1, got {}", o.dropout));
    if (o_.kdim == 0) o_.kdim = embed_dim;
    if (o_.vdim == 0) o_.vdim = embed_dim;
    const auto weight = [&](const char* name, const Shape& shape) {
        Tensor t = zeros(shape);
        init::xavier_uniform_(t);
        return register_parameter(name, t.detach());
    };
    if (o_.kdim == embed_dim && o_.vdim == embed_dim) {
        in_proj_weight = weight("in_proj_weight", {3 * embed_dim, embed_dim});
    } else {
        q_proj_weight = weight("q_proj_weight", {embed_dim, embed_dim});
        k_proj_weight = weight("k_proj_weight", {embed_dim, o_.kdim});
        v_proj_weight = weight("v_proj_weight", {embed_dim, o_.vdim});
    }
    if (o.bias) in_proj_bias = register_parameter("in_proj_bias", zeros({3 * embed_dim}));
    out_proj = register_module("out_proj", nn::make<Linear>(embed_dim, embed_dim, o.bias));
    if (o.bias) init::constant_(out_proj->bias, 0);
}

// Part 0, 1 or 2: queries, keys, values.
Tensor MultiheadAttention::projected(const Tensor& x, std::int64_t which) const {
    const Tensor apart[] = {q_proj_weight, k_proj_weight, v_proj_weight};
    const Tensor w = in_proj_weight.defined()
                         ? narrow(in_proj_weight, 0, which * embed_dim_, embed_dim_)
                         : apart[which];
    const Tensor b =
        in_proj_bias.defined() ? narrow(in_proj_bias, 0, which * embed_dim_, embed_dim_) : Tensor{};
    return linear(x, w, b);
}

// (N, L, E) as (N, heads, L, E / heads).
Tensor MultiheadAttention::heads(const Tensor& x) const {
    const Tensor parts = reshape(x, {x.size(0), x.size(1), num_heads_, embed_dim_ / num_heads_});
    return transpose(parts, 1, 2);
}

// One mask for scaled_dot_product_attention, which broadcasts to (N, heads, L, S); undefined
// without any.
Tensor MultiheadAttention::combined_mask(const AttentionMasks& masks, std::int64_t n,
                                         std::int64_t queries, std::int64_t keys,
                                         const Tensor& like) const {
    std::vector<Tensor> all;
    if (const Tensor& m = masks.attn_mask; m.defined()) {
        check_mask("attn_mask", m);
        if (m.shape() == Shape{queries, keys})
            all.push_back(m);
        else if (m.shape() == Shape{n * num_heads_, queries, keys})
            all.push_back(reshape(m, {n, num_heads_, queries, keys}));
        else
            throw ValueError(fmt::format(
                "MultiheadAttention: attn_mask must have shape [{}, {}] or [{}, {}, {}], it has {}",
                queries, keys, n * num_heads_, queries, keys, m.shape().str()));
    }
    if (const Tensor& m = masks.key_padding_mask; m.defined()) {
        check_mask("key_padding_mask", m);
        if (m.numel() != n * keys || m.size(-1) != keys)
            throw ValueError(fmt::format(
                "MultiheadAttention: key_padding_mask must have shape [{}, {}], it has {}", n, keys,
                m.shape().str()));
        all.push_back(reshape(m, {n, 1, 1, keys}));
    }
    if (masks.is_causal && !all.empty())
        all.push_back(unsqueeze(arange(queries, like.device()), 1) < arange(keys, like.device()));
    if (all.empty()) return {};
    bool plain = true;
    for (const Tensor& m : all)
        plain = plain && m.dtype() == boolean;
    Tensor out = plain ? all[0] : additive(all[0], like);
    for (std::size_t i = 1; i < all.size(); ++i)
        out = plain ? logical_or(out, all[i]) : out + additive(all[i], like);
    return plain ? logical_not(out) : out;
}

Tensor MultiheadAttention::forward(const Tensor& x) { return forward(x, x, x).output; }

MultiheadAttention::Result MultiheadAttention::forward(const Tensor& query, const Tensor& key,
                                                       const Tensor& value,
                                                       const AttentionMasks& masks,
                                                       bool need_weights) {
    const auto check = [&](const Tensor& t, const char* what, std::int64_t width) {
        if ((t.dim() != 2 && t.dim() != 3) || t.dim() != query.dim() || t.size(-1) != width)
            throw ValueError(fmt::format(
                "MultiheadAttention: the {} must be ({}, {}) or (L, {}) like the query, it has "
                "shape {}",
                what, o_.batch_first ? "N, L" : "L, N", width, width, t.shape().str()));
    };
    check(query, "query", embed_dim_);
    check(key, "key", o_.kdim);
    check(value, "value", o_.vdim);
    const bool batched = query.dim() == 3;
    const auto batch_first = [&](const Tensor& t) {
        return !batched ? unsqueeze(t, 0) : o_.batch_first ? t : transpose(t, 0, 1);
    };
    Tensor q, k, v;
    if (in_proj_weight.defined() && key.is_same(query) && value.is_same(query)) {
        // One product for all three.
        const Tensor all = linear(batch_first(query), in_proj_weight, in_proj_bias);
        q = narrow(all, -1, 0, embed_dim_);
        k = narrow(all, -1, embed_dim_, embed_dim_);
        v = narrow(all, -1, 2 * embed_dim_, embed_dim_);
    } else {
        q = projected(batch_first(query), 0);
        k = projected(batch_first(key), 1);
        v = projected(batch_first(value), 2);
    }
    const std::int64_t n = q.size(0), queries = q.size(1), keys = k.size(1);
    if (k.size(0) != n || v.size(0) != n || v.size(1) != keys)
        throw ValueError(fmt::format(
            "MultiheadAttention: query, key and value do not go together: shapes {}, {} and {}",
            query.shape().str(), key.shape().str(), value.shape().str()));
    q = heads(q), k = heads(k), v = heads(v);
    Tensor mask = combined_mask(masks, n, queries, keys, q);
    const double p = is_training() ? o_.dropout : 0;
    Result result;
    Tensor y;
    if (need_weights) {
        // By the formula: the kernels never hold all weights.
        if (masks.is_causal && !mask.defined())
            mask = unsqueeze(arange(queries, q.device()), 1) >= arange(keys, q.device());
        Tensor scores = matmul(q, transpose(k, -1, -2)) *
                        (1 / std::sqrt(static_cast<double>(embed_dim_ / num_heads_)));
        const double inf = std::numeric_limits<double>::infinity();
        if (mask.defined())
            scores = mask.dtype() == boolean ? where(mask, scores, -inf) : scores + mask;
        // Rows that see nothing are zeros, as in the kernels; their softmax must not see -inf
        // alone.
        const Tensor nothing = amax(scores, {-1}, true) == -inf;
        const Tensor weights = where(nothing, 0.0, softmax(where(nothing, 0.0, scores), -1));
        const Tensor used = dropout(weights, p, is_training());
        y = matmul(used, v);
        result.weights = mean(used, {1});
        if (!batched) result.weights = squeeze(result.weights, 0);
    } else {
        y = scaled_dot_product_attention(q, k, v, mask, p, masks.is_causal && !mask.defined());
    }
    y = (*out_proj)(reshape(transpose(y, 1, 2), {n, queries, embed_dim_}));
    result.output = !batched ? squeeze(y, 0) : o_.batch_first ? y : transpose(y, 0, 1);
    return result;
}

MultiheadAttention::Result MultiheadAttention::operator()(const Tensor& query, const Tensor& key,
                                                          const Tensor& value,
                                                          const AttentionMasks& masks,
                                                          bool need_weights, Site site) {
    return called(site, [&] { return forward(query, key, value, masks, need_weights); });
}

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 TransformerOptions o)
    : o_(std::move(o)) {
    if (o_.dim_feedforward <= 0)
        throw ValueError(
            fmt::format("TransformerEncoderLayer: dim_feedforward must be positive, got {}",
                        o_.dim_feedforward));
    if (!o_.activation) o_.activation = [](const Tensor& x) { return relu(x); };
    AttentionOptions attention;
    attention.dropout = o_.dropout, attention.bias = o_.bias;
    attention.batch_first = o_.batch_first;
    self_attn =
        register_module("self_attn", nn::make<MultiheadAttention>(d_model, nhead, attention));
    linear1 = register_module("linear1", nn::make<Linear>(d_model, o_.dim_feedforward, o_.bias));
    dropout_ = register_module("dropout", nn::make<Dropout>(o_.dropout));
    linear2 = register_module("linear2", nn::make<Linear>(o_.dim_feedforward, d_model, o_.bias));
    const auto norm = [&](const char* name) {
        return register_module(
            name, nn::make<LayerNorm>(Shape{d_model}, o_.layer_norm_eps, true, o_.bias));
    };
    norm1 = norm("norm1");
    norm2 = norm("norm2");
    dropout1_ = register_module("dropout1", nn::make<Dropout>(o_.dropout));
    dropout2_ = register_module("dropout2", nn::make<Dropout>(o_.dropout));
}

Tensor TransformerEncoderLayer::attend(const Tensor& x, const EncoderMasks& masks) {
    const AttentionMasks m{masks.src_key_padding_mask, masks.src_mask, masks.is_causal};
    return (*dropout1_)(self_attn->forward(x, x, x, m).output);
}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& x) {
    return (*dropout2_)((*linear2)((*dropout_)(o_.activation((*linear1)(x)))));
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const EncoderMasks& masks) {
    if (o_.norm_first) {
        const Tensor x = src + attend((*norm1)(src), masks);
        return x + feed_forward((*norm2)(x));
    }
    const Tensor x = (*norm1)(src + attend(src, masks));
    return (*norm2)(x + feed_forward(x));
}

Tensor TransformerEncoderLayer::operator()(const Tensor& src, const EncoderMasks& masks,
                                           Site site) {
    return called(site, [&] { return forward(src, masks); });
}

TransformerEncoder::TransformerEncoder(std::int64_t d_model, std::int64_t nhead,
                                       std::int64_t num_layers, TransformerOptions o,
                                       ModulePtr norm)
    : norm_(std::move(norm)) {
    if (num_layers <= 0)
        throw ValueError(
            fmt::format("TransformerEncoder: num_layers must be positive, got {}", num_layers));
    layers = register_module("layers", nn::make<ModuleList<TransformerEncoderLayer>>());
    for (std::int64_t i = 0; i < num_layers; ++i)
        layers->append(nn::make<TransformerEncoderLayer>(d_model, nhead, o));
    if (norm_) register_module("norm", norm_);
}

Tensor TransformerEncoder::forward(const Tensor& src, const EncoderMasks& masks) {
    Tensor x = src;
    for (const auto& layer : *layers)
        x = layer->forward(x, masks);
    return norm_ ? (*norm_)(x) : x;
}

Tensor TransformerEncoder::operator()(const Tensor& src, const EncoderMasks& masks, Site site) {
    return called(site, [&] { return forward(src, masks); });
}

}  // namespace pippin::nn
