// model.safetensors.index.json: which file holds which tensor.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace pippin::io {

/// Shard file by tensor name.
using ShardIndex = std::map<std::string, std::string>;

/// FileError where the text is no JSON, has no "weight_map" of names to names, or names a file that
/// is not below the index's folder. `path` is for errors.
ShardIndex parse_shard_index(std::string_view text, const std::filesystem::path& path);

}  // namespace pippin::io
