// Pictures as bytes, read from JPEG and PNG files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace pippin::data {

/// 8-bit pixels, row-major (height, width, channels); 1 channel is gray, 3 are red, green and blue.
struct Image {
    std::int64_t height = 0, width = 0, channels = 0;
    std::vector<std::uint8_t> pixels;

    Image() = default;
    /// Black.
    Image(std::int64_t height_, std::int64_t width_, std::int64_t channels_)
        : height(height_),
          width(width_),
          channels(channels_),
          pixels(static_cast<std::size_t>(height_ * width_ * channels_)) {}
    std::uint8_t& at(std::int64_t y, std::int64_t x, std::int64_t c) {
        return pixels[static_cast<std::size_t>((y * width + x) * channels + c)];
    }
    std::uint8_t at(std::int64_t y, std::int64_t x, std::int64_t c) const {
        return pixels[static_cast<std::size_t>((y * width + x) * channels + c)];
    }
};

/// Reads a JPEG or PNG file, told apart by content, always to 3 channels: gray is repeated, CMYK
/// converted, a palette looked up, alpha dropped, 16 bits reduced to 8. FileError when the file is
/// missing, is neither, is truncated or corrupt, or has more than 179 million pixels. Orientation
/// tags are not applied.
Image read_image(const std::filesystem::path& path);

/// The same from memory; `name` stands for the path in errors.
Image decode_image(std::span<const std::byte> file, const std::string& name);

/// Writes a JPEG of a gray or RGB image. quality: 1 (smallest) to 100.
void write_jpeg(const std::filesystem::path& path, const Image& image, int quality = 90);

}  // namespace pippin::data
