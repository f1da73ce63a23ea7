// What a file is, by its first bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pippin::io {

enum class FileKind : std::uint8_t { Unknown, Empty, SafeTensors, Zip, LegacyTorch, Json };

FileKind kind_of(std::span<const std::byte> file);

}  // namespace pippin::io
