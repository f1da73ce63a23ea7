// The one file of cli/ that is specific to a system (POSIX; Linux and macOS where they differ).
#include "system.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

namespace pippin::cli {

std::filesystem::path own_path() {
    std::error_code error;
#ifdef __APPLE__
    char buffer[4096];
    std::uint32_t size = sizeof buffer;
    if (_NSGetExecutablePath(buffer, &size) != 0) return {};
    return std::filesystem::canonical(buffer, error);
#else
    return std::filesystem::read_symlink("/proc/self/exe", error);
#endif
}

bool is_executable(const std::filesystem::path& file) {
    std::error_code error;
    return std::filesystem::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0;
}

void set_environment(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
}

std::string replace_by(const std::filesystem::path& program,
                       const std::vector<std::string>& arguments) {
    std::string own = program.string();
    std::vector<std::string> kept = arguments;
    std::vector<char*> argv{own.data()};
    for (std::string& a : kept)
        argv.push_back(a.data());
    argv.push_back(nullptr);
    execv(own.c_str(), argv.data());
    return std::strerror(errno);
}

std::string platform() {
    utsname u{};
    if (uname(&u) != 0) return "unknown";
    return std::string(u.sysname) + " " + u.release + " " + u.machine;
}

}  // namespace pippin::cli
