// Checkpoints: the safetensors format, read through a memory map and written atomically.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
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

}  // namespace pippin::io
