#include "pippin/image.h"

#include <fmt/format.h>

#include "data/image_codecs.h"
#include "io/file_error.h"
#include "io/input_file.h"

namespace pippin::data {
namespace {

bool begins_with(std::span<const std::byte> file, std::initializer_list<unsigned> magic) {
    if (file.size() < magic.size()) return false;
    std::size_t i = 0;
    for (const unsigned m : magic)
        if (file[i++] != std::byte{static_cast<unsigned char>(m)}) return false;
    return true;
}

}  // namespace

Image make_decoded_image(std::uint64_t height, std::uint64_t width, const std::string& name) {
    constexpr std::uint64_t kMaxPixels = 178'956'970;
    if (height == 0 || width == 0 || height > kMaxPixels / width)
        io::throw_file_error(name, fmt::format("has {}x{} pixels; 1 to {} in all are allowed",
                                               width, height, kMaxPixels));
    return Image(static_cast<std::int64_t>(height), static_cast<std::int64_t>(width), 3);
}

Image decode_image(std::span<const std::byte> file, const std::string& name) {
    if (begins_with(file, {0xff, 0xd8})) return decode_jpeg(file, name);
    if (begins_with(file, {0x89, 'P', 'N', 'G'})) return decode_png(file, name);
    io::throw_file_error(name, file.empty() ? "is empty" : "is neither a JPEG nor a PNG image");
}

Image read_image(const std::filesystem::path& path) {
    const std::vector<std::byte> file = io::read_file(path);
    return decode_image(file, path.string());
}

}  // namespace pippin::data
