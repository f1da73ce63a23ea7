// The two image formats. `name` stands for the path in errors, which are FileErrors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "pippin/image.h"

namespace pippin::data {

/// An empty image; FileError for more pixels than Pillow takes (a small file can claim any size).
Image make_decoded_image(std::uint64_t height, std::uint64_t width, const std::string& name);

Image decode_jpeg(std::span<const std::byte> file, const std::string& name);
Image decode_png(std::span<const std::byte> file, const std::string& name);

}  // namespace pippin::data
