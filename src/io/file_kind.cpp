#include "io/file_kind.h"

#include <algorithm>
#include <initializer_list>

namespace pippin::io {
namespace {

bool has_at(std::span<const std::byte> file, std::size_t at, std::initializer_list<int> bytes) {
    return file.size() >= at + bytes.size() &&
           std::ranges::equal(file.subspan(at, bytes.size()), bytes, {},
                              [](std::byte b) { return std::to_integer<int>(b); });
}

}  // namespace

FileKind kind_of(std::span<const std::byte> file) {
    if (file.empty()) return FileKind::Empty;
    if (has_at(file, 0, {'P', 'K', 3, 4})) return FileKind::Zip;
    // A pickle of the number 0x1950a86a20f9469cfc6c, or a tar archive (the oldest form).
    if (has_at(file, 0, {0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46}) ||
        has_at(file, 257, {'u', 's', 't', 'a', 'r'}))
        return FileKind::LegacyTorch;
    // The length of a safetensors header is 8 bytes, of which the last are 0.
    if (has_at(file, 8, {'{'}) && has_at(file, 6, {0, 0})) return FileKind::SafeTensors;
    const auto first = std::ranges::find_if(file.first(std::min<std::size_t>(file.size(), 64)),
                                            [](std::byte b) { return b > std::byte{' '}; });
    if (*first == std::byte{'{'}) return FileKind::Json;
    return FileKind::Unknown;
}

}  // namespace pippin::io
