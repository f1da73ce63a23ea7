#include "backends/gpu/text_key.h"

namespace pippin::gpu {

TextKey TextKey::of(std::string_view text) {
    // FNV-1a, twice from different starts: equal keys of different texts do not happen by chance.
    TextKey k{14695981039346656037u, 0x9E3779B97F4A7C15u};
    for (const char c : text) {
        k.a = (k.a ^ static_cast<unsigned char>(c)) * 1099511628211u;
        k.b = (k.b ^ static_cast<unsigned char>(c)) * 0xD6E8FEB86659FD93u;
        k.b ^= k.b >> 29;
    }
    return k;
}

}  // namespace pippin::gpu
