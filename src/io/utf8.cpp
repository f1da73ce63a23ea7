#include "io/utf8.h"

namespace pippin::io {

Decoded decode_utf8(std::string_view text) {
    const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned lead = at(0);
    if (lead < 0x80) return {lead, 1, true};
    if (lead < 0xc2 || lead > 0xf4) return {};
    const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    // The second byte's range is what rules out overlong forms, surrogates and too large codes.
    const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    char32_t code = lead & (0x7fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if (i >= text.size() || at(i) < (i == 1 ? low : 0x80) || at(i) > (i == 1 ? high : 0xbf))
            return {kReplacement, i, false};
        code = code << 6 | (at(i) & 0x3fu);
    }
    return {code, length, true};
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const Decoded d = decode_utf8(text);
        if (!d.valid) return false;
        text.remove_prefix(d.bytes);
    }
    return true;
}

void append_utf8(std::string& out, char32_t code) {
    const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xc0 | code >> 6);
        put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        put(0xe0 | code >> 12);
        put(0x80 | (code >> 6 & 0x3f));
        put(0x80 | (code & 0x3f));
    } else {
        put(0xf0 | code >> 18);
        put(0x80 | (code >> 12 & 0x3f));
        put(0x80 | (code >> 6 & 0x3f));
        put(0x80 | (code & 0x3f));
    }
}

}  // namespace pippin::io
