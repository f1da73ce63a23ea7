// Runs a program as a person would, and catches what it prints.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "common/temp_folder.h"

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

inline const std::filesystem::path kPippin =
    std::filesystem::path(PIPPIN_BUILD_DIR) / "bin" / "pippin";

/// Tests of the pippin command, each with a folder of its own.
class CommandTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!std::filesystem::exists(kPippin)) GTEST_SKIP() << "this build has no pippin command";
    }
    std::string at(const std::string& name) const { return (folder / name).string(); }
    TempFolder folder;
};

}  // namespace pippin::test
