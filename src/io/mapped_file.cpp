#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/file_error.h"

namespace pippin::io {
namespace {

struct Descriptor {
    int fd;
    ~Descriptor() {
        if (fd >= 0) ::close(fd);
    }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
    // Not blocking, so that a pipe of this name is refused instead of waited for.
    const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file.fd < 0) throw_file_error(path, "cannot open", errno);
    struct stat status {};
    if (::fstat(file.fd, &status) != 0) throw_file_error(path, "cannot read", errno);
    if (S_ISDIR(status.st_mode)) throw_file_error(path, "is a folder, but a file was expected");
    if (!S_ISREG(status.st_mode)) throw_file_error(path, "is not a regular file");
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ == 0) return;  // an empty map is an error to mmap
    void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (map == MAP_FAILED) throw_file_error(path, "cannot map into memory", errno);
    data_ = static_cast<const std::byte*>(map);
}

MappedFile::~MappedFile() {
    if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace pippin::io
