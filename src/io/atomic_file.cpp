#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "io/file_error.h"

namespace pippin::io {
namespace {

// On Apple systems fsync() leaves data in the drive's cache.
bool flush_to_disk(int fd) {
#ifdef F_FULLFSYNC
    if (::fcntl(fd, F_FULLFSYNC) == 0) return true;
#endif
    return ::fsync(fd) == 0;
}

// Where a chain of symbolic links ends, so that saving writes what the link names.
std::filesystem::path resolve_links(const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::is_symlink(path, error)) return path;
    std::filesystem::path resolved = std::filesystem::weakly_canonical(path, error);
    return error ? path : resolved;
}

}  // namespace

void flush_folder(const std::filesystem::path& path) {
    const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;
    flush_to_disk(folder);
    ::close(folder);
}

AtomicFile::AtomicFile(const std::filesystem::path& target) : target_(resolve_links(target)) {
    folder_ = target_.has_parent_path() ? target_.parent_path() : std::filesystem::path(".");
    if (!target_.has_filename()) throw_file_error(target_, "names no file to write to");
    std::error_code error;
    if (std::filesystem::is_directory(target_, error))
        throw_file_error(target_, "is a folder, but a file was expected");
    // A device or pipe would be replaced by a file.
    const auto kind = std::filesystem::symlink_status(target_, error).type();
    if (kind != std::filesystem::file_type::not_found &&
        kind != std::filesystem::file_type::regular)
        throw_file_error(target_, "is not a regular file, so it is not replaced by one");
    if (!std::filesystem::is_directory(folder_, error))
        throw_file_error(target_, "cannot write: there is no folder " + folder_.string());
    partial_ = folder_ / ("." + target_.filename().string() + ".partial");
    open_and_lock();

    if (::ftruncate(fd_, 0) != 0) {  // what a killed writer left
        const int reason = errno;
        ::close(fd_);
        throw_file_error(partial_, "cannot write", reason);
    }
    struct stat old {};
    if (::stat(target_.c_str(), &old) == 0) {
        // Best effort: who may read the old file may read the new one.
        [[maybe_unused]] const int ignored = ::fchmod(fd_, old.st_mode & 0777);
    }
}

void AtomicFile::open_and_lock() {
    for (;;) {
        fd_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                     0666);
        if (fd_ < 0) throw_file_error(target_, "cannot write to this folder", errno);
        int locked;
        do
            locked = ::flock(fd_, LOCK_EX);
        while (locked != 0 && errno == EINTR);
        // A file system without locks: go on. The rename is still one step.
        struct stat mine {
        }, named{};
        if (::fstat(fd_, &mine) == 0 && !S_ISREG(mine.st_mode)) {
            ::close(fd_);
            throw_file_error(partial_, "is in the way: it is not a regular file");
        }
        // While this one waited, the writer before it may have renamed or removed the file that it
        // opened: then its name is free or belongs to another file by now.
        if (::stat(partial_.c_str(), &named) == 0 && named.st_ino == mine.st_ino &&
            named.st_dev == mine.st_dev)
            return;
        ::close(fd_);
    }
}

AtomicFile::~AtomicFile() {
    if (fd_ < 0) return;
    ::unlink(partial_.c_str());  // before the lock goes
    ::close(fd_);
}

void AtomicFile::write(const void* data, std::size_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t written = ::write(fd_, at, std::min(bytes, std::size_t{1} << 30));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) throw_file_error(target_, "cannot write", errno);
        at += written;
        bytes -= static_cast<std::size_t>(written);
    }
}

void AtomicFile::commit() {
    if (!flush_to_disk(fd_)) throw_file_error(target_, "cannot write to the disk", errno);
    if (::rename(partial_.c_str(), target_.c_str()) != 0)
        throw_file_error(target_, "cannot replace the file", errno);
    ::close(fd_);
    fd_ = -1;
    // The new name is on the disk when its folder is. Some file systems cannot sync folders, and
    // the content is safe by now: no reason to fail.
    flush_folder(folder_);
}

}  // namespace pippin::io
