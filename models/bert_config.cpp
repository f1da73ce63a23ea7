#include "bert_config.h"

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "io/file_error.h"

namespace pippin::models {
namespace {

using nlohmann::json;

// Far above any BERT, and small enough that no product of two overflows.
constexpr std::int64_t kMaxSize = 1 << 24;

void read(const json& root, const char* key, std::int64_t lowest, std::int64_t& out,
          const std::filesystem::path& path) {
    const auto value = root.find(key);
    if (value == root.end() || value->is_null()) return;
    if (!value->is_number_integer() || *value < lowest || *value > kMaxSize)
        io::throw_file_error(path, fmt::format("its \"{}\" is {}; a whole number from {} to {} was "
                                               "expected",
                                               key, value->dump().substr(0, 40), lowest, kMaxSize));
    out = value->get<std::int64_t>();
}

void read(const json& root, const char* key, double below, double& out,
          const std::filesystem::path& path) {
    const auto value = root.find(key);
    if (value == root.end() || value->is_null()) return;
    const double number = value->is_number() ? value->get<double>() : -1;
    if (!(number >= 0 && number < below))
        io::throw_file_error(path, fmt::format("its \"{}\" is {}; a number from 0 to {} was "
                                               "expected",
                                               key, value->dump().substr(0, 40), below));
    out = number;
}

void expect(const json& root, const char* key, std::initializer_list<std::string_view> known,
            const std::filesystem::path& path) {
    const auto value = root.find(key);
    if (value == root.end() || value->is_null()) return;
    if (value->is_string())
        for (const std::string_view k : known)
            if (value->get_ref<const std::string&>() == k) return;
    io::throw_file_error(
        path, fmt::format("its \"{}\" is {}, but only {} is known here", key,
                          value->dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 40),
                          fmt::join(known, " or ")));
}

}  // namespace

BertConfig parse_bert_config(const json& root, const std::filesystem::path& path) {
    if (!root.is_object()) io::throw_file_error(path, "is no JSON object");
    expect(root, "model_type", {"bert"}, path);
    expect(root, "hidden_act", {"gelu"}, path);
    expect(root, "position_embedding_type", {"absolute"}, path);
    BertConfig c;
    read(root, "vocab_size", 1, c.vocab_size, path);
    read(root, "hidden_size", 1, c.hidden_size, path);
    read(root, "num_hidden_layers", 0, c.layers, path);
    read(root, "num_attention_heads", 1, c.heads, path);
    read(root, "intermediate_size", 1, c.intermediate_size, path);
    read(root, "max_position_embeddings", 1, c.max_positions, path);
    read(root, "type_vocab_size", 1, c.type_vocab_size, path);
    read(root, "pad_token_id", 0, c.pad_token_id, path);
    read(root, "layer_norm_eps", 1.0, c.layer_norm_eps, path);
    read(root, "hidden_dropout_prob", 1.0, c.hidden_dropout, path);
    read(root, "attention_probs_dropout_prob", 1.0, c.attention_dropout, path);
    if (c.hidden_size % c.heads != 0)
        io::throw_file_error(path, fmt::format("its hidden_size {} is no multiple of its {} heads",
                                               c.hidden_size, c.heads));
    return c;
}

}  // namespace pippin::models
