#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "io/atomic_file.h"
#include "io/file_error.h"
#include "io/mapped_file.h"
#include "io/safetensors_header.h"
#include "io/safetensors_writer.h"
#include "pippin/io.h"
#include "pippin/ops.h"

namespace pippin::io {

struct SafeTensors::File {
    std::filesystem::path path;
    MappedFile map;
    Header header;
    std::unordered_map<std::string, std::size_t> places;

    explicit File(const std::filesystem::path& p)
        : path(p), map(p), header(parse_header(map.bytes(), p)) {
        for (std::size_t i = 0; i < header.tensors.size(); ++i)
            places.emplace(header.tensors[i].name, i);
    }
};

SafeTensors load_safetensors(const std::filesystem::path& path) {
    return SafeTensors(std::make_shared<const SafeTensors::File>(path));
}

const std::filesystem::path& SafeTensors::path() const { return file_->path; }
const Metadata& SafeTensors::metadata() const { return file_->header.metadata; }
const std::vector<TensorInfo>& SafeTensors::entries() const { return file_->header.tensors; }

std::vector<std::string> SafeTensors::names() const {
    std::vector<std::string> out;
    out.reserve(entries().size());
    for (const TensorInfo& info : entries())
        out.push_back(info.name);
    return out;
}

bool SafeTensors::contains(const std::string& name) const { return file_->places.contains(name); }

const TensorInfo& SafeTensors::info(const std::string& name) const {
    const auto at = file_->places.find(name);
    if (at == file_->places.end())
        throw_file_error(path(), fmt::format("has no tensor {} among its {}", in_quotes(name),
                                             entries().size()));
    return entries()[at->second];
}

Tensor SafeTensors::tensor(const std::string& name, Device device) const {
    const TensorInfo& entry = info(name);
    const auto dtype = dtype_from_file(entry.dtype);
    if (!dtype)
        throw TypeError(fmt::format("{}: tensor {} has dtype {}, which Pippin does not have",
                                    path().string(), in_quotes(name), in_quotes(entry.dtype)));
    if (entry.shape.size() > static_cast<std::size_t>(Shape::kMaxRank))
        throw_file_error(path(), fmt::format("tensor {} has {} dimensions; Pippin has at most {}",
                                             in_quotes(name), entry.shape.size(), Shape::kMaxRank));
    std::int64_t product = 1;  // as the format allows, a zero may stand among extents of any size
    for (const std::int64_t extent : entry.shape)
        if (__builtin_mul_overflow(product, extent, &product))
            throw_file_error(path(), fmt::format("tensor {} has a shape that overflows: [{}]",
                                                 in_quotes(name), fmt::join(entry.shape, ", ")));
    file_->map.check_size(path());
    const auto bytes = file_->map.bytes().subspan(entry.offset, entry.bytes);
    // Any other byte in a bool would be undefined behaviour wherever it is read.
    if (*dtype == DType::Bool &&
        std::ranges::any_of(bytes, [](std::byte b) { return b > std::byte{1}; }))
        throw_file_error(path(), fmt::format("tensor {} is BOOL, but holds bytes that are neither "
                                             "0 nor 1",
                                             in_quotes(name)));
    return from_bytes(bytes.data(), Shape(entry.shape), *dtype, device);
}

NamedTensors SafeTensors::tensors(Device device) const {
    NamedTensors out;
    out.reserve(entries().size());
    for (const TensorInfo& info : entries())
        out.emplace_back(info.name, tensor(info.name, device));
    return out;
}

void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const Metadata& metadata) {
    std::vector<TensorInfo> infos;
    infos.reserve(tensors.size());
    for (const auto& [name, tensor] : tensors) {
        if (!tensor.defined())
            throw ValueError(
                fmt::format("save_safetensors: tensor {} is undefined", in_quotes(name)));
        infos.push_back(
            {name, std::string(dtype_in_file(tensor.dtype())), tensor.shape().to_vector(), 0, 0});
    }
    write_safetensors(path, std::move(infos), metadata,
                      [&](std::size_t i) { return tensors[i].second.raw_data(); });
}

}  // namespace pippin::io
