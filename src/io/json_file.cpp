#include "io/json_file.h"

#include <fmt/format.h>

#include "io/file_error.h"
#include "io/input_file.h"

namespace pippin::io {

nlohmann::json parse_json(std::string_view text, const std::filesystem::path& path) {
    constexpr int kMaxDepth = 100;
    bool too_deep = false;
    try {
        const auto callback = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
            if (depth > kMaxDepth) too_deep = true;
            return !too_deep;
        };
        nlohmann::json root = nlohmann::json::parse(text, callback);
        if (too_deep)
            throw_file_error(path, fmt::format("its JSON nests more than {} deep", kMaxDepth));
        return root;
    } catch (const nlohmann::json::exception& e) {
        // After the library's own prefix, which names its exception.
        const std::string_view what = e.what();
        const std::size_t from = what.find("] ");
        throw_file_error(path, fmt::format("is not valid JSON: {}",
                                           what.substr(from == what.npos ? 0 : from + 2, 300)));
    }
}

nlohmann::json read_json(const std::filesystem::path& path) {
    const std::vector<std::byte> file = read_file(path);
    return parse_json({reinterpret_cast<const char*>(file.data()), file.size()}, path);
}

}  // namespace pippin::io
