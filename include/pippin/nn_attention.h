// Multi-head attention and the transformer's encoder, with PyTorch's parameter names
// (in_proj_weight, out_proj.weight, self_attn.in_proj_bias, layers.0.norm1.weight, ...), defaults
// and initialisation. Masks here have PyTorch's meaning: a bool mask is true where a key must not
// be seen (the opposite of scaled_dot_product_attention's), a floating-point one is added to the
// scores. A row that may see no key is zeros.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "pippin/nn_layers.h"

namespace pippin::nn {

struct AttentionOptions {
    double dropout = 0;  ///< of the weights, in training
    bool bias = true;
    bool batch_first = false;         ///< (N, L, E) and not (L, N, E)
    std::int64_t kdim = 0, vdim = 0;  ///< widths of keys and values; 0: embed_dim
};

struct AttentionMasks {
    Tensor key_padding_mask = {};  ///< (N, S), or (S) without a batch
    Tensor attn_mask = {};         ///< (L, S) or (N * heads, L, S)
    bool is_causal = false;        ///< query i sees keys 0 .. i, in addition
};

/// Vaswani et al. 2017. query (L, N, E), key (S, N, kdim), value (S, N, vdim), or without N, or
/// batch first.
class MultiheadAttention : public Module {
  public:
    struct Result {
        Tensor output;   ///< of the query's shape
        Tensor weights;  ///< (N, L, S), the mean over heads; undefined unless asked for
    };
    MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, AttentionOptions o = {});
    Tensor forward(const Tensor& x) override;  ///< self-attention without masks
    /// need_weights costs the memory of all weights.
    Result forward(const Tensor& query, const Tensor& key, const Tensor& value,
                   const AttentionMasks& masks = {}, bool need_weights = false);
    using Module::operator();
    Result operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                      const AttentionMasks& masks = {}, bool need_weights = false,
                      Site site = Site::current());
    std::string type_name() const override { return "MultiheadAttention"; }
    /// in_proj_weight for one width, else one weight each; the others are undefined.
    Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias;
    std::shared_ptr<Linear> out_proj;

  private:
    Tensor projected(const Tensor& x, std::int64_t which) const;
    Tensor heads(const Tensor& x) const;
    Tensor combined_mask(const AttentionMasks& masks, std::int64_t n, std::int64_t queries,
                         std::int64_t keys, const Tensor& like) const;
    std::int64_t embed_dim_, num_heads_;
    AttentionOptions o_;
};

struct TransformerOptions {
    std::int64_t dim_feedforward = 2048;
    double dropout = 0.1;
    std::function<Tensor(const Tensor&)> activation = {};  ///< relu unless given
    double layer_norm_eps = 1e-5;
    bool batch_first = false;
    bool norm_first = false;  ///< norms before attention and feed-forward, not after
    bool bias = true;
};

struct EncoderMasks {
    Tensor src_mask = {};              ///< (L, L) or (N * heads, L, L)
    Tensor src_key_padding_mask = {};  ///< (N, L)
    bool is_causal = false;
};

/// Self-attention and a feed-forward network, each with a residual connection and a norm.
class TransformerEncoderLayer : public Module {
  public:
    TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, TransformerOptions o = {});
    Tensor forward(const Tensor& src) override { return forward(src, EncoderMasks{}); }
    Tensor forward(const Tensor& src, const EncoderMasks& masks);
    using Module::operator();
    Tensor operator()(const Tensor& src, const EncoderMasks& masks, Site site = Site::current());
    std::string type_name() const override { return "TransformerEncoderLayer"; }
    std::shared_ptr<MultiheadAttention> self_attn;
    std::shared_ptr<Linear> linear1, linear2;
    std::shared_ptr<LayerNorm> norm1, norm2;

  private:
    Tensor attend(const Tensor& x, const EncoderMasks& masks);
    Tensor feed_forward(const Tensor& x);
    TransformerOptions o_;
    std::shared_ptr<Dropout> dropout_, dropout1_, dropout2_;
};

/// num_layers layers of one kind, each with initial values of its own (PyTorch copies one layer's),
/// then `norm`, if it is given.
class TransformerEncoder : public Module {
  public:
    TransformerEncoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                       TransformerOptions o = {}, ModulePtr norm = {});
    Tensor forward(const Tensor& src) override { return forward(src, EncoderMasks{}); }
    Tensor forward(const Tensor& src, const EncoderMasks& masks);
    using Module::operator();
    Tensor operator()(const Tensor& src, const EncoderMasks& masks, Site site = Site::current());
    std::string type_name() const override { return "TransformerEncoder"; }
    std::shared_ptr<ModuleList<TransformerEncoderLayer>> layers;

  private:
    ModulePtr norm_;
};

}  // namespace pippin::nn
