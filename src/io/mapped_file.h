// A whole file as read-only memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "io/input_file.h"

namespace pippin::io {

class MappedFile {
  public:
    /// FileError when the path is missing, unreadable or no regular file.
    explicit MappedFile(const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return {data_, size_}; }
    /// Asks the system whether the file still has all its bytes: reading what was cut off a mapped
    /// file ends the program (SIGBUS). FileError naming `path` if not. What is cut while bytes are
    /// being read is not noticed; who replaces a file by renaming a new one over it, as saving does
    /// here, leaves maps of the old one whole.
    void check_size(const std::filesystem::path& path) const;

  private:
    InputFile file_;
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace pippin::io
