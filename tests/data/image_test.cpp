// JPEG and PNG files: every kind decodes to what Pillow makes of it, and damage is an error.
#include "pippin/image.h"

#include <gtest/gtest.h>
#include <png.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "pippin/io.h"

namespace pippin::data {
namespace {

using test::read_text;
using test::TempFolder;
using test::write_text;

const std::filesystem::path kFolder = PIPPIN_FIXTURES "/data";

Image decode(const std::string& content) {
    return decode_image(std::as_bytes(std::span(content)), "picture");
}

Image test_picture(std::int64_t height, std::int64_t width) {
    Image image(height, width, 3);
    for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x) {
            image.at(y, x, 0) = static_cast<std::uint8_t>(3 * x + y);
            image.at(y, x, 1) = static_cast<std::uint8_t>(255 - 2 * y);
            image.at(y, x, 2) = static_cast<std::uint8_t>(x * y / 4);
        }
    return image;
}

// A PNG that Pillow cannot write: 16 bits a channel or interlaced.
void write_png(const std::filesystem::path& path, const Image& image, int bits, int interlace) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    ASSERT_TRUE(file);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
    png_infop info = png_create_info_struct(png);
    png_init_io(png, file);
    png_set_IHDR(png, info, static_cast<png_uint_32>(image.width),
                 static_cast<png_uint_32>(image.height), bits, PNG_COLOR_TYPE_RGB, interlace,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    const int bytes = bits / 8;
    std::vector<std::uint8_t> wide;
    for (const std::uint8_t v : image.pixels)
        wide.insert(wide.end(), static_cast<std::size_t>(bytes), v);
    std::vector<png_bytep> rows;
    for (std::int64_t y = 0; y < image.height; ++y)
        rows.push_back(wide.data() + y * image.width * 3 * bytes);
    png_write_image(png, rows.data());
    png_write_end(png, nullptr);
    png_destroy_write_struct(&png, &info);
    std::fclose(file);
}

TEST(ReadImage, EveryKindIsPillows) {
    const io::SafeTensors expected = io::load_safetensors(kFolder / "decoded.safetensors");
    EXPECT_EQ(expected.entries().size(), 11u);
    for (const std::string& name : expected.names()) {
        const Image image = read_image(kFolder / name);
        const Tensor pixels = expected.tensor(name, Device());
        ASSERT_EQ(image.height, pixels.size(0)) << name;
        ASSERT_EQ(image.width, pixels.size(1)) << name;
        ASSERT_EQ(image.channels, 3) << name;
        const auto want = pixels.to_vector<std::uint8_t>();
        int worst = 0;
        for (std::size_t i = 0; i < want.size(); ++i)
            worst = std::max(worst, std::abs(int{image.pixels[i]} - int{want[i]}));
        // Versions of libjpeg may round differently.
        EXPECT_LE(worst, name.ends_with(".png") ? 0 : name == "cmyk.jpg" ? 3 : 2) << name;
    }
}

TEST(ReadImage, InterlacedAndDeepPng) {
    const TempFolder folder;
    const Image image = test_picture(33, 21);
    for (const int bits : {8, 16})
        for (const int interlace : {PNG_INTERLACE_NONE, PNG_INTERLACE_ADAM7}) {
            write_png(folder / "p.png", image, bits, interlace);
            EXPECT_EQ(read_image(folder / "p.png").pixels, image.pixels) << bits << interlace;
        }
}

TEST(ReadImage, WritesAndReadsJpeg) {
    const TempFolder folder;
    const Image image = test_picture(50, 40);
    write_jpeg(folder / "p.jpg", image, 98);
    const Image back = read_image(folder / "p.jpg");
    ASSERT_EQ(back.height, 50);
    ASSERT_EQ(back.width, 40);
    double sum = 0;
    for (std::size_t i = 0; i < image.pixels.size(); ++i)
        sum += std::abs(int{back.pixels[i]} - int{image.pixels[i]});
    EXPECT_LT(sum / static_cast<double>(image.pixels.size()), 6);

    Image gray(8, 9, 1);
    std::ranges::fill(gray.pixels, 100);
    write_jpeg(folder / "g.jpg", gray);
    EXPECT_EQ(read_image(folder / "g.jpg").pixels, std::vector<std::uint8_t>(8 * 9 * 3, 100));

    EXPECT_ERROR(write_jpeg(folder / "x.jpg", Image(0, 3, 3)), ValueError, "write_jpeg", "3x0");
    EXPECT_ERROR(write_jpeg(folder / "x.jpg", Image(3, 3, 2)), ValueError, "2 channels");
    EXPECT_ERROR(write_jpeg(folder / "x.jpg", gray, 0), ValueError, "quality 0");
    EXPECT_ERROR(write_jpeg(folder / "no" / "x.jpg", gray), FileError, "x.jpg", "No such file");
    EXPECT_ERROR(write_jpeg("/dev/full", gray), FileError, "/dev/full");
}

TEST(ReadImage, WhatIsNoImage) {
    const TempFolder folder;
    write_text(folder / "text.jpg", "hello");
    write_text(folder / "empty.jpg", "");
    EXPECT_ERROR(read_image(folder / "text.jpg"), FileError, "text.jpg",
                 "neither a JPEG nor a PNG");
    EXPECT_ERROR(read_image(folder / "empty.jpg"), FileError, "empty.jpg", "is empty");
    EXPECT_ERROR(read_image(folder / "none.jpg"), FileError, "none.jpg", "No such file");
    EXPECT_ERROR(read_image(folder.path()), FileError, "is a folder");
    EXPECT_ERROR(decode("\xff\xd8"), FileError, "picture", "JPEG");
}

// Content counts, not the file's name.
TEST(ReadImage, APngNamedJpg) {
    const TempFolder folder;
    std::filesystem::copy_file(kFolder / "rgb.png", folder / "p.jpg");
    EXPECT_EQ(read_image(folder / "p.jpg").pixels, read_image(kFolder / "rgb.png").pixels);
}

TEST(ReadImage, TruncatedAnywhereIsAnError) {
    for (const char* name : {"rgb.jpg", "gray.jpg", "cmyk.jpg", "progressive.jpg", "rgb.png",
                             "palette.png", "gray16.png", "bits.png"}) {
        const std::string good = read_text(kFolder / name);
        for (std::size_t n = 0; n < good.size(); ++n)
            ASSERT_THROW(decode(good.substr(0, n)), FileError)
                << name << " after " << n << " bytes";
    }
}

// A header that claims a giant image must not make it allocate one.
TEST(ReadImage, ClaimedSizesAreBounded) {
    std::string jpeg = read_text(kFolder / "rgb.jpg");
    const std::size_t frame = jpeg.find("\xff\xc0");
    ASSERT_NE(frame, std::string::npos);
    jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc", 4);  // 65500 x 65500
    EXPECT_ERROR(decode(jpeg), FileError, "65500x65500", "178956970");
}

TEST(ReadImage, StrayBytesBetweenSegmentsAreHarmless) {
    const std::string good = read_text(kFolder / "rgb.jpg");
    std::string stray = good;
    stray.insert(stray.size() - 2, "abc");  // before the end marker
    EXPECT_EQ(decode(stray).pixels, decode(good).pixels);
}

TEST(ReadImage, RandomDamage) {
    std::mt19937 random(5);
    int accepted = 0, refused = 0;
    for (const char* name : {"rgb.jpg", "cmyk.jpg", "progressive.jpg", "rgb.png", "palette.png",
                             "gray16.png", "rgba.png"}) {
        const std::string good = read_text(kFolder / name);
        for (int round = 0; round < 300; ++round) {
            std::string bad = good;
            for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
                // Headers are where damage is most interesting.
                const std::size_t at = random() % (random() % 2 ? bad.size() : 200);
                if (random() % 4 == 0)
                    bad.erase(at, 1 + random() % 8);
                else
                    bad[at] = static_cast<char>(random());
            }
            try {
                const Image image = decode(bad);
                ASSERT_EQ(image.pixels.size(),
                          static_cast<std::size_t>(image.height * image.width * 3));
                ++accepted;
            } catch (const FileError&) {
                ++refused;
            }
        }
    }
    EXPECT_GT(refused, 500);
    EXPECT_GT(accepted, 10);  // some damage only changes colours
}

}  // namespace
}  // namespace pippin::data
