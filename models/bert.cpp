// BERT.
#include "pippin/bert.h"

#include <fmt/format.h>

#include "layers.h"
#include "tensor/site.h"

namespace pippin::models {
namespace {

constexpr double kInitialStd = 0.02;

std::shared_ptr<nn::Linear> dense(std::int64_t in, std::int64_t out) {
    auto layer = nn::make<nn::Linear>(in, out);
    nn::init::normal_(layer->weight, 0, kInitialStd);
    zero_bias(*layer);
    return layer;
}

std::shared_ptr<nn::LayerNorm> norm_layer(const BertConfig& c) {
    return nn::make<nn::LayerNorm>(Shape{c.hidden_size}, c.layer_norm_eps);
}

// A table whose row `padding` (none if negative) stays as it is.
class Embedding : public nn::Module {
  public:
    Embedding(std::int64_t rows, std::int64_t width, std::int64_t padding = -1)
        : padding_(padding) {
        weight = register_parameter("weight", normal({rows, width}, 0, kInitialStd));
        if (padding >= 0) {
            const NoGrad no_grad;
            weight.index_put_({padding}, zeros({width}));
        }
    }
    Tensor forward(const Tensor& ids) override { return embedding(ids, weight, padding_); }
    std::string extra_repr() const override {
        return fmt::format("{}, {}", weight.size(0), weight.size(1));
    }
    std::string type_name() const override { return "Embedding"; }
    Tensor weight;

  private:
    std::int64_t padding_;
};

class Embeddings : public nn::Module {
  public:
    explicit Embeddings(const BertConfig& c) {
        words_ = register_module("word_embeddings",
                                 nn::make<Embedding>(c.vocab_size, c.hidden_size, c.pad_token_id));
        positions_ = register_module("position_embeddings",
                                     nn::make<Embedding>(c.max_positions, c.hidden_size));
        types_ = register_module("token_type_embeddings",
                                 nn::make<Embedding>(c.type_vocab_size, c.hidden_size));
        norm_ = register_module("LayerNorm", norm_layer(c));
        dropout_ = register_module("dropout", nn::make<nn::Dropout>(c.hidden_dropout));
    }
    Tensor forward(const Tensor& ids) override { return forward(ids, {}); }
    Tensor forward(const Tensor& ids, const Tensor& token_types) {
        // Without types, and for positions, rows are the same for all samples: no look-up.
        const Tensor types =
            token_types.defined() ? (*types_)(token_types) : narrow(types_->weight, 0, 0, 1);
        const Tensor x = (*words_)(ids) + types + narrow(positions_->weight, 0, 0, ids.size(1));
        return (*dropout_)((*norm_)(x));
    }
    std::string type_name() const override { return "BertEmbeddings"; }

  private:
    std::shared_ptr<Embedding> words_, positions_, types_;
    std::shared_ptr<nn::LayerNorm> norm_;
    std::shared_ptr<nn::Dropout> dropout_;
};

class SelfAttention : public nn::Module {
  public:
    explicit SelfAttention(const BertConfig& c) : heads_(c.heads), dropout_(c.attention_dropout) {
        query_ = register_module("query", dense(c.hidden_size, c.hidden_size));
        key_ = register_module("key", dense(c.hidden_size, c.hidden_size));
        value_ = register_module("value", dense(c.hidden_size, c.hidden_size));
    }
    Tensor forward(const Tensor& x) override { return forward(x, {}); }
    Tensor forward(const Tensor& x, const Tensor& mask) {
        const auto part = [&](nn::Linear& layer) { return split_heads(layer(x), heads_); };
        return attend(part(*query_), part(*key_), part(*value_), mask,
                      is_training() ? dropout_ : 0);
    }
    std::string type_name() const override { return "BertSelfAttention"; }

  private:
    std::int64_t heads_;
    double dropout_;
    std::shared_ptr<nn::Linear> query_, key_, value_;
};

// A linear layer and dropout, added to what goes around the sublayer, then the norm.
class SublayerOutput : public nn::Module {
  public:
    SublayerOutput(std::int64_t in, const BertConfig& c) {
        dense_ = register_module("dense", dense(in, c.hidden_size));
        norm_ = register_module("LayerNorm", norm_layer(c));
        dropout_ = register_module("dropout", nn::make<nn::Dropout>(c.hidden_dropout));
    }
    Tensor forward(const Tensor& x) override { return (*dropout_)((*dense_)(x)); }
    Tensor forward(const Tensor& x, const Tensor& around) { return (*norm_)(forward(x) + around); }
    std::string type_name() const override { return "BertOutput"; }

