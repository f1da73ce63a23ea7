// A whole file as read-only memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace pippin::io {

class MappedFile {
  public:
    /// FileError when the path is missing, unreadable or no regular file.
    explicit MappedFile(const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return {data_, size_}; }

  private:
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace pippin::io
