// config.json of a BERT.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "pippin/bert.h"

namespace pippin::models {

/// FileError as read_bert_config(); `path` is for errors.
BertConfig parse_bert_config(const nlohmann::json& root, const std::filesystem::path& path);

}  // namespace pippin::models
