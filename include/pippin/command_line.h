// What programs say of a mistyped command line, and of failures.
#pragma once

#include <string>
#include <vector>

namespace pippin {

/// The candidate with the fewest edits to `word` (Damerau and Levenshtein), or "" if even that one
/// is more than a third of the word away.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);
/// "; did you mean X?" or ""
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

/// A message of the CLI11 library in plain words: "--mode: tain not in {train,eval}" becomes
/// "--mode: expected train or eval, got tain; did you mean train?" Other texts stay as they are.
std::string plain_fault(const std::string& message);

/// "[rank 1] " where this is one of several processes, so that each line of an error says whose it
/// is; "" where it is alone.
std::string rank_label();

}  // namespace pippin
