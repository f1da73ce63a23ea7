// tokenizer_config.json and tokenizer.json of a Hugging Face folder.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pippin/text.h"

namespace pippin::text {

struct TokenizerSettings {
    WordPieceOptions options;
    std::int64_t model_max_length = 512;
    std::vector<std::string> tokens;   ///< tokenizer.json's vocabulary
    std::vector<std::string> special;  ///< further tokens that stand for themselves in a text
};

/// Each overwrites what it speaks of. FileError where a value has the wrong type or belongs to
/// another kind of tokenizer. `path` is for errors.
void read_tokenizer_json(const nlohmann::json& root, const std::filesystem::path& path,
                         TokenizerSettings& settings);
void read_tokenizer_config(const nlohmann::json& root, const std::filesystem::path& path,
                           TokenizerSettings& settings);

}  // namespace pippin::text
