#include "pippin/bert_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "bert_config.h"
#include "io/json_file.h"

namespace pippin::models {
namespace {

namespace fs = std::filesystem;

bool any_begins(const io::NamedTensors& tensors, std::string_view prefix) {
    return std::ranges::any_of(tensors, [&](const auto& e) { return e.first.starts_with(prefix); });
}

// As the first BERT checkpoints, converted from TensorFlow, name the norms.
void rename_end(std::string& name, std::string_view from, std::string_view to) {
    if (name.ends_with(from)) name.replace(name.size() - from.size(), from.size(), to);
}

io::NamedTensors read_tensors(const fs::path& folder) {
    io::NamedTensors tensors = io::load(folder);
    for (auto& entry : tensors) {
        rename_end(entry.first, "LayerNorm.gamma", "LayerNorm.weight");
        rename_end(entry.first, "LayerNorm.beta", "LayerNorm.bias");
    }
    return tensors;
}

void load_encoder(BertModel& model, const io::NamedTensors& tensors, const fs::path& folder) {
    const io::NamedTensors encoder =
        any_begins(tensors, "bert.") ? io::select(tensors, "bert") : tensors;
    // A constant that older versions saved; other tasks' heads stand beside the encoder.
    LoadOptions options{.ignore = {"embeddings.position_ids"}};
    if (!any_begins(encoder, "pooler.")) options.ignore.emplace_back("pooler.");
    load_weights(model, encoder, options, folder.string());
}

}  // namespace

BertConfig read_bert_config(const fs::path& file) {
    return parse_bert_config(io::read_json(file), file);
}

std::shared_ptr<BertModel> load_bert(const fs::path& folder) {
    auto model = std::make_shared<BertModel>(read_bert_config(folder / "config.json"));
    load_encoder(*model, read_tensors(folder), folder);
    return model;
}

std::shared_ptr<BertForSequenceClassification> load_bert_classifier(const fs::path& folder,
                                                                    std::int64_t num_classes) {
    auto model = std::make_shared<BertForSequenceClassification>(
        read_bert_config(folder / "config.json"), num_classes);
    const io::NamedTensors tensors = read_tensors(folder);
    load_encoder(*model->bert, tensors, folder);
    // Another number of classes means another task: then the new head stays.
    const nn::Module::Named own = model->state_dict();
    nn::Module::Named head;
    for (const auto& [name, tensor] : tensors)
        for (const auto& [own_name, own_tensor] : own)
            if (name.starts_with("classifier.") && name == own_name &&
                tensor.shape() == own_tensor.shape())
                head.emplace_back(name, tensor);
    if (head.size() == 2) model->load_state_dict(head, false);
    return model;
}

}  // namespace pippin::models
