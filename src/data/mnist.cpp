// IDX files: a magic number, the extents as big-endian 32-bit numbers, then bytes.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "io/file_error.h"
#include "pippin/datasets.h"

namespace pippin::data {
namespace {

namespace fs = std::filesystem;

// Reads through zlib, which passes plain files on as they are.
class IdxFile {
  public:
    explicit IdxFile(const fs::path& path) : path_(path) {
        std::error_code error;
        if (!fs::exists(path, error)) io::throw_file_error(path, "cannot open", ENOENT);
        if (!fs::is_regular_file(path, error)) io::throw_file_error(path, "is not a regular file");
        errno = 0;
        file_ = gzopen(path.c_str(), "rb");
        if (!file_) io::throw_file_error(path, "cannot open", errno);
        gzbuffer(file_, 256 * 1024);
    }
    ~IdxFile() { gzclose(file_); }
    IdxFile(const IdxFile&) = delete;
    IdxFile& operator=(const IdxFile&) = delete;

    const fs::path& path() const { return path_; }

    // Up to `bytes`; fewer only at the end.
    std::size_t read(std::uint8_t* to, std::size_t bytes) {
        std::size_t have = 0;
        while (have < bytes) {
            const int got =
                gzread(file_, to + have,
                       static_cast<unsigned>(std::min(bytes - have, std::size_t{1} << 30)));
            if (got < 0) fail();
            if (got == 0) break;
            have += static_cast<std::size_t>(got);
        }
        int state = Z_OK;  // a compressed file that was cut short ends like any other, but for this
        gzerror(file_, &state);
        if (state != Z_OK && state != Z_STREAM_END) fail();
        return have;
    }

    std::uint32_t number(const char* what) {
        std::uint8_t b[4];
        if (read(b, 4) != 4)
            io::throw_file_error(path_, fmt::format("is truncated: it ends before the {}", what));
        return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 |
               b[3];
    }

    void expect_magic(std::uint32_t expected, const char* what) {
        const std::uint32_t magic = number("magic number");
        if (magic != expected)
            io::throw_file_error(path_, fmt::format("is no IDX file of {}: its magic number is "
                                                    "0x{:08x}, not 0x{:08x}",
                                                    what, magic, expected));
    }

    // The rest of the file, which must have exactly `bytes`. Grows with what is really there: the
    // header may lie.
    std::vector<std::uint8_t> rest(std::uint64_t bytes) {
        constexpr std::uint64_t kChunk = 8 << 20;
        std::vector<std::uint8_t> out;
        while (out.size() < bytes) {
            const std::size_t before = out.size();
            const auto want = static_cast<std::size_t>(std::min(bytes - before, kChunk));
            if (out.capacity() < before + want)
                out.reserve(std::max(before + want, std::min<std::size_t>(bytes, 2 * before)));
            out.resize(before + want);
            const std::size_t got = read(out.data() + before, want);
            if (got < want)
                io::throw_file_error(path_, fmt::format("is truncated: its header says {} bytes "
                                                        "follow, but there are {}",
                                                        bytes, before + got));
        }
        std::uint8_t more;
        if (read(&more, 1) != 0)
            io::throw_file_error(path_, fmt::format("has more than the {} bytes that its header "
                                                    "says",
                                                    bytes));
        return out;
    }

  private:
    [[noreturn]] void fail() {
        int state = Z_OK;
        const char* message = gzerror(file_, &state);
        if (state == Z_ERRNO) io::throw_file_error(path_, "cannot read", errno);
        io::throw_file_error(path_,
                             fmt::format("is a truncated or damaged gzip file: {}", message));
    }

    fs::path path_;
    gzFile file_;
};

struct Images {
    std::uint32_t count, height, width;
    std::vector<std::uint8_t> pixels;
};

Images read_images(const fs::path& path) {
    IdxFile file(path);
    file.expect_magic(0x00000803, "images");
    Images images{};
    images.count = file.number("number of images");
    images.height = file.number("height");
    images.width = file.number("width");
    constexpr std::uint32_t kMaxSide = 4096;  // also keeps the product below 2^63
    if (images.height < 1 || images.width < 1 || images.height > kMaxSide ||
        images.width > kMaxSide)
        io::throw_file_error(path, fmt::format("says that its images have {}x{} pixels; 1 to {} a "
                                               "side are allowed",
                                               images.height, images.width, kMaxSide));
    images.pixels = file.rest(std::uint64_t{images.count} * images.height * images.width);
    return images;
}

std::vector<std::uint8_t> read_labels(const fs::path& path) {
    IdxFile file(path);
    file.expect_magic(0x00000801, "labels");
    std::vector<std::uint8_t> labels = file.rest(file.number("number of labels"));
    const auto bad = std::ranges::find_if(labels, [](std::uint8_t label) { return label > 9; });
    if (bad != labels.end())
        io::throw_file_error(path, fmt::format("label {} of sample {} is not in 0 to 9",
                                               static_cast<int>(*bad), bad - labels.begin()));
    return labels;
}

fs::path find_file(const fs::path& root, const std::string& name) {
    std::error_code error;
    if (!fs::is_directory(root, error))
        io::throw_file_error(
            root, fmt::format("there is no such folder; it should hold {} or {}.gz", name, name));
    for (const fs::path& folder : {root, root / "raw"})
        for (const char* ending : {"", ".gz"})
            if (fs::path path = folder / (name + ending); fs::exists(path, error)) return path;
    io::throw_file_error(
        root, fmt::format("has no file {} or {}.gz, nor has its folder raw", name, name));
}

std::pair<fs::path, fs::path> find_files(const fs::path& root, bool train) {
    const std::string part = train ? "train" : "t10k";
    return {find_file(root, part + "-images-idx3-ubyte"),
            find_file(root, part + "-labels-idx1-ubyte")};
}

const std::vector<std::string>& digits() {
    static const std::vector<std::string> names = {"0", "1", "2", "3", "4",
                                                   "5", "6", "7", "8", "9"};
    return names;
}

}  // namespace

MNIST::MNIST(const fs::path& root, bool train, Compose transform)
    : MNIST(find_files(root, train), std::move(transform)) {}

MNIST::MNIST(const std::pair<fs::path, fs::path>& files, Compose transform)
    : MemoryImages(
          [&] {
              Images images = read_images(files.first);
              std::vector<std::uint8_t> labels = read_labels(files.second);
              if (labels.size() != images.count)
                  io::throw_file_error(
                      files.second, fmt::format("has {} labels, but {} has {} images",
                                                labels.size(), files.first.string(), images.count));
              return Store{1, images.height, images.width, std::move(images.pixels),
                           std::move(labels)};
          }(),
          digits(), std::move(transform)) {}

}  // namespace pippin::data
