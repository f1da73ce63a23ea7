// CIFAR-10's binary version: records of a label byte and three planes of 32x32 bytes.
#include <fmt/format.h>

#include <system_error>

#include "io/file_error.h"
#include "io/input_file.h"
#include "pippin/datasets.h"

namespace pippin::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kImageBytes = 3 * 32 * 32;
constexpr std::size_t kRecordBytes = 1 + kImageBytes;

void append(const fs::path& path, std::vector<std::uint8_t>& pixels,
            std::vector<std::uint8_t>& labels) {
    const std::vector<std::byte> file = io::read_file(path);
    if (file.empty() || file.size() % kRecordBytes != 0)
        io::throw_file_error(path, fmt::format("is no CIFAR-10 batch, or a truncated one: its {} "
                                               "bytes are not a multiple of {}",
                                               file.size(), kRecordBytes));
    for (std::size_t at = 0; at < file.size(); at += kRecordBytes) {
        const auto label = static_cast<std::uint8_t>(file[at]);
        if (label > 9)
            io::throw_file_error(path, fmt::format("label {} of record {} is not in 0 to 9",
                                                   static_cast<int>(label), at / kRecordBytes));
        labels.push_back(label);
        const auto* image = reinterpret_cast<const std::uint8_t*>(file.data()) + at + 1;
        pixels.insert(pixels.end(), image, image + kImageBytes);
    }
}

std::vector<fs::path> find_files(const fs::path& root, bool train) {
    std::vector<std::string> names;
    if (train)
        for (int i = 1; i <= 5; ++i)
            names.push_back(fmt::format("data_batch_{}.bin", i));
    else
        names.emplace_back("test_batch.bin");

    std::error_code error;
    if (!fs::is_directory(root, error))
        io::throw_file_error(root,
                             fmt::format("there is no such folder; it should hold {}", names[0]));
    fs::path folder = root;
    if (!fs::exists(folder / names[0], error)) folder = root / "cifar-10-batches-bin";
    std::vector<fs::path> files;
    for (const std::string& name : names) {
        files.push_back(folder / name);
        if (!fs::exists(files.back(), error))
            io::throw_file_error(root, fmt::format("has no file {}, nor has its folder "
                                                   "cifar-10-batches-bin (the binary version of "
                                                   "CIFAR-10 is needed, not Python's)",
                                                   name));
    }
    return files;
}

}  // namespace

CIFAR10::CIFAR10(const fs::path& root, bool train, Compose transform)
    : MemoryImages(
          [&] {
              Store store{3, 32, 32, {}, {}};
              const std::vector<fs::path> files = find_files(root, train);
              std::uintmax_t bytes = 0;
              std::error_code error;
              for (const fs::path& file : files)
                  if (const auto size = fs::file_size(file, error); !error) bytes += size;
              store.pixels.reserve(bytes);
              for (const fs::path& file : files)
                  append(file, store.pixels, store.labels);
              return store;
          }(),
          {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship",
           "truck"},
          std::move(transform)) {}

}  // namespace pippin::data
