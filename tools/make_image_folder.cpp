// Writes a folder of small JPEG files named <label>_<number>.jpg from the training images of
// Fashion-MNIST: something real to try the image examples on.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <system_error>

#include "pippin/data.h"
#include "pippin/error.h"

namespace {

namespace fs = std::filesystem;
using namespace pippin;

constexpr std::array kLabels = {"tshirt", "trouser", "pullover", "dress", "coat",
                                "sandal", "shirt",   "sneaker",  "bag",   "ankle_boot"};

struct Arguments {
    std::string data_dir = data::MNIST::kFashionFolder, out;
    std::int64_t count = 2000, size = 64;
};

data::Image to_rgb(const data::Image& gray) {
    data::Image rgb(gray.height, gray.width, 3);
    for (std::size_t i = 0; i < rgb.pixels.size(); ++i)
        rgb.pixels[i] = gray.pixels[i / 3];
    return rgb;
}

void make_folder(const Arguments& args) {
    const data::MNIST set(args.data_dir);
    std::error_code error;
    fs::create_directories(args.out, error);
    if (!fs::is_directory(args.out))
        throw FileError(fmt::format("{}: cannot make this folder: {}", args.out, error.message()));
    // Images of an earlier run would upset the balance.
    if (!fs::is_empty(args.out))
        throw FileError(fmt::format("{}: is not empty; name a new folder", args.out));

    const transforms::Resize resize(args.size, args.size);
    data::SampleRandom unused(0, 0, 0);
    std::array<std::int64_t, kLabels.size()> written{};
    std::int64_t left = args.count;
    for (std::int64_t i = 0; i < set.size() && left > 0; ++i) {
        const auto label = static_cast<std::size_t>(set.label(i));
        const auto classes = static_cast<std::int64_t>(kLabels.size());
        // The first classes get one more where the count is no multiple of ten.
        const std::int64_t share =
            args.count / classes +
            (static_cast<std::int64_t>(label) < args.count % classes ? 1 : 0);
        if (written[label] == share) continue;
        data::Image image = set.image(i);
        resize.apply(image, unused);
        data::write_jpeg(
            fs::path(args.out) / fmt::format("{}_{}.jpg", kLabels[label], ++written[label]),
            to_rgb(image));
        --left;
    }
    if (left > 0)
        throw ValueError(fmt::format("{} has too few images: {} are missing", args.data_dir, left));
    fmt::print("{} images of {}x{} in {} classes: {}\n", args.count, args.size, args.size,
               kLabels.size(), args.out);
}

}  // namespace

int main(int argc, char** argv) {
    Arguments args;
    CLI::App app("Makes a folder of JPEG files, <label>_<number>.jpg, from Fashion-MNIST.");
    app.add_option("--data_dir", args.data_dir, "Folder of the Fashion-MNIST files")
        ->capture_default_str();
    app.add_option("--out", args.out, "The folder to make")->required();
    app.add_option("--count", args.count, "How many images, the same number of each class")
        ->check(CLI::Range(1, 60'000))
        ->capture_default_str();
    app.add_option("--size", args.size, "Height and width in pixels")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try {
        make_folder(args);
    } catch (const std::exception& e) {
        fmt::print(stderr, "make_image_folder: {}\n", e.what());
        return 1;
    }
    return 0;
}
