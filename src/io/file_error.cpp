#include "io/file_error.h"

#include <fmt/format.h>

#include <system_error>

#include "pippin/error.h"

namespace pippin::io {

void throw_file_error(const std::filesystem::path& path, const std::string& what,
                      int system_error) {
    std::string message = fmt::format("{}: {}", path.string(), what);
    if (system_error != 0)
        message += ": " + std::error_code(system_error, std::generic_category()).message();
    throw FileError(message);
}

std::string in_quotes(std::string_view text) {
    constexpr std::size_t kLongest = 120;
    std::string out = "'";
    for (const char c : text.substr(0, kLongest)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f)
            out += fmt::format("\\x{:02x}", byte);
        else
            out += c;
    }
    if (text.size() > kLongest) out += fmt::format("... ({} bytes)", text.size());
    return out + "'";
}

}  // namespace pippin::io
