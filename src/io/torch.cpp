#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "io/file_error.h"
#include "io/file_kind.h"
#include "io/mapped_file.h"
#include "io/torch_content.h"
#include "pippin/error.h"
#include "pippin/io.h"
#include "pippin/ops.h"

namespace pippin::io {

TorchCheckpoint load_torch(const std::filesystem::path& path, Device device) {
    const MappedFile file(path);
    switch (kind_of(file.bytes())) {
        case FileKind::Zip:
            break;
        case FileKind::LegacyTorch:
            throw_file_error(
                path,
                "is in the format of PyTorch before 1.6, which is not read. In "
                "Python: torch.save(torch.load(path, map_location=\"cpu\"), other_path)");
        default:
            throw_file_error(path, "is no PyTorch checkpoint: it is no zip file");
    }
    const TorchContent content(file.bytes(), path);
    TorchCheckpoint out;
    out.scalars = content.scalars();
    for (const TorchContent::Entry& entry : content.entries())
        out.tensors.emplace_back(entry.name, Tensor());
    content.visit([&](std::size_t i, const Shape& shape, DType dtype, const std::byte* bytes) {
        out.tensors[i].second = from_bytes(bytes, shape, dtype, device);
    });
    return out;
}

NamedTensors select(const NamedTensors& tensors, const std::string& key) {
    NamedTensors out;
    std::set<std::string> beginnings;
    for (const auto& [name, tensor] : tensors) {
        if (name.size() > key.size() && name[key.size()] == '.' && name.starts_with(key))
            out.emplace_back(name.substr(key.size() + 1), tensor);
        beginnings.insert(name.substr(0, name.find('.')));
    }
    if (out.empty())
        throw ValueError(fmt::format("no name begins with \"{}.\"; names begin with: {}", key,
                                     fmt::join(beginnings, ", ")));
    return out;
}

}  // namespace pippin::io
