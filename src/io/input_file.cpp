#include "io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/file_error.h"

namespace pippin::io {
namespace {

[[noreturn]] void close_and_throw(int fd, const std::filesystem::path& path, const char* what,
                                  int system_error) {
    ::close(fd);
    throw_file_error(path, what, system_error);
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path) {
    // Not blocking, so that a pipe of this name is refused instead of waited for.
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) throw_file_error(path, "cannot open", errno);
    struct stat status {};
    if (::fstat(fd_, &status) != 0) close_and_throw(fd_, path, "cannot read", errno);
    if (S_ISDIR(status.st_mode))
        close_and_throw(fd_, path, "is a folder, but a file was expected", 0);
    if (!S_ISREG(status.st_mode)) close_and_throw(fd_, path, "is not a regular file", 0);
    size_ = static_cast<std::size_t>(status.st_size);
}

InputFile::~InputFile() { ::close(fd_); }

std::vector<std::byte> read_file(const std::filesystem::path& path) {
    const InputFile file(path);
    std::vector<std::byte> content(file.size());
    std::size_t have = 0;
    while (have < content.size()) {
        const ssize_t got = ::read(file.descriptor(), content.data() + have, content.size() - have);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw_file_error(path, "cannot read", errno);
        if (got == 0) break;  // it shrank meanwhile
        have += static_cast<std::size_t>(got);
    }
    content.resize(have);
    return content;
}

}  // namespace pippin::io
