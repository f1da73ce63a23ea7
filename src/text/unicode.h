// What a tokenizer asks of Unicode, from utf8proc's tables.
#pragma once

#include <string>
#include <string_view>

namespace pippin::text {

/// Unicode's property White_Space.
bool is_space(char32_t c);
/// Categories Cc, Cf and Co, but for tab, line feed and carriage return.
bool is_control(char32_t c);
/// Categories P*, and all of ASCII's printable characters that are no letter, digit or space.
bool is_punctuation(char32_t c);
/// The blocks of Chinese characters that BERT sets apart; not Hangul, Hiragana or Katakana.
bool is_chinese(char32_t c);
/// Category Mn: accents that stand on another character.
bool is_accent(char32_t c);

/// Characters of UTF-8 text; what is not UTF-8 becomes U+FFFD, one for each longest well-formed
/// beginning, as the Unicode standard recommends.
std::u32string decode(std::string_view text);
std::string encode(std::u32string_view text);

/// Normalization form D: accents apart from their letters, in canonical order.
std::u32string decompose(std::u32string_view text);
/// Each character's full lower-case mapping, without regard to its neighbours.
std::u32string lower(std::u32string_view text);

}  // namespace pippin::text
