// JSON from files that nobody vouches for.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace pippin::io {

/// FileError with the byte where it stops being JSON, or where it nests too deeply.
nlohmann::json parse_json(std::string_view text, const std::filesystem::path& path);
/// The same from a file.
nlohmann::json read_json(const std::filesystem::path& path);

}  // namespace pippin::io
