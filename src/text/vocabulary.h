// Tokens and their ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pippin::text {

class Vocabulary {
  public:
    Vocabulary() = default;
    /// A token that comes twice has the later id, as in Python's readers of such files.
    explicit Vocabulary(std::vector<std::string> tokens);

    std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
    std::optional<std::int64_t> id(std::string_view token) const {
        const auto found = ids_.find(token);
        if (found == ids_.end()) return std::nullopt;
        return found->second;
    }
    const std::string& token(std::int64_t id) const {
        return tokens_[static_cast<std::size_t>(id)];
    }
    /// Bytes of the longest token.
    std::size_t longest() const { return longest_; }

  private:
    std::vector<std::string> tokens_;  ///< the map's keys look into these
    std::unordered_map<std::string_view, std::int64_t> ids_;
    std::size_t longest_ = 0;

  public:
    Vocabulary(Vocabulary&&) = default;  // a vector's elements stay where they are when it moves
    Vocabulary& operator=(Vocabulary&&) = default;
    Vocabulary(const Vocabulary&) = delete;
    Vocabulary& operator=(const Vocabulary&) = delete;
};

/// The lines of vocab.txt, without blanks at their ends. FileError where it is empty or no UTF-8.
std::vector<std::string> parse_vocabulary(std::string_view text, const std::filesystem::path& path);

}  // namespace pippin::text
