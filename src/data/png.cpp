// PNG through libpng. Its errors leave by longjmp, so no function between setjmp and the library
// holds anything with a destructor; objects that own memory live in the callers.
#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "data/image_codecs.h"
#include "io/file_error.h"

namespace pippin::data {
namespace {

struct Decoder {
    std::span<const std::byte> left;
    char message[200] = "";
    png_structp png = nullptr;
    png_infop info = nullptr;

    ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }

    static void on_error(png_structp png, png_const_charp text) {
        auto* self = static_cast<Decoder*>(png_get_error_ptr(png));
        std::strncpy(self->message, text, sizeof self->message - 1);
        png_longjmp(png, 1);
    }
    static void on_warning(png_structp, png_const_charp) {}
    static void on_read(png_structp png, png_bytep to, std::size_t bytes) {
        auto* self = static_cast<Decoder*>(png_get_io_ptr(png));
        if (bytes > self->left.size()) png_error(png, "the file ends too early");
        std::memcpy(to, self->left.data(), bytes);
        self->left = self->left.subspan(bytes);
    }

    bool begin() {
        png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
        if (!png) {
            std::strncpy(message, "out of memory", sizeof message - 1);
            return false;
        }
        if (setjmp(png_jmpbuf(png))) return false;
        info = png_create_info_struct(png);
        if (!info) png_error(png, "out of memory");
        png_set_read_fn(png, this, on_read);
        png_read_info(png, info);
        // Whatever it is becomes 8-bit RGB. Alpha is dropped and not blended, as Pillow's
        // convert("RGB") does.
        png_set_palette_to_rgb(png);
        png_set_expand_gray_1_2_4_to_8(png);
        png_set_scale_16(png);
        png_set_gray_to_rgb(png);
        png_set_strip_alpha(png);
        png_set_interlace_handling(png);
        png_read_update_info(png, info);
        return true;
    }

    bool read(png_bytepp rows, std::size_t row_bytes) {
        if (setjmp(png_jmpbuf(png))) return false;
        if (png_get_rowbytes(png, info) != row_bytes) png_error(png, "unknown pixel format");
        png_read_image(png, rows);
        png_read_end(png, nullptr);
        return true;
    }
};

[[noreturn]] void fail(const Decoder& decoder, const std::string& name) {
    io::throw_file_error(name, fmt::format("is a damaged or unsupported PNG image: {}",
                                           static_cast<const char*>(decoder.message)));
}

}  // namespace

Image decode_png(std::span<const std::byte> file, const std::string& name) {
    Decoder decoder{file};
    if (!decoder.begin()) fail(decoder, name);
    Image image = make_decoded_image(png_get_image_height(decoder.png, decoder.info),
                                     png_get_image_width(decoder.png, decoder.info), name);
    const std::size_t row_bytes = static_cast<std::size_t>(image.width) * 3;
    std::vector<png_bytep> rows(static_cast<std::size_t>(image.height));
    for (std::size_t y = 0; y < rows.size(); ++y)
        rows[y] = image.pixels.data() + y * row_bytes;
    if (!decoder.read(rows.data(), row_bytes)) fail(decoder, name);
    return image;
}

}  // namespace pippin::data
