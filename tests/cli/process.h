// Runs a program as a person would, and catches what it prints.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace pippin::test {

struct Outcome {
    int code = -1;  ///< exit code; 128 + signal
    std::string output;

    std::vector<std::string> lines() const {
        std::vector<std::string> out(1);
        for (const char c : output)
            if (c == '\n')
                out.emplace_back();
            else
                out.back() += c;
        if (out.back().empty()) out.pop_back();
        return out;
    }
    bool has(const std::string& text) const { return output.find(text) != std::string::npos; }
};

/// A shell command; standard output and error together.
inline Outcome shell(const std::string& command) {
    Outcome out;
    std::FILE* pipe = popen(("(" + command + ") 2>&1 </dev/null").c_str(), "r");
    if (!pipe) return out;
    std::array<char, 4096> buffer;
    while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
        out.output.append(buffer.data(), n);
    const int status = pclose(pipe);
    out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return out;
}

/// An empty folder that goes away with this object.
class ScratchFolder {
  public:
    ScratchFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "pippin-test-XXXXXX").string();
        path = mkdtemp(name.data());
    }
    ~ScratchFolder() {
        std::error_code error;
        std::filesystem::remove_all(path, error);
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    std::filesystem::path path;
};

}  // namespace pippin::test