  private:
    std::shared_ptr<nn::Linear> dense_;
    std::shared_ptr<nn::LayerNorm> norm_;
    std::shared_ptr<nn::Dropout> dropout_;
};

class Attention : public nn::Module {
  public:
    explicit Attention(const BertConfig& c) {
        self_ = register_module("self", nn::make<SelfAttention>(c));
        output_ = register_module("output", nn::make<SublayerOutput>(c.hidden_size, c));
    }
    Tensor forward(const Tensor& x) override { return forward(x, {}); }
    Tensor forward(const Tensor& x, const Tensor& mask) {
        return output_->forward(self_->forward(x, mask), x);
    }
    std::string type_name() const override { return "BertAttention"; }

  private:
    std::shared_ptr<SelfAttention> self_;
    std::shared_ptr<SublayerOutput> output_;
};

class Intermediate : public nn::Module {
  public:
    explicit Intermediate(const BertConfig& c) {
        dense_ = register_module("dense", dense(c.hidden_size, c.intermediate_size));
    }
    Tensor forward(const Tensor& x) override { return gelu((*dense_)(x)); }
    std::string type_name() const override { return "BertIntermediate"; }

  private:
    std::shared_ptr<nn::Linear> dense_;
};

class Layer : public nn::Module {
  public:
    explicit Layer(const BertConfig& c) {
        attention_ = register_module("attention", nn::make<Attention>(c));
        intermediate_ = register_module("intermediate", nn::make<Intermediate>(c));
        output_ = register_module("output", nn::make<SublayerOutput>(c.intermediate_size, c));
    }
    Tensor forward(const Tensor& x) override { return forward(x, {}); }
    Tensor forward(const Tensor& x, const Tensor& mask) {
        const Tensor y = attention_->forward(x, mask);
        return output_->forward((*intermediate_)(y), y);
    }
    std::string type_name() const override { return "BertLayer"; }

  private:
    std::shared_ptr<Attention> attention_;
    std::shared_ptr<Intermediate> intermediate_;
    std::shared_ptr<SublayerOutput> output_;
};

// Children named "0", "1", ... that take a mask too.
class Layers : public nn::Module {
  public:
    explicit Layers(const BertConfig& c) {
        for (std::int64_t i = 0; i < c.layers; ++i)
            layers_.push_back(register_module(std::to_string(i), nn::make<Layer>(c)));
    }
    Tensor forward(const Tensor& x) override { return forward(x, {}); }
    Tensor forward(const Tensor& x, const Tensor& mask) {
        Tensor y = x;
        for (const auto& layer : layers_)
            y = layer->forward(y, mask);
        return y;
    }
    std::string type_name() const override { return "ModuleList"; }

  private:
    std::vector<std::shared_ptr<Layer>> layers_;
};

// The encoder itself only holds its layers, under "layer".
class BertEncoder : public nn::Module {
  public:
    explicit BertEncoder(const BertConfig& c)
        : layers(register_module("layer", nn::make<Layers>(c))) {}
    Tensor forward(const Tensor& x) override { return (*layers)(x); }
    std::string type_name() const override { return "BertEncoder"; }
    std::shared_ptr<Layers> layers;
};

class Pooler : public nn::Module {
  public:
    explicit Pooler(const BertConfig& c) {
        dense_ = register_module("dense", dense(c.hidden_size, c.hidden_size));
    }
    Tensor forward(const Tensor& last_hidden) override {
        return tanh((*dense_)(last_hidden.index({Slice(), 0})));
    }
    std::string type_name() const override { return "BertPooler"; }

