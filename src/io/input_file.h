// Files to read from, opened with errors that say what was found instead.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace pippin::io {

/// An open regular file. FileError when the path is missing, unreadable or something else.
class InputFile {
  public:
    explicit InputFile(const std::filesystem::path& path);
    ~InputFile();
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;
    int descriptor() const { return fd_; }
    std::size_t size() const { return size_; }

  private:
    int fd_;
    std::size_t size_ = 0;
};

/// The whole content.
std::vector<std::byte> read_file(const std::filesystem::path& path);

}  // namespace pippin::io
