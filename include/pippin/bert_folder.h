// BERT from Hugging Face folders: config.json, the weights, the tokenizer's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "pippin/bert.h"
#include "pippin/text.h"
#include "pippin/weights.h"

namespace pippin::models {

/// Reads config.json. FileError where it is missing, malformed or of another kind of model, or asks
/// for what BertModel lacks (activations other than gelu, relative positions).
BertConfig read_bert_config(const std::filesystem::path& file);

/// BertModel with its weights, from a folder with config.json and one of the checkpoints that
/// io::load() takes. Checkpoints of whole tasks ("bert.encoder...") give their encoder, and older
/// ones (LayerNorm.gamma) load, too. A pooler that the file lacks keeps its initial values, as in
/// Hugging Face's library. ValueError where names or shapes do not fit.
std::shared_ptr<BertModel> load_bert(const std::filesystem::path& folder);
/// The same with a classifier on top, which has the file's values where these are for as many
/// classes, and else its initial ones.
std::shared_ptr<BertForSequenceClassification> load_bert_classifier(
    const std::filesystem::path& folder, std::int64_t num_classes);

}  // namespace pippin::models
