#include "spelling.h"

#include <algorithm>

namespace pippin::cli {
namespace {

// Insertions, deletions, changes and swaps of neighbours.
std::size_t edits(const std::string& a, const std::string& b) {
    const std::size_t n = b.size() + 1;
    std::vector<std::size_t> before(n), last(n), row(n);
    for (std::size_t j = 0; j < n; ++j)
        last[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j < n; ++j) {
            row[j] = std::min(
                {last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        before = last;
        last = row;
    }
    return last[n - 1];
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
    std::string best;
    std::size_t fewest = std::max<std::size_t>(word.size() / 3, 1) + 1;
    for (const std::string& c : candidates)
        if (const std::size_t n = edits(word, c); n < fewest) {
            fewest = n;
            best = c;
        }
    return best;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
    const std::string best = nearest(word, candidates);
    return best.empty() ? "" : "; did you mean " + best + "?";
}

}  // namespace pippin::cli
