#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "io/utf8.h"

namespace pippin::text {
namespace {

utf8proc_category_t category(char32_t c) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

}  // namespace

bool is_space(char32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
    if (c == 0x85) return true;
    const utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}

bool is_control(char32_t c) {
    if (c == '\t' || c == '\n' || c == '\r') return false;
    const utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(char32_t c) {
    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
               (c >= 123 && c <= 126);
    const utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool is_chinese(char32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

bool is_accent(char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

std::u32string decode(std::string_view text) {
    std::u32string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const io::Decoded d = io::decode_utf8(text);
        out += d.code;
        text.remove_prefix(d.bytes);
    }
    return out;
}

std::string encode(std::u32string_view text) {
    std::string out;
    out.reserve(text.size());
    for (const char32_t c : text)
        io::append_utf8(out, c);
    return out;
}

std::u32string decompose(std::u32string_view text) {
    std::u32string out;
    out.reserve(text.size());
    std::vector<int> order;  // combining classes, as long as `out`
    for (const char32_t c : text) {
        utf8proc_int32_t parts[8];  // the longest canonical decomposition has 4
        int boundary = 0;
        const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 8,
                                               UTF8PROC_DECOMPOSE, &boundary);
        if (n < 0 || n > 8) throw std::logic_error("utf8proc cannot decompose a character");
        for (utf8proc_ssize_t i = 0; i < n; ++i) {
            out += static_cast<char32_t>(parts[i]);
            order.push_back(utf8proc_get_property(parts[i])->combining_class);
        }
    }
    // Canonical order: within a run of marks by class, stable.
    for (std::size_t from = 0; from < out.size();) {
        if (order[from] == 0) {
            ++from;
            continue;
        }
        std::size_t to = from;
        while (to < out.size() && order[to] != 0)
            ++to;
        std::vector<std::pair<int, char32_t>> run;
        for (std::size_t i = from; i < to; ++i)
            run.emplace_back(order[i], out[i]);
        std::ranges::stable_sort(run, {}, &std::pair<int, char32_t>::first);
        for (std::size_t i = from; i < to; ++i)
            out[i] = run[i - from].second;
        from = to;
    }
    return out;
}

std::u32string lower(std::u32string_view text) {
    std::u32string out;
    out.reserve(text.size());
    for (const char32_t c : text) {
        out += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
        if (c == 0x130) out += char32_t{0x307};  // the only letter whose lower case is two
    }
    return out;
}

}  // namespace pippin::text
