// PyTorch checkpoints: whole zip files, and (what does not begin as one) pickles, put into a zip
// file here so that its checksums do not keep the fuzzer out.
#include <zlib.h>

#include <array>
#include <limits>
#include <vector>

#include "fuzz.h"
#include "io/torch_content.h"

namespace {

void put(std::string& out, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
        out += static_cast<char>(value >> (8 * i) & 0xff);
}

std::string zip_of(const std::vector<std::pair<std::string, std::string>>& entries) {
    std::string out, directory;
    for (const auto& [name, content] : entries) {
        const auto crc = crc32(0, reinterpret_cast<const Bytef*>(content.data()),
                               static_cast<uInt>(content.size()));
        std::string common;
        put(common, 20, 2);  // version, flags, method, time, date
        put(common, 0, 8);
        put(common, crc, 4);
        put(common, content.size(), 4);
        put(common, content.size(), 4);
        put(common, name.size(), 2);
        put(common, 0, 2);
        directory += "PK\1\2";
        put(directory, 20, 2);
        directory += common;
        put(directory, 0, 8);
        put(directory, 0, 2);
        put(directory, out.size(), 4);
        directory += name;
        out += "PK\3\4" + common + name + content;
    }
    const std::size_t at = out.size();
    out += directory + "PK\5\6";
    put(out, 0, 4);
    put(out, entries.size(), 2);
    put(out, entries.size(), 2);
    put(out, directory.size(), 4);
    put(out, at, 4);
    put(out, 0, 2);
    return out;
}

void read(std::span<const std::byte> file) {
    const pippin::io::TorchContent content(file, "file");
    content.visit(
        [](std::size_t, const pippin::Shape& shape, pippin::DType dtype, const std::byte* bytes) {
            const std::size_t n = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
            unsigned sum = 0;
            for (std::size_t i = 0; i < n; ++i)
                sum += std::to_integer<unsigned>(bytes[i]);
            volatile unsigned used = sum;
            (void)used;
        });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pippin;
    return fuzz::run([&] {
        if (size >= 2 && data[0] == 'P' && data[1] == 'K') return read(fuzz::bytes(data, size));
        const std::string zip = zip_of({{"a/data.pkl", std::string(fuzz::text(data, size))},
                                        {"a/data/0", std::string(64, '\1')},
                                        {"a/data/1", std::string(64, '\0')}});
        read(std::as_bytes(std::span(zip)));
    });
}
