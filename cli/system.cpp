// The one file of cli/ that is specific to a system (POSIX; Linux and macOS where they differ).
#include "system.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "pippin/error.h"
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

extern char** environ;

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

std::string output_of(const std::vector<std::string>& command) {
    int ends[2];
    if (pipe(ends) != 0) throw Error(std::string("pipe: ") + std::strerror(errno));
    const pid_t child = fork();
    if (child < 0) throw Error(std::string("fork: ") + std::strerror(errno));
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        std::vector<std::string> kept = command;
        std::vector<char*> argv;
        for (std::string& a : kept)
            argv.push_back(a.data());
        argv.push_back(nullptr);
        execvp(argv[0], argv.data());
        _exit(127);
    }
    close(ends[1]);
    std::string out;
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) != 0;) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        out.append(buffer, static_cast<std::size_t>(n));
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        throw FileError(fmt::format("{}: not found or not executable", command[0]));
    if (status != 0) throw Error(fmt::format("{} failed (status {})", command[0], status));
    return out;
}

std::int64_t peak_resident_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
    return usage.ru_maxrss;
#else
    return std::int64_t{usage.ru_maxrss} * 1024;
#endif
}

std::int64_t memory_bytes() {
    return std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
}

std::int64_t free_memory_bytes() {
    // Linux counts what caches would give back; sysconf does not.
    std::ifstream in("/proc/meminfo");
    for (std::string line; std::getline(in, line);)
        if (line.rfind("MemAvailable:", 0) == 0) return std::atoll(line.c_str() + 13) * 1024;
#ifdef _SC_AVPHYS_PAGES
    return std::int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
#else
    return 0;
#endif
}

std::vector<std::string> environment_of(const std::vector<std::string>& prefixes) {
    std::vector<std::string> out;
    for (char** entry = environ; entry && *entry; ++entry)
        for (const std::string& prefix : prefixes)
            if (std::string(*entry).rfind(prefix, 0) == 0) out.emplace_back(*entry);
    std::sort(out.begin(), out.end());
    return out;
}

std::string platform() {
    std::string name;
    std::ifstream in("/etc/os-release");
    for (std::string line; std::getline(in, line);)
        if (line.rfind("PRETTY_NAME=", 0) == 0) {
            name = line.substr(12);
            std::erase(name, '"');
            name += ", ";
        }
    utsname u{};
    if (uname(&u) != 0) return name + "unknown";
    return name + u.sysname + " " + u.release + " " + u.machine;
}

}  // namespace pippin::cli
