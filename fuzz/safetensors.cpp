// Headers of safetensors files; a text that begins with '{' is read as an index of shards.
#include "fuzz.h"
#include "io/safetensors_header.h"
#include "io/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pippin;
    return fuzz::run([&] {
        if (size > 0 && data[0] == '{') {
            for (const auto& [name, file] : io::parse_shard_index(fuzz::text(data, size), "file"))
                fuzz::check(!file.starts_with('/') && file.find("../") == file.npos,
                            "shards stay in their folder");
            return;
        }
        const io::Header header = io::parse_header(fuzz::bytes(data, size), "file");
        for (const io::TensorInfo& t : header.tensors)
            fuzz::check(t.offset <= size && t.bytes <= size - t.offset, "tensors lie in the file");
    });
}
