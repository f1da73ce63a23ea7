// Checkpoints: safetensors files, whole or in shards, read through a memory map and written
// atomically; PyTorch's .pt and .pth files, read only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "pippin/tensor.h"

namespace pippin::io {

/// Tensors with their names, in order: what state_dict() gives and load_state_dict() takes.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
/// Free text that travels with the tensors. Other frameworks expect {"format": "pt"}.
using Metadata = std::map<std::string, std::string>;

/// What a file's header says of one tensor.
struct TensorInfo {
    std::string name;
    std::string dtype;                ///< as the file spells it: "F32", "BF16", "I64", ...
    std::vector<std::int64_t> shape;  ///< empty for a 0-d tensor
    std::uint64_t offset = 0;         ///< of its first byte in the file
    std::uint64_t bytes = 0;
};

/// An open safetensors file. Opening reads and checks the header alone; a tensor's bytes are read
/// when it is asked for. Copies share the map, which lives as long as the last of them. Saving over
/// the path meanwhile is safe (the map keeps the old file); changing the file in place is not.
class SafeTensors {
  public:
    const std::filesystem::path& path() const;
    const Metadata& metadata() const;
    /// In the header's order.
    const std::vector<TensorInfo>& entries() const;
    std::vector<std::string> names() const;
    bool contains(const std::string& name) const;
    /// FileError when the file has no such tensor.
    const TensorInfo& info(const std::string& name) const;

    /// A copy of one tensor. FileError when the file has none of this name or its bytes are not
    /// what they should be (a bool that is neither 0 nor 1); TypeError when Pippin lacks its dtype.
    Tensor tensor(const std::string& name, Device device = default_device()) const;
    /// All of them, in the header's order.
    NamedTensors tensors(Device device = default_device()) const;

  private:
    struct File;
    explicit SafeTensors(std::shared_ptr<const File> file) : file_(std::move(file)) {}
    friend SafeTensors load_safetensors(const std::filesystem::path& path);
    std::shared_ptr<const File> file_;
};

/// Opens a file and checks its header: FileError, naming the path, the tensor and what is wrong,
/// when the file is missing, truncated or malformed. Tensors must fill the file without gaps or
/// overlaps, as the format asks.
SafeTensors load_safetensors(const std::filesystem::path& path);

/// Writes the tensors (computing what is pending) to a new file in the same folder, which then
/// takes the path's place in one step: who reads the path, even after a crash, finds the old file
/// or the new one. ValueError for a name that comes twice or is not UTF-8 and for an undefined
/// tensor; FileError when the file system refuses, and then the old file is as it was.
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const Metadata& metadata = {});

/// Writes into an existing folder as Hugging Face does: model.safetensors where all tensors fit
/// into `max_shard_bytes`, else model-00001-of-00003.safetensors and so on, with the list of them
/// in model.safetensors.index.json. A tensor is never split, so one that is larger has a shard of
/// its own. What an earlier call left there under these names goes away; an interrupted call
/// leaves no index, so that load() never mixes two checkpoints. Errors as save_safetensors().
void save_sharded(const std::filesystem::path& folder, const NamedTensors& tensors,
                  std::uint64_t max_shard_bytes = 5'000'000'000, const Metadata& metadata = {});

/// A number or text beside the tensors of a PyTorch checkpoint. Whole numbers beyond 64 bits come
/// as doubles; std::monostate is Python's None.
using Scalar = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

/// What a PyTorch checkpoint holds. Names are the way through its containers, joined with dots:
/// {"model": {"fc.weight": t}, "epoch": 3} gives "model.fc.weight" and "epoch"; items of lists and
/// tuples count from 0. A tensor that is the whole checkpoint has the name "".
struct TorchCheckpoint {
    NamedTensors tensors;  ///< in the order of the file
    std::map<std::string, Scalar> scalars;
};

/// Reads what torch.save() writes since PyTorch 1.6 (a zip file). Strides are undone, and shared
/// storages are copied for each tensor. Nothing in the file is ever run: FileError naming it for
/// anything but tensors, dicts, lists, tuples, numbers and texts, for damage, and for the format
/// of older versions, with what to do. TypeError for a tensor's dtype that Pippin lacks.
TorchCheckpoint load_torch(const std::filesystem::path& path, Device device = default_device());

/// All tensors of a checkpoint, whatever it is: a safetensors file, a PyTorch file, an index of
/// shards (*.index.json), or a folder with one of these under Hugging Face's names
/// (model.safetensors, pytorch_model.bin, each also with .index.json). What is in the file decides,
/// not its name. FileError where it is none of them; shards must lie in the index's folder.
NamedTensors load(const std::filesystem::path& path, Device device = default_device());

/// Those whose name begins with `key` and a dot, without these: select(tensors, "model") makes
/// "fc.weight" of "model.fc.weight". ValueError, with the names' beginnings, where there are none.
NamedTensors select(const NamedTensors& tensors, const std::string& key);

}  // namespace pippin::io
