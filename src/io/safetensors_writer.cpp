#include "io/safetensors_writer.h"

#include <algorithm>
#include <numeric>

#include "io/atomic_file.h"
#include "io/safetensors_header.h"

namespace pippin::io {

void write_safetensors(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
                       const Metadata& metadata,
                       const std::function<const void*(std::size_t)>& bytes_of) {
    const std::string header = make_header(tensors, metadata);
    std::vector<std::size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(
        order, {}, [&](std::size_t i) { return std::pair(tensors[i].offset, tensors[i].bytes); });

    AtomicFile file(path);
    file.write(header.data(), header.size());
    for (const std::size_t i : order)
        if (tensors[i].bytes > 0) file.write(bytes_of(i), tensors[i].bytes);
    file.commit();
}

}  // namespace pippin::io
