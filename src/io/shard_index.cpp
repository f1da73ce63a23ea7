#include "io/shard_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/file_error.h"
#include "io/json_file.h"

namespace pippin::io {
namespace {

// Links are followed, since caches of downloads are made of them; names that climb are not.
bool stays_inside(const std::string& file) {
    const std::filesystem::path path(file);
    return !file.empty() && file.find('\0') == std::string::npos && !path.is_absolute() &&
           path.has_filename() &&
           std::ranges::none_of(path, [](const auto& part) { return part == ".."; });
}

}  // namespace

ShardIndex parse_shard_index(std::string_view text, const std::filesystem::path& path) {
    const nlohmann::json root = parse_json(text, path);
    const auto map = root.find("weight_map");
    if (!root.is_object() || map == root.end() || !map->is_object())
        throw_file_error(path, "is no index of shards: it has no \"weight_map\" of names");
    ShardIndex index;
    for (const auto& [name, file] : map->items()) {
        if (!file.is_string())
            throw_file_error(path, fmt::format("tensor {} has no file name", in_quotes(name)));
        if (!stays_inside(file.get_ref<const std::string&>()))
            throw_file_error(
                path, fmt::format("tensor {} is said to lie in {}, which is not in "
                                  "the index's folder",
                                  in_quotes(name), in_quotes(file.get_ref<const std::string&>())));
        index.emplace(name, file.get<std::string>());
    }
    return index;
}

}  // namespace pippin::io
