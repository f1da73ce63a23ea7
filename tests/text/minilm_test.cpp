// A real checkpoint: all-MiniLM-L6-v2 embeds as the reference does, and fine-tunes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "pippin/bert_folder.h"
#include "pippin/optim.h"
#include "pippin/random.h"

namespace pippin {
namespace {

namespace fs = std::filesystem;
using namespace test;

fs::path checkpoint() {
    const char* folder = std::getenv("PIPPIN_MINILM");
    return folder ? fs::path(folder) : fs::path(PIPPIN_SOURCE_DIR "/build/minilm");
}

#define NEEDS_CHECKPOINT()                                                      \
    if (!fs::exists(checkpoint() / "model.safetensors"))                        \
    GTEST_SKIP() << checkpoint()                                                \
                 << " has no checkpoint: tools/fetch_minilm.sh fetches it (or " \
                    "PIPPIN_MINILM names its folder)"

TEST(MiniLM, EmbedsAsTheReference) {
    NEEDS_CHECKPOINT();
    const auto tokenizer = text::WordPiece::from_folder(checkpoint());
    const auto model = models::load_bert(checkpoint());
    model->eval();
    const io::SafeTensors reference =
        io::load_safetensors(PIPPIN_FIXTURES "/text/minilm.safetensors");
    const auto sentences =
        nlohmann::json::parse(reference.metadata().at("sentences")).get<std::vector<std::string>>();
    const text::TokenBatch batch = tokenizer.batch(sentences, {.max_length = 128});
    EXPECT_EQ(batch.input_ids.to_vector<std::int64_t>(),
              reference.tensor("input_ids").to_vector<std::int64_t>());
    const NoGrad no_grad;
    const Tensor hidden =
        (*model)(batch.input_ids, batch.attention_mask, batch.token_type_ids).last_hidden;
    const Tensor pooled = models::mean_pool(hidden, batch.attention_mask);
    const Tensor vectors = pooled / (pooled * pooled).sum({1}, true).sqrt();
    const std::vector<float> cosines =
        (vectors * reference.tensor("vectors")).sum({1}).to_vector<float>();
    for (std::size_t i = 0; i < sentences.size(); ++i)
        EXPECT_GT(cosines[i], 0.9999) << sentences[i];
}

TEST(MiniLM, FineTunes) {
    NEEDS_CHECKPOINT();
    manual_seed(1);
    const auto tokenizer = text::WordPiece::from_folder(checkpoint());
    const auto model = models::load_bert_classifier(checkpoint(), 2);
    const std::vector<std::string> texts = {
        "What a wonderful day", "This is terrible", "I love it", "I hate it",
        "Great work",           "An awful mess"};
    const Tensor labels = tensor(std::vector<std::int64_t>{1, 0, 1, 0, 1, 0});
    const text::TokenBatch batch = tokenizer.batch(texts);
    optim::AdamW optimizer(model->parameters(), {.lr = 1e-4});
    std::vector<float> losses;
    for (int step = 0; step < 12; ++step) {
        const Tensor loss = cross_entropy(
            (*model)(batch.input_ids, batch.attention_mask, batch.token_type_ids), labels);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        losses.push_back(loss.item<float>());
    }
    EXPECT_LT(losses.back(), losses.front() / 2);
}

// The folder of a small BERT: what every build can test.
struct Folder : TempFolder {
    nlohmann::json config = {
        {"model_type", "bert"},         {"vocab_size", 20},         {"hidden_size", 8},
        {"num_hidden_layers", 1},       {"num_attention_heads", 2}, {"intermediate_size", 16},
        {"max_position_embeddings", 12}};
    void write_config() const { write_text(*this / "config.json", config.dump()); }
    Folder() { write_config(); }
};

Tensor logits_of(nn::Module& m) { return m(tensor(std::vector<std::int64_t>{1, 2, 3}, {1, 3})); }

TEST(BertFolder, EncodersAndClassifiers) {
    const Folder folder;
    const auto config = models::read_bert_config(folder / "config.json");
    EXPECT_EQ(config.heads, 2);
    models::BertForSequenceClassification saved(config, 3);
    saved.eval();
    io::save_sharded(folder.path(), saved.state_dict(), 500);
    const auto same = models::load_bert_classifier(folder.path(), 3);
    same->eval();
    EXPECT_EQ(logits_of(*same).to_vector<float>(), logits_of(saved).to_vector<float>());
    const auto other = models::load_bert_classifier(folder.path(), 5);
    EXPECT_EQ(logits_of(*other).shape(), (Shape{1, 5}));
    const auto encoder = models::load_bert(folder.path());
    encoder->eval();
    EXPECT_EQ(logits_of(*encoder).to_vector<float>(), logits_of(*saved.bert).to_vector<float>());

    // An encoder alone, with the old names, a saved constant and no pooler.
    io::NamedTensors old;
    for (auto [name, tensor] : saved.bert->state_dict()) {
        if (name.starts_with("pooler.")) continue;
        if (name.ends_with("LayerNorm.weight")) name.replace(name.size() - 6, 6, "gamma");
        if (name.ends_with("LayerNorm.bias")) name.replace(name.size() - 4, 4, "beta");
        old.emplace_back(name, tensor);
    }
    old.emplace_back("embeddings.position_ids", zeros({1, 12}, int64));
    io::save_sharded(folder.path(), old);
    const auto loaded = models::load_bert(folder.path());
    loaded->eval();
    EXPECT_EQ(logits_of(*loaded).to_vector<float>(), logits_of(*saved.bert).to_vector<float>());
    old.pop_back();
    old.erase(old.begin());
    io::save_sharded(folder.path(), old);
    EXPECT_ERROR(models::load_bert(folder.path()), ValueError, folder.path().string(),
                 "missing: \"embeddings.word_embeddings.weight\"");
}

TEST(BertFolder, Configurations) {
    Folder folder;
    const auto refused = [&](const char* key, const nlohmann::json& value, const char* message) {
        const nlohmann::json before = folder.config;
        folder.config[key] = value;
        folder.write_config();
        folder.config = before;
        return throws<FileError>([&] { models::read_bert_config(folder / "config.json"); },
                                 {"config.json", key, message});
    };
    EXPECT_TRUE(refused("model_type", "roberta", "roberta"));
    EXPECT_TRUE(refused("hidden_act", "relu", "only gelu"));
    EXPECT_TRUE(refused("position_embedding_type", "relative_key", "only absolute"));
    EXPECT_TRUE(refused("hidden_size", 0, "whole number"));
    EXPECT_TRUE(refused("hidden_size", 9, "no multiple"));
    EXPECT_TRUE(refused("vocab_size", 1e9, "whole number"));
    EXPECT_TRUE(refused("vocab_size", "many", "whole number"));
    EXPECT_TRUE(refused("hidden_dropout_prob", 1, "a number"));
    EXPECT_ERROR(models::read_bert_config(folder / "none.json"), FileError, "cannot open");
}

}  // namespace
}  // namespace pippin
