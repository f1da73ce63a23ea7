// BERT (Devlin et al. 2019) under Hugging Face's names, so that its checkpoints load.
#pragma once

#include <memory>

#include "pippin/nn.h"

namespace pippin::models {

struct BertConfig {
    std::int64_t vocab_size = 30522, hidden_size = 768, layers = 12, heads = 12,
                 intermediate_size = 3072, max_positions = 512, type_vocab_size = 2,
                 pad_token_id = 0;  ///< its word embedding has no gradient
    double layer_norm_eps = 1e-12;
    double hidden_dropout = 0.1, attention_dropout = 0.1;
    static BertConfig base() { return {}; }
    /// The shape of all-MiniLM-L6-v2 (Wang et al. 2020).
    static BertConfig minilm() {
        BertConfig c;
        c.hidden_size = 384, c.layers = 6, c.intermediate_size = 1536;
        return c;
    }
};

/// The encoder with its pooler. Tokens are int64 ids (N, L), L at most max_positions. `mask` (N,
/// L), of any dtype, is not 0 where a token counts; undefined: all count. `token_types` are int64
/// (N, L); undefined: all 0. ValueError for other shapes.
class BertModel : public nn::Module {
  public:
    explicit BertModel(const BertConfig& config = {});
    struct Output {
        Tensor last_hidden;  ///< (N, L, hidden)
        Tensor pooled;       ///< (N, hidden): tanh of a linear layer on the first token
    };
    Output operator()(const Tensor& ids, const Tensor& mask = {}, const Tensor& token_types = {},
                      Site site = Site::current());
    /// last_hidden of ids alone: what a Module& gives.
    Tensor forward(const Tensor& ids) override;
    Output forward(const Tensor& ids, const Tensor& mask, const Tensor& token_types);
    std::string type_name() const override { return "BertModel"; }
    const BertConfig& config() const { return config_; }

  private:
    BertConfig config_;
    nn::ModulePtr embeddings_, encoder_, pooler_;
};

/// BertModel ("bert."), dropout and a linear layer ("classifier") on the pooled output: logits
/// (N, num_classes).
class BertForSequenceClassification : public nn::Module {
  public:
    explicit BertForSequenceClassification(const BertConfig& config = {},
                                           std::int64_t num_classes = 2);
    Tensor operator()(const Tensor& ids, const Tensor& mask = {}, const Tensor& token_types = {},
                      Site site = Site::current());
    Tensor forward(const Tensor& ids) override;
    Tensor forward(const Tensor& ids, const Tensor& mask, const Tensor& token_types);
    std::string type_name() const override { return "BertForSequenceClassification"; }

    std::shared_ptr<BertModel> bert;

  private:
    std::shared_ptr<nn::Dropout> dropout_;
    std::shared_ptr<nn::Linear> classifier_;
};

/// The mean over the tokens that count, (N, hidden): what sentence-transformers makes of
/// last_hidden. Scale it to length 1 for cosines. A sentence without tokens has zeros.
Tensor mean_pool(const Tensor& last_hidden, const Tensor& mask, Site site = Site::current());

}  // namespace pippin::models
