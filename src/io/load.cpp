// load(): finds out what a checkpoint is.
#include <fmt/format.h>

#include <map>
#include <set>
#include <system_error>

#include "io/file_error.h"
#include "io/file_kind.h"
#include "io/input_file.h"
#include "io/mapped_file.h"
#include "io/shard_index.h"
#include "pippin/io.h"

namespace pippin::io {
namespace {

namespace fs = std::filesystem;

// Hugging Face's names, what they prefer first.
constexpr const char* kNames[] = {"model.safetensors", "model.safetensors.index.json",
                                  "pytorch_model.bin", "pytorch_model.bin.index.json"};

fs::path find_in_folder(const fs::path& folder) {
    std::error_code error;
    for (const char* name : kNames)
        if (fs::exists(folder / name, error)) return folder / name;
    throw_file_error(folder, fmt::format("has no checkpoint; one of {} was expected in this folder",
                                         fmt::join(kNames, ", ")));
}

NamedTensors load_shards(const fs::path& path, Device device);

NamedTensors load_file(const fs::path& path, Device device, bool may_be_index) {
    const FileKind kind = kind_of(MappedFile(path).bytes());
    switch (kind) {
        case FileKind::SafeTensors:
            return load_safetensors(path).tensors(device);
        case FileKind::Zip:
        case FileKind::LegacyTorch:  // refused there
            return load_torch(path, device).tensors;
        case FileKind::Json:
            if (may_be_index) return load_shards(path, device);
            break;
        default:
            break;
    }
    throw_file_error(path, kind == FileKind::Empty
                               ? "is empty"
                               : "is neither a safetensors file nor a PyTorch checkpoint (a zip "
                                 "file) nor an index of shards (JSON)");
}

NamedTensors load_shards(const fs::path& path, Device device) {
    const std::vector<std::byte> text = read_file(path);
    const ShardIndex index =
        parse_shard_index({reinterpret_cast<const char*>(text.data()), text.size()}, path);
    std::set<std::string> files;
    for (const auto& [name, file] : index)
        files.insert(file);
    NamedTensors out;
    std::set<std::string> found;
    for (const std::string& file : files)
        for (auto& [name, tensor] : load_file(path.parent_path() / file, device, false)) {
            const auto entry = index.find(name);
            if (entry == index.end() || entry->second != file) continue;
            found.insert(name);
            out.emplace_back(name, std::move(tensor));
        }
    std::vector<std::string> missing;
    for (const auto& [name, file] : index)
        if (!found.contains(name))
            missing.push_back(fmt::format("{} in {}", in_quotes(name), in_quotes(file)));
    if (!missing.empty())
        throw_file_error(path, fmt::format("names tensors that its shards do not hold: {}",
                                           fmt::join(missing, ", ")));
    return out;
}

}  // namespace

NamedTensors load(const fs::path& path, Device device) {
    std::error_code error;
    if (fs::is_directory(path, error)) return load_file(find_in_folder(path), device, true);
    return load_file(path, device, true);
}

}  // namespace pippin::io
