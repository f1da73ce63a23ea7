#include "gpu/self.h"

#include <array>
#include <cstdio>
#include <filesystem>

namespace pippin::gpu_test {

Ended run_again(const std::string& filter, const Environment& environment) {
    std::string command = "env";
    for (const auto& [name, value] : environment)
        command += " " + name + "='" + value + "'";
    command += " '" + std::filesystem::read_symlink("/proc/self/exe").string() +
               "' --gtest_also_run_disabled_tests --gtest_color=no --gtest_filter='" + filter +
               "' 2>&1";
    Ended e;
    std::FILE* pipe = popen(command.c_str(), "r");
    if (!pipe) return {-1, "it does not start"};
    std::array<char, 4096> buffer;
    for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
        e.output.append(buffer.data(), n);
    e.status = pclose(pipe);
    return e;
}

::testing::AssertionResult passes_again(const std::string& filter, const Environment& environment) {
    const Ended e = run_again(filter, environment);
    if (e.status == 0 && e.output.find("[       OK ]") != std::string::npos)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "status " << e.status << "\n" << e.output;
}

}  // namespace pippin::gpu_test
