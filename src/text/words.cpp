#include "text/words.h"

#include "text/unicode.h"

namespace pippin::text {
namespace {

std::u32string clean(std::u32string_view text) {
    std::u32string out;
    out.reserve(text.size());
    for (const char32_t c : text)
        if (c != 0 && c != 0xfffd && !is_control(c)) out += is_space(c) ? U' ' : c;
    return out;
}

std::u32string set_chinese_apart(std::u32string_view text) {
    std::u32string out;
    out.reserve(text.size());
    for (const char32_t c : text) {
        if (is_chinese(c)) {
            out += U' ';
            out += c;
            out += U' ';
        } else {
            out += c;
        }
    }
    return out;
}

}  // namespace

void for_each_word(std::string_view text, const WordPieceOptions& options,
                   const std::function<void(std::u32string_view)>& visit) {
    std::u32string s = decode(text);
    if (options.clean_text) s = clean(s);
    if (options.chinese_chars) s = set_chinese_apart(s);
    if (options.strip_accents.value_or(options.lower_case)) {
        s = decompose(s);
        std::erase_if(s, is_accent);
    }
    if (options.lower_case) s = lower(s);

    const std::u32string_view all = s;
    std::size_t from = 0;
    const auto end_word = [&](std::size_t to) {
        if (to > from) visit(all.substr(from, to - from));
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
        const bool space = is_space(all[i]);
        if (!space && !is_punctuation(all[i])) continue;
        end_word(i);
        if (!space) visit(all.substr(i, 1));
        from = i + 1;
    }
    end_word(all.size());
}

}  // namespace pippin::text