  private:
    std::shared_ptr<nn::Linear> dense_;
};

void check(const BertConfig& c) {
    if (c.hidden_size < 1 || c.heads < 1 || c.hidden_size % c.heads)
        throw ValueError(fmt::format("BERT: hidden_size {} must be a multiple of heads, {}",
                                     c.hidden_size, c.heads));
    if (c.vocab_size < 1 || c.max_positions < 1 || c.type_vocab_size < 1 || c.layers < 0)
        throw ValueError(
            fmt::format("BERT: vocab_size {}, max_positions {} and type_vocab_size {} "
                        "must be positive, layers {} not negative",
                        c.vocab_size, c.max_positions, c.type_vocab_size, c.layers));
    if (c.pad_token_id >= c.vocab_size)
        throw ValueError(fmt::format("BERT: pad_token_id {} is not below vocab_size {}",
                                     c.pad_token_id, c.vocab_size));
}

void check_like_ids(const char* what, const Tensor& t, const Tensor& ids) {
    if (t.defined() && !(t.shape() == ids.shape()))
        throw ValueError(fmt::format("BertModel: {} must have the shape of ids, {}, got {}", what,
                                     ids.shape().str(), t.shape().str()));
}

}  // namespace

BertModel::BertModel(const BertConfig& config) : config_(config) {
    check(config);
    embeddings_ = register_module("embeddings", nn::make<Embeddings>(config));
    encoder_ = register_module("encoder", nn::make<BertEncoder>(config));
    pooler_ = register_module("pooler", nn::make<Pooler>(config));
}

BertModel::Output BertModel::forward(const Tensor& ids, const Tensor& mask,
                                     const Tensor& token_types) {
    if (ids.dim() != 2)
        throw ValueError(fmt::format(
            "BertModel: expected token ids (N, L), got a tensor of shape {}", ids.shape().str()));
    const std::int64_t n = ids.size(0), length = ids.size(1);
    if (length > config_.max_positions)
        throw ValueError(fmt::format(
            "BertModel: {} tokens are more than max_positions, {}: shorten the sequences", length,
            config_.max_positions));
    check_like_ids("mask", mask, ids);
    check_like_ids("token_types", token_types, ids);
    Tensor keys;
    if (mask.defined()) keys = (mask != 0).reshape({n, 1, 1, length});
    Output out;
    out.last_hidden = static_cast<BertEncoder&>(*encoder_).layers->forward(
        static_cast<Embeddings&>(*embeddings_).forward(ids, token_types), keys);
    out.pooled = (*pooler_)(out.last_hidden);
    return out;
}

Tensor BertModel::forward(const Tensor& ids) { return forward(ids, {}, {}).last_hidden; }

BertModel::Output BertModel::operator()(const Tensor& ids, const Tensor& mask,
                                        const Tensor& token_types, Site site) {
    const SiteScope scope(site);
    return at_site(site, [&] { return forward(ids, mask, token_types); });
}

BertForSequenceClassification::BertForSequenceClassification(const BertConfig& config,
                                                             std::int64_t num_classes) {
    bert = register_module("bert", nn::make<BertModel>(config));
    dropout_ = register_module("dropout", nn::make<nn::Dropout>(config.hidden_dropout));
    classifier_ = register_module("classifier", dense(config.hidden_size, num_classes));
}

Tensor BertForSequenceClassification::forward(const Tensor& ids, const Tensor& mask,
                                              const Tensor& token_types) {
    return (*classifier_)((*dropout_)(bert->forward(ids, mask, token_types).pooled));
}

Tensor BertForSequenceClassification::forward(const Tensor& ids) { return forward(ids, {}, {}); }

Tensor BertForSequenceClassification::operator()(const Tensor& ids, const Tensor& mask,
                                                 const Tensor& token_types, Site site) {
    const SiteScope scope(site);
    return at_site(site, [&] { return forward(ids, mask, token_types); });
}

Tensor mean_pool(const Tensor& last_hidden, const Tensor& mask, Site site) {
    if (last_hidden.dim() != 3 || mask.dim() != 2 || mask.size(0) != last_hidden.size(0) ||
        mask.size(1) != last_hidden.size(1))
        throw ValueError(
            fmt::format("mean_pool: expected (N, L, hidden) and a mask (N, L), got {} "
                        "and {}",
                        last_hidden.shape().str(), mask.shape().str()));
    const Tensor counts = cast(Operand(mask, site) != 0, last_hidden.dtype()).unsqueeze(2);
    return (last_hidden * counts).sum({1}) / clamp(counts.sum({1}), 1e-9);
}

}  // namespace pippin::models
