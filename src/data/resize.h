// Resizing a window of an image.
#pragma once

#include <cstdint>

#include "pippin/image.h"

namespace pippin::data {

struct Window {
    std::int64_t top, left, height, width;
};

/// The window, which lies within the image, bilinearly resized; pixels outside of it have no
/// influence.
Image resize(const Image& image, Window window, std::int64_t height, std::int64_t width);

}  // namespace pippin::data
