// The part of Python's pickle format that PyTorch checkpoints need: containers, numbers, texts and
// tensors. Everything else that a pickle can ask for (calling functions, making objects) is refused
// by name, so reading a file never runs anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pippin/dtype.h"

namespace pippin::io {

/// torch.FloatStorage and its kin.
struct StorageType {
    std::string_view name;
    std::size_t bytes;           ///< of one element
    std::optional<DType> dtype;  ///< nothing for those that Pippin lacks
};

/// One object. Objects lie in the document's list and name each other by their places there, so
/// that neither reading nor destroying a deeply nested one recurses.
struct PickleNode {
    enum class Kind : std::uint8_t {
        None,
        Bool,
        Int,
        Float,
        Text,
        Tuple,
        List,
        Dict,  ///< items: key, value, key, value, ...
        Global,
        Storage,
        Tensor
    };
    Kind kind = Kind::None;
    union {
        std::int64_t integer = 0;  ///< Bool, Int; Global: which; Storage, Tensor: place in the list
        double real;
    };
    std::string text;
    std::vector<std::uint32_t> items;
};

struct PickledStorage {
    std::string key;  ///< names the archive's entry data/<key>
    const StorageType* type = nullptr;
    std::int64_t numel = 0;
};

/// As the file says; nothing is checked against the storage.
struct PickledTensor {
    std::uint32_t storage = 0;
    std::int64_t offset = 0;
    std::vector<std::int64_t> size, stride;
};

struct PickleDocument {
    std::uint32_t root = 0;
    std::vector<PickleNode> nodes;
    std::vector<PickledStorage> storages;
    std::vector<PickledTensor> tensors;
};

/// FileError naming the byte, the instruction or the global, when the pickle is malformed or asks
/// for more than the above. `path` is for errors.
PickleDocument parse_pickle(std::span<const std::byte> pickle, const std::filesystem::path& path);

}  // namespace pippin::io
