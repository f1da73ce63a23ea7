// What a PyTorch checkpoint (torch.save's zip format) holds, down to plain bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/pickle.h"
#include "io/zip_archive.h"
#include "pippin/io.h"
#include "pippin/shape.h"

namespace pippin::io {

class TorchContent {
  public:
    struct Entry {
        std::string name;  ///< the way through the containers, joined with dots
        std::uint32_t tensor;
    };

    /// Reads and checks everything but the tensors' bytes. `path` is for errors.
    TorchContent(std::span<const std::byte> file, const std::filesystem::path& path);

    const std::vector<Entry>& entries() const { return entries_; }
    const std::map<std::string, Scalar>& scalars() const { return scalars_; }

    using Visitor = std::function<void(std::size_t entry, const Shape& shape, DType dtype,
                                       const std::byte* row_major)>;
    /// Gives the elements of every tensor, storage by storage, so that only one of these is in
    /// memory at a time. FileError where a tensor does not fit its storage; TypeError for a dtype
    /// that Pippin lacks.
    void visit(const Visitor& visitor) const;

  private:
    void check_tensors();
    void check(const Entry& entry) const;
    const PickledStorage& storage_of(const Entry& entry) const {
        return document_.storages[document_.tensors[entry.tensor].storage];
    }
    std::vector<std::byte> read_storage(const PickledStorage& storage) const;

    ZipArchive archive_;
    std::uint64_t file_bytes_;
    std::string folder_;  ///< of all entries, with its slash
    PickleDocument document_;
    std::vector<Entry> entries_;
    std::map<std::string, Scalar> scalars_;
};

}  // namespace pippin::io
