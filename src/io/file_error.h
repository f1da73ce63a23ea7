// How file errors are worded: "<path>: <what>[: <the system's reason>]".
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace pippin::io {

/// Throws FileError. `system_error` is an errno value, 0 for none.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, const std::string& what,
                                   int system_error = 0);

/// Text from a file, fit for a message: quoted, control characters escaped, cut when long.
std::string in_quotes(std::string_view text);

}  // namespace pippin::io
