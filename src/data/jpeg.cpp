// JPEG through libjpeg. Its errors leave by longjmp, so no function between setjmp and the library
// holds anything with a destructor; objects that own memory live in the callers.
#include <csetjmp>
#include <cstddef>
#include <cstdio>

// Needs size_t and FILE before it.
#include <jpeglib.h>
// Needs jpeglib.h before it: the numbers of its messages depend on the library's version.
#include <jerror.h>

#include <fmt/format.h>

#include <cerrno>

#include "data/image_codecs.h"
#include "io/file_error.h"
#include "pippin/error.h"

namespace pippin::data {
namespace {

struct Errors {
    jpeg_error_mgr manager;  // first: the library hands out a pointer to it
    std::jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr info) {
    auto* errors = reinterpret_cast<Errors*>(info->err);
    info->err->format_message(info, errors->message);
    std::longjmp(errors->escape, 1);
}

// What the library calls a warning and then paints over with gray: missing or corrupt image data.
// Bytes between segments or odd version numbers are common and harm no pixel.
void on_message(j_common_ptr info, int level) {
    if (level >= 0) return;
    switch (info->err->msg_code) {
        case JWRN_JPEG_EOF:
        case JWRN_HIT_MARKER:
        case JWRN_HUFF_BAD_CODE:
        case JWRN_ARITH_BAD_CODE:
        case JWRN_MUST_RESYNC:
            on_error(info);
        default:
            break;
    }
}

jpeg_error_mgr* prepare(Errors& errors) {
    jpeg_error_mgr* manager = jpeg_std_error(&errors.manager);
    manager->error_exit = on_error;
    manager->emit_message = on_message;
    return manager;
}

struct Decoder {
    jpeg_decompress_struct info{};
    Errors errors{};

    ~Decoder() { jpeg_destroy_decompress(&info); }

    bool begin(const std::byte* data, std::size_t bytes) {
        info.err = prepare(errors);
        if (setjmp(errors.escape)) return false;
        jpeg_create_decompress(&info);
        jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(data),
                     static_cast<unsigned long>(bytes));
        jpeg_read_header(&info, TRUE);
        const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
        info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
        return true;
    }

    // Fills rows of 3 bytes a pixel; `cmyk_row` has 4 bytes a pixel where it is needed.
    bool read(unsigned char* pixels, unsigned char* cmyk_row) {
        if (setjmp(errors.escape)) return false;
        jpeg_start_decompress(&info);
        const std::size_t width = info.output_width;
        while (info.output_scanline < info.output_height) {
            unsigned char* to = pixels + std::size_t{info.output_scanline} * width * 3;
            JSAMPROW row = cmyk_row ? cmyk_row : to;
            jpeg_read_scanlines(&info, &row, 1);
            if (cmyk_row) to_rgb(cmyk_row, to, width);
        }
        jpeg_finish_decompress(&info);
        return true;
    }

    // Adobe's programs store CMYK inverted, as amounts of light.
    void to_rgb(const unsigned char* from, unsigned char* to, std::size_t width) const {
        const unsigned flip = info.saw_Adobe_marker ? 0 : 255;
        for (std::size_t x = 0; x < width; ++x, from += 4, to += 3) {
            const unsigned k = from[3] ^ flip;
            for (int c = 0; c < 3; ++c)
                to[c] = static_cast<unsigned char>(((from[c] ^ flip) * k + 127) / 255);
        }
    }
};

struct Encoder {
    jpeg_compress_struct info{};
    Errors errors{};

    ~Encoder() { jpeg_destroy_compress(&info); }

    bool write(const Image& image, int quality, std::FILE* file) {
        info.err = prepare(errors);
        if (setjmp(errors.escape)) return false;
        jpeg_create_compress(&info);
        jpeg_stdio_dest(&info, file);
        info.image_width = static_cast<JDIMENSION>(image.width);
        info.image_height = static_cast<JDIMENSION>(image.height);
        info.input_components = static_cast<int>(image.channels);
        info.in_color_space = image.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
        jpeg_set_defaults(&info);
        jpeg_set_quality(&info, quality, TRUE);
        jpeg_start_compress(&info, TRUE);
        const std::size_t row_bytes = static_cast<std::size_t>(image.width * image.channels);
        while (info.next_scanline < info.image_height) {
            auto* row = const_cast<unsigned char*>(image.pixels.data() +
                                                   std::size_t{info.next_scanline} * row_bytes);
            jpeg_write_scanlines(&info, &row, 1);
        }
        jpeg_finish_compress(&info);
        return true;
    }
};

[[noreturn]] void fail(const Errors& errors, const std::string& name) {
    io::throw_file_error(name, fmt::format("is a damaged or unsupported JPEG image: {}",
                                           static_cast<const char*>(errors.message)));
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> file, const std::string& name) {
    Decoder decoder;
    if (!decoder.begin(file.data(), file.size())) fail(decoder.errors, name);
    Image image = make_decoded_image(decoder.info.image_height, decoder.info.image_width, name);
    std::vector<unsigned char> cmyk_row;
    if (decoder.info.out_color_space == JCS_CMYK)
        cmyk_row.resize(static_cast<std::size_t>(image.width) * 4);
    if (!decoder.read(image.pixels.data(), cmyk_row.empty() ? nullptr : cmyk_row.data()))
        fail(decoder.errors, name);
    return image;
}

void write_jpeg(const std::filesystem::path& path, const Image& image, int quality) {
    if ((image.channels != 1 && image.channels != 3) || image.height < 1 || image.width < 1 ||
        image.height > JPEG_MAX_DIMENSION || image.width > JPEG_MAX_DIMENSION ||
        image.pixels.size() !=
            static_cast<std::size_t>(image.height * image.width * image.channels))
        throw ValueError(fmt::format(
            "write_jpeg: {} bytes are no image of {}x{} with {} channels; "
            "it must have 1 or 3 channels and 1 to {} pixels a side",
            image.pixels.size(), image.width, image.height, image.channels, JPEG_MAX_DIMENSION));
    if (quality < 1 || quality > 100)
        throw ValueError(fmt::format("write_jpeg: quality {} is not in 1 to 100", quality));
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (!file) io::throw_file_error(path, "cannot write", errno);
    Encoder encoder;
    const bool written = encoder.write(image, quality, file);
    if (std::fclose(file) != 0 && written) io::throw_file_error(path, "cannot write", errno);
    if (!written)
        io::throw_file_error(path, fmt::format("cannot write: {}",
                                               static_cast<const char*>(encoder.errors.message)));
}

}  // namespace pippin::data
