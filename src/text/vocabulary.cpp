#include "text/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/file_error.h"
#include "io/utf8.h"

namespace pippin::text {

Vocabulary::Vocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
    ids_.reserve(tokens_.size());
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
        ids_[tokens_[i]] = static_cast<std::int64_t>(i);
        longest_ = std::max(longest_, tokens_[i].size());
    }
}

std::vector<std::string> parse_vocabulary(std::string_view text,
                                          const std::filesystem::path& path) {
    std::vector<std::string> tokens;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
        while (!line.empty() &&
               (line.back() == ' ' || (line.back() >= '\t' && line.back() <= '\r')))
            line.remove_suffix(1);
        if (!io::is_utf8(line))
            io::throw_file_error(path, fmt::format("line {} is not UTF-8", tokens.size() + 1));
        tokens.emplace_back(line);
    }
    if (tokens.empty()) io::throw_file_error(path, "is empty; a token a line was expected");
    return tokens;
}

}  // namespace pippin::text
