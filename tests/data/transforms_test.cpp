// Transforms against Pillow's and torchvision's results.
#include "pippin/transforms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "common/expect_error.h"
#include "data/resize.h"
#include "pippin/io.h"

namespace pippin::transforms {
namespace {

const io::SafeTensors& fixture() {
    static const io::SafeTensors file =
        io::load_safetensors(PIPPIN_FIXTURES "/data/resize.safetensors");
    return file;
}

Image stored(const std::string& name) {
    const Tensor t = fixture().tensor(name, Device());
    Image image(t.size(0), t.size(1), t.dim() == 3 ? t.size(2) : 1);
    image.pixels = t.to_vector<std::uint8_t>();
    return image;
}

// The largest difference; 999 where the shapes differ.
int difference(const Image& a, const Image& b) {
    if (a.height != b.height || a.width != b.width || a.channels != b.channels) return 999;
    int worst = 0;
    for (std::size_t i = 0; i < a.pixels.size(); ++i)
        worst = std::max(worst, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
    return worst;
}

Image ramp(std::int64_t height, std::int64_t width, std::int64_t channels = 3) {
    Image image(height, width, channels);
    for (std::size_t i = 0; i < image.pixels.size(); ++i)
        image.pixels[i] = static_cast<std::uint8_t>(i % 251);
    return image;
}

Image apply(const ImageTransform& t, Image image, std::uint64_t seed = 0) {
    SampleRandom random(seed, 0, 0);
    t.apply(image, random);
    return image;
}

TEST(Resize, IsPillows) {
    int compared = 0;
    for (const std::string& name : fixture().names()) {
        const std::size_t dot = name.find('.'), times = name.find('x');
        if (dot == std::string::npos || name.find("part") != std::string::npos) continue;
        const std::int64_t height = std::stoi(name.substr(dot + 1));
        const std::int64_t width = std::stoi(name.substr(times + 1));
        const Image out = apply(Resize(height, width), stored(name.substr(0, dot)));
        // Which of the two passes comes first, where both rounded, depends on Pillow's version.
        EXPECT_LE(difference(out, stored(name)), height < 53 && width > 71 ? 1 : 0) << name;
        ++compared;
    }
    EXPECT_EQ(compared, 11);
    const Image part = data::resize(stored("rgb"), {5, 11, 30, 40}, 16, 16);
    EXPECT_LE(difference(part, stored("rgb.part.16x16")), 0);
}

// Pillow's values: Image.new("RGB", (1, 1), rgb).convert("L").
TEST(Grayscale, IsPillows) {
    struct Case {
        std::uint8_t r, g, b, gray;
    };
    for (const Case& c :
         {Case{255, 255, 255, 255}, Case{0, 0, 0, 0}, Case{255, 0, 0, 76}, Case{0, 255, 0, 150},
          Case{0, 0, 255, 29}, Case{10, 200, 30, 124}, Case{1, 2, 3, 2}, Case{254, 17, 99, 97}}) {
        Image image(1, 2, 3);
        for (std::int64_t x = 0; x < 2; ++x)
            image.at(0, x, 0) = c.r, image.at(0, x, 1) = c.g, image.at(0, x, 2) = c.b;
        const Image out = apply(Grayscale(), image);
        EXPECT_EQ(out.channels, 1);
        EXPECT_EQ(out.at(0, 1, 0), c.gray) << int(c.r) << " " << int(c.g) << " " << int(c.b);
        EXPECT_EQ(difference(apply(Grayscale(), out), out), 0);
    }
    EXPECT_THROW(apply(Grayscale(), Image(1, 1, 4)), ValueError);
}

TEST(Resize, OneSizeIsTheShorterSides) {
    EXPECT_LE(difference(apply(Resize(28), stored("rgb")), apply(Resize(28, 37), stored("rgb"))),
              0);  // 28 * 71 / 53 is 37.5
    const Image tall = apply(Resize(10), ramp(41, 20));
    EXPECT_EQ(tall.height, 20);  // 20.5
    EXPECT_EQ(tall.width, 10);
    EXPECT_EQ(difference(apply(Resize(20), ramp(41, 20)), ramp(41, 20)), 0);
    const Image thin = apply(Resize(1), ramp(2, 900));
    EXPECT_EQ(thin.width, 450);
}

TEST(Resize, KeepsAFlatImageFlat) {
    Image flat(37, 91, 3);
    std::ranges::fill(flat.pixels, 203);
    for (const auto& [h, w] : {std::pair{5, 7}, {100, 200}, {1, 300}}) {
        const Image out = apply(Resize(h, w), flat);
        EXPECT_TRUE(std::ranges::all_of(out.pixels, [](int v) { return v == 203; }));
    }
}

TEST(Resize, Refuses) {
    EXPECT_ERROR(Resize(0), ValueError, "Resize", "0");
    EXPECT_ERROR(Resize(3, -1), ValueError, "Resize", "-1");
    EXPECT_ERROR(apply(Resize(3), ramp(5, 5, 2)), ValueError, "1 or 3 channels", "2");
}

TEST(CenterCrop, CutsTheMiddleOrPads) {
    const Image image = ramp(7, 10);
    const Image out = apply(CenterCrop(4, 5), image);
    ASSERT_EQ(out.height, 4);
    ASSERT_EQ(out.width, 5);
    // Python: round(1.5) is 2, round(2.5) is 2.
    EXPECT_EQ(out.at(0, 0, 1), image.at(2, 2, 1));
    EXPECT_EQ(out.at(3, 4, 2), image.at(5, 6, 2));

    const Image padded = apply(CenterCrop(8, 4), image);  // half a row of padding goes last
    EXPECT_EQ(padded.at(0, 0, 0), image.at(0, 3, 0));
    EXPECT_EQ(padded.at(6, 3, 0), image.at(6, 6, 0));
    for (std::int64_t x = 0; x < 4; ++x)
        EXPECT_EQ(padded.at(7, x, 0), 0);
    const Image around = apply(CenterCrop(9, 12), image);
    EXPECT_EQ(around.at(0, 0, 0), 0);
    EXPECT_EQ(around.at(1, 1, 0), image.at(0, 0, 0));
    EXPECT_ERROR(CenterCrop(0), ValueError, "CenterCrop");
}

TEST(RandomHorizontalFlip, MirrorsRows) {
    for (const std::int64_t channels : {1, 3})
        for (const std::int64_t width : {1, 4, 5}) {
            const Image image = ramp(3, width, channels);
            const Image out = apply(RandomHorizontalFlip(1), image);
            for (std::int64_t y = 0; y < 3; ++y)
                for (std::int64_t x = 0; x < width; ++x)
                    for (std::int64_t c = 0; c < channels; ++c)
                        ASSERT_EQ(out.at(y, x, c), image.at(y, width - 1 - x, c));
            EXPECT_EQ(difference(apply(RandomHorizontalFlip(0), image), image), 0);
        }
    int flipped = 0;
    for (std::uint64_t seed = 0; seed < 1000; ++seed)
        flipped += difference(apply(RandomHorizontalFlip(), ramp(2, 2), seed), ramp(2, 2)) != 0;
    EXPECT_NEAR(flipped, 500, 60);
    EXPECT_ERROR(RandomHorizontalFlip(1.5), ValueError, "1.5");
}

// An image whose pixels say where they are shows which part was cut out.
TEST(RandomResizedCrop, AreaAndRatioAreAsAsked) {
    Image image(200, 240, 3);
    for (std::int64_t y = 0; y < 200; ++y)
        for (std::int64_t x = 0; x < 240; ++x) {
            image.at(y, x, 0) = static_cast<std::uint8_t>(y);
            image.at(y, x, 1) = static_cast<std::uint8_t>(x);
        }
    double smallest = 1e9, largest = 0, top = 1e9, left = 1e9;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const Image out = apply(RandomResizedCrop(16, {0.25, 0.5}), image, seed);
        ASSERT_EQ(out.height, 16);
        ASSERT_EQ(out.width, 16);
        // 14 steps of the output's pixels cover 14/16 of the part.
        const double height = (out.at(15, 8, 0) - out.at(1, 8, 0)) * 16.0 / 14;
        const double width = (out.at(8, 15, 1) - out.at(8, 1, 1)) * 16.0 / 14;
        const double area = height * width / (200 * 240);
        EXPECT_GT(width / height, 0.72);
        EXPECT_LT(width / height, 1.39);
        smallest = std::min(smallest, area);
        largest = std::max(largest, area);
        top = std::min<double>(top, out.at(0, 0, 0));
        left = std::min<double>(left, out.at(0, 0, 1));
    }
    EXPECT_NEAR(smallest, 0.25, 0.02);
    EXPECT_NEAR(largest, 0.5, 0.02);
    EXPECT_LT(top, 10);
    EXPECT_LT(left, 10);
}

TEST(RandomResizedCrop, FallsBackToTheMiddle) {
    // A strip 4 high: no part of at least a half of it has a ratio below 4/3.
    const Image strip = ramp(4, 100);
    const Image out = apply(RandomResizedCrop(8, {0.5, 1.0}), strip);
    EXPECT_LE(difference(out, data::resize(strip, {0, (100 - 5) / 2, 4, 5}, 8, 8)), 0);
    const Image one = apply(RandomResizedCrop(8), ramp(1, 1));
    EXPECT_EQ(one.height, 8);
    EXPECT_ERROR(RandomResizedCrop(8, {0.5, 0.2}), ValueError, "scale", "ascending");
    EXPECT_ERROR(RandomResizedCrop(8, {0.1, 1}, {0, 1}), ValueError, "ratio");
}

TEST(Compose, TableIsToTensorAndNormalize) {
    const Compose plain({ToTensor()});
    const auto table = plain.table(1);
    ASSERT_EQ(table.size(), 256u);
    for (int i = 0; i < 256; ++i)
        EXPECT_EQ(table[static_cast<std::size_t>(i)], static_cast<float>(i) / 255.0f);

    const Compose colour(
        {ToTensor(), Normalize({0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f})});
    const auto tables = colour.table(3);
    ASSERT_EQ(tables.size(), 768u);
    EXPECT_EQ(tables[256 + 100], (100 / 255.0f - 0.456f) / 0.224f);
    EXPECT_EQ(tables[512 + 255], (1.0f - 0.406f) / 0.225f);
    EXPECT_ERROR(colour.table(1), ValueError, "3 means", "1 channels");
    EXPECT_EQ(Compose({ToTensor(), Normalize({0.5}, {0.5})}).table(3)[700],
              (188 / 255.f - 0.5f) / 0.5f);
    EXPECT_EQ(Compose().table(1)[255], 1.0f);
}

TEST(Compose, ChecksTheOrder) {
    EXPECT_ERROR(Compose({ToTensor(), Resize(3)}), ValueError, "Resize(3)", "before ToTensor");
    EXPECT_ERROR(Compose({Normalize({0}, {1})}), ValueError, "after ToTensor");
    EXPECT_ERROR(Compose({ToTensor(), ToTensor()}), ValueError, "twice");
    EXPECT_ERROR(Normalize({0, 1}, {1}), ValueError, "2 means", "1 standard");
    EXPECT_ERROR(Normalize({0}, {0}), ValueError, "not positive");
}

TEST(Compose, AppliesStepsInOrder) {
    const Compose steps({Resize(20, 30), CenterCrop(10), RandomHorizontalFlip(1), ToTensor()});
    Image image = stored("rgb");
    SampleRandom random(0, 0, 0);
    steps.apply(image, random);
    const Image expected =
        apply(RandomHorizontalFlip(1), apply(CenterCrop(10), stored("rgb.20x30")));
    EXPECT_EQ(difference(image, expected), 0);
    EXPECT_EQ(steps.str(),
              "Compose(Resize(20, 30), CenterCrop(10), RandomHorizontalFlip(1), ToTensor())");
}

}  // namespace
}  // namespace pippin::transforms
