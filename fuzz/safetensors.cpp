// Headers of safetensors files; a text that begins with '{' is read as an index of shards.
#include "fuzz.h"
#include "io/safetensors_header.h"
#include "io/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pippin;
    return fuzz::run([&] {
        if (size > 0 && data[0] == '{') {
            for (const auto& [name, file] : io::parse_shard_index(fuzz::text(data, size), "file")) {
                // "...../" and "..a" are folders like any other; only a part ".." climbs.
                const std::filesystem::path path(file);
                fuzz::check(path.is_relative() && std::ranges::find(path, "..") == path.end(),
                            "shards stay in their folder");
            }
            return;
        }
        const io::Header header = io::parse_header(fuzz::bytes(data, size), "file");
        for (const io::TensorInfo& t : header.tensors)
            fuzz::check(t.offset <= size && t.bytes <= size - t.offset, "tensors lie in the file");
    });
}
