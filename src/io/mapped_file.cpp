#include "io/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "io/file_error.h"

namespace pippin::io {

MappedFile::MappedFile(const std::filesystem::path& path) : file_(path), size_(file_.size()) {
    if (size_ == 0) return;  // an empty map is an error to mmap
    void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file_.descriptor(), 0);
    if (map == MAP_FAILED) throw_file_error(path, "cannot map into memory", errno);
    data_ = static_cast<const std::byte*>(map);
}

MappedFile::~MappedFile() {
    if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::check_size(const std::filesystem::path& path) const {
    struct stat now {};
    if (::fstat(file_.descriptor(), &now) != 0)
        throw_file_error(path, "cannot be looked at", errno);
    if (static_cast<std::size_t>(now.st_size) < size_)
        throw_file_error(path, fmt::format("was cut from {} to {} bytes after it was opened; load "
                                           "it again when it is whole",
                                           size_, now.st_size));
}

}  // namespace pippin::io
