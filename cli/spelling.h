// The nearest right spelling of a mistyped word.
#pragma once

#include <string>
#include <vector>

namespace pippin::cli {

/// The candidate with the fewest edits to `word` (Damerau and Levenshtein), or "" if even that one
/// is more than a third of the word away.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);
/// "; did you mean X?" or ""
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace pippin::cli
