#include "io/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>

#include "io/file_error.h"
#include "io/input_file.h"

namespace pippin::io {

MappedFile::MappedFile(const std::filesystem::path& path) {
    const InputFile file(path);
    size_ = file.size();
    if (size_ == 0) return;  // an empty map is an error to mmap
    void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    if (map == MAP_FAILED) throw_file_error(path, "cannot map into memory", errno);
    data_ = static_cast<const std::byte*>(map);
}

MappedFile::~MappedFile() {
    if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace pippin::io
