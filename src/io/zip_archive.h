// The entries of a zip file in memory, through libzip. Nobody vouches for the file: sizes are
// checked before memory is taken for them, and checksums once the bytes are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct zip;

namespace pippin::io {

class ZipArchive {
  public:
    /// FileError when it is no zip file or a damaged one. The bytes must outlive this; `path` is
    /// for errors.
    ZipArchive(std::span<const std::byte> file, std::filesystem::path path);
    ~ZipArchive();
    ZipArchive(const ZipArchive&) = delete;
    ZipArchive& operator=(const ZipArchive&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::vector<std::string> names() const;
    bool contains(const std::string& name) const;
    /// Bytes of an entry once unpacked, as the archive says. FileError when there is no such entry,
    /// when its size cannot be true, or when it is encrypted or packed in an unusual way.
    std::uint64_t size_of_entry(const std::string& name) const;
    /// The unpacked bytes; FileError also when their checksum is wrong.
    std::vector<std::byte> read(const std::string& name) const;

  private:
    struct Entry {
        std::uint64_t index, bytes;
    };
    Entry find(const std::string& name) const;
    [[noreturn]] void fail(const std::string& name, const std::string& what) const;

    std::filesystem::path path_;
    std::uint64_t file_bytes_;
    ::zip* zip_ = nullptr;
};

}  // namespace pippin::io
