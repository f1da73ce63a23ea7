#include "pippin/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace pippin {
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

// "a, b or c"
static std::string one_of_text(const std::vector<std::string>& words) {
    std::string out;
    for (std::size_t i = 0; i < words.size(); ++i)
        out += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
    return out;
}

std::string plain_fault(const std::string& message) {
    if (const auto at = message.find(" was given a disallowed flag override");
        at != std::string::npos)
        return "--" + message.substr(message.find_first_not_of('-'), at) + " takes no value";
    if (const auto at = message.find(": 1 required ");
        at != std::string::npos && message.find(" missing") != std::string::npos)
        return message.substr(0, at) + ": its value is missing";
    const auto colon = message.find(": ");
    if (colon == std::string::npos) return message;
    const std::string name = message.substr(0, colon), what = message.substr(colon + 2);
    if (const auto at = what.find(" not in {"); at != std::string::npos && what.back() == '}') {
        const std::string word = what.substr(0, at);
        std::istringstream list(what.substr(at + 9, what.size() - at - 10));
        std::vector<std::string> words;
        for (std::string w; std::getline(list, w, ',');)
            words.push_back(w);
        return fmt::format("{}: expected {}, got {}{}", name, one_of_text(words), word,
                           suggestion(word, words));
    }
    const std::string value = "Value ", range = " not in range ", to = " to ";
    const auto at = what.find(range);
    if (what.rfind(value, 0) == 0 && at != std::string::npos) {
        const std::string got = what.substr(value.size(), at - value.size());
        const std::string limits = what.substr(at + range.size());
        const double low = std::atof(limits.c_str());
        const double high = std::atof(limits.substr(limits.find(to) + to.size()).c_str());
        // CLI11's positive numbers run from the smallest to the largest that there are.
        if (high > 1e18 || high >= 2147483647)
            return fmt::format("{}: expected a number {}, got {}", name,
                               low <= 0 || low < 1e-300 ? "above 0" : fmt::format("from {:g}", low),
                               got);
        return fmt::format("{}: expected a number from {:.10g} to {:.10g}, got {}", name, low, high,
                           got);
    }
    const std::string convert = "Could not convert", equals = " = ";
    if (name == convert && what.find(equals) != std::string::npos)
        return fmt::format("{}: cannot take \"{}\"", what.substr(0, what.find(equals)),
                           what.substr(what.find(equals) + equals.size()));
    return message;
}

}  // namespace pippin
