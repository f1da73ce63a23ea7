#include "backends/gpu/choice.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace pippin::gpu {
namespace {

constexpr std::array<std::string_view, 6> kNames{"default",  "product", "direct",
                                                 "winograd", "scores",  "one-pass"};

// A number and what follows it.
bool take(std::string_view& text, std::int64_t& n, char behind) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc{}) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (behind == 0) return text.empty();
    if (text.empty() || text[0] != behind) return false;
    text.remove_prefix(1);
    return true;
}

}  // namespace

ProductForm LaunchChoice::form_of(const ProductShape& shape) const {
    for (const auto& [s, form] : products)
        if (s == shape) return form;
    return {};
}

void LaunchChoice::set(const ProductShape& shape, const ProductForm& form) {
    for (auto& [s, f] : products)
        if (s == shape) {
            f = form;
            return;
        }
    products.emplace_back(shape, form);
}

std::string LaunchChoice::str() const {
    std::string out(kNames[static_cast<std::size_t>(algorithm)]);
    for (const auto& [s, f] : products)
        out += fmt::format(",{}x{}x{}x{}:{}/{}", s.batches, s.m, s.n, s.k, f.tile, f.splits);
    return out;
}

std::optional<LaunchChoice> LaunchChoice::parse(std::string_view text) {
    LaunchChoice c;
    const auto next = [&] {
        const std::string_view word = text.substr(0, text.find(','));
        text.remove_prefix(std::min(word.size() + 1, text.size()));
        return word;
    };
    const auto name = std::ranges::find(kNames, next());
    if (name == kNames.end()) return std::nullopt;
    c.algorithm = static_cast<Algorithm>(name - kNames.begin());
    while (!text.empty()) {
        std::string_view word = next();
        ProductShape s;
        std::int64_t tile = 0;
        ProductForm f;
        if (!take(word, s.batches, 'x') || !take(word, s.m, 'x') || !take(word, s.n, 'x') ||
            !take(word, s.k, ':') || !take(word, tile, '/') || !take(word, f.splits, 0))
            return std::nullopt;
        if (tile < -1 || tile > 1000 || f.splits < 0 || f.splits > 65536) return std::nullopt;
        f.tile = static_cast<int>(tile);
        c.products.emplace_back(s, f);
    }
    return c;
}

void Taken::add(const ProductShape& shape, const ProductForm& form, bool halves) {
    for (Product& p : products)
        if (p.shape == shape) {
            ++p.times;
            return;
        }
    products.push_back({shape, form, halves, 1});
}

}  // namespace pippin::gpu
