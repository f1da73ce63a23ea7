#include "backends/gpu/tuning_file.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "io/atomic_file.h"

namespace pippin::gpu {
namespace {

constexpr std::string_view kHead = "pippin tuning 1\n";  // changes when the format does

template <class T>
bool number(std::string_view text, T& n, int base = 10) {
    const auto [end, error] = [&] {
        if constexpr (std::is_floating_point_v<T>)
            return std::from_chars(text.data(), text.data() + text.size(), n);
        else
            return std::from_chars(text.data(), text.data() + text.size(), n, base);
    }();
    return error == std::errc{} && end == text.data() + text.size();
}

std::string hex(const TextKey& k) { return fmt::format("{:016x}{:016x}", k.a, k.b); }
bool parse(std::string_view text, TextKey& k) {
    return text.size() == 32 && number(text.substr(0, 16), k.a, 16) &&
           number(text.substr(16), k.b, 16);
}

}  // namespace

TuningFile::TuningFile(std::filesystem::path path, const TextKey& scope)
    : path_(std::move(path)), scope_(scope) {}

// scope, key, choice, microseconds of the default and of the choice, and a sum over all that.
std::string TuningFile::text_of(const Line& l) {
    const std::string text =
        fmt::format("{} {} {} {:.3f} {:.3f}", hex(l.scope), hex(l.key), l.tuned.choice.str(),
                    l.tuned.standard * 1e6, l.tuned.chosen * 1e6);
    return fmt::format("{} {:08x}\n", text, static_cast<std::uint32_t>(TextKey::of(text).a));
}

std::vector<TuningFile::Line> TuningFile::read() const {
    std::vector<Line> lines;
    std::ifstream in(path_, std::ios::binary | std::ios::ate);
    if (path_.empty() || !in || in.tellg() < 0 || static_cast<std::size_t>(in.tellg()) > kMostBytes)
        return lines;
    std::string text(static_cast<std::size_t>(in.tellg()), '\0');
    in.seekg(0);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!in || !text.starts_with(kHead)) return lines;
    std::string_view rest = std::string_view(text).substr(kHead.size());
    while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        std::vector<std::string_view> words;
        for (std::string_view w = line; !w.empty();) {
            words.push_back(w.substr(0, w.find(' ')));
            w.remove_prefix(std::min(words.back().size() + 1, w.size()));
        }
        if (words.size() != 6) continue;
        const std::string_view all = line.substr(0, line.size() - words[5].size() - 1);
        Line l;
        std::uint32_t sum = 0;
        const auto choice = LaunchChoice::parse(words[2]);
        if (!number(words[5], sum, 16) || sum != static_cast<std::uint32_t>(TextKey::of(all).a) ||
            !parse(words[0], l.scope) || !parse(words[1], l.key) || !choice ||
            !number(words[3], l.tuned.standard) || !number(words[4], l.tuned.chosen))
            continue;
        l.tuned.choice = *choice;
        l.tuned.standard /= 1e6;
        l.tuned.chosen /= 1e6;
        lines.push_back(std::move(l));
    }
    return lines;
}

std::map<TextKey, Tuned> TuningFile::load() const {
    std::map<TextKey, Tuned> known;
    for (Line& l : read())
        if (l.scope == scope_) known[l.key] = std::move(l.tuned);
    return known;
}

void TuningFile::add(const std::map<TextKey, Tuned>& found) const {
    if (path_.empty() || found.empty()) return;
    try {
        std::filesystem::create_directories(path_.parent_path());
        io::AtomicFile file(path_);  // others wait from here on
        std::vector<Line> lines = read();
        std::erase_if(lines,
                      [&](const Line& l) { return l.scope == scope_ && found.contains(l.key); });
        for (const auto& [key, tuned] : found)
            lines.push_back({scope_, key, tuned});
        std::ranges::stable_sort(lines, {}, [&](const Line& l) { return l.scope == scope_; });
        std::size_t first = lines.size() > kMostLines ? lines.size() - kMostLines : 0;
        std::vector<std::string> texts;
        std::size_t bytes = kHead.size();
        for (std::size_t k = lines.size(); k-- > first;) {
            texts.push_back(text_of(lines[k]));
            bytes += texts.back().size();
            if (bytes > kMostBytes) {
                texts.pop_back();
                break;
            }
        }
        file.write(kHead.data(), kHead.size());
        for (std::size_t k = texts.size(); k-- > 0;)
            file.write(texts[k].data(), texts[k].size());
        file.commit();
    } catch (const std::exception&) {  // a folder that cannot be written to, a full disk
    }
}

}  // namespace pippin::gpu
