// UTF-8, decoded with every fault seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pippin::io {

inline constexpr char32_t kReplacement = 0xfffd;

struct Decoded {
    char32_t code = kReplacement;
    std::size_t bytes = 1;  ///< how far to go on; for a fault, its longest well-formed beginning
    bool valid = false;
};

/// The character at the start of `text`, which is not empty. Overlong forms, surrogates and what
/// lies above U+10FFFF are faults, as Unicode's section 3.9 has it.
Decoded decode_utf8(std::string_view text);
bool is_utf8(std::string_view text);
void append_utf8(std::string& out, char32_t code);

}  // namespace pippin::io
