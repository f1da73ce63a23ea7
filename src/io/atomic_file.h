// Replaces a file's content in one step.
#pragma once

#include <cstddef>
#include <filesystem>

namespace pippin::io {

/// The names in the folder are on the disk when this returns, where the file system can do that.
void flush_folder(const std::filesystem::path& path);

/// Collects the new content in ".<name>.partial" beside the target and renames it at commit(). A
/// writer that was killed leaves the old target and the partial file, which the next writer of the
/// same target takes over. Writers of one target, in any process, wait for each other.
class AtomicFile {
  public:
    /// FileError when the folder is missing or cannot be written to.
    explicit AtomicFile(const std::filesystem::path& target);
    /// Without commit(): removes the partial file, and the target stays as it was.
    ~AtomicFile();
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;

    void write(const void* data, std::size_t bytes);
    /// The content is on the disk, and then under the target's name, when this returns.
    void commit();

  private:
    void open_and_lock();

    std::filesystem::path target_, folder_, partial_;
    int fd_ = -1;
};

}  // namespace pippin::io
