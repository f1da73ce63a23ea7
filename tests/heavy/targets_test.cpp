// All tests of this program again for every instruction set that this processor has: kernels choose
// theirs once a process.
#include <fmt/format.h>
#include <gtest/gtest.h>
// First among Highway's headers, for it says which targets there are.
#include "backends/cpu/vec_targets.h"

#include <hwy/targets.h>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace pippin::heavy_test {
namespace {

constexpr const char* kVariable = "PIPPIN_TEST_TARGET";

// Before the first kernel is asked for.
const bool kLimited = [] {
    const char* target = std::getenv(kVariable);
    if (target) hwy::SetSupportedTargetsForTest(std::strtoll(target, nullptr, 10));
    return target != nullptr;
}();

TEST(Targets, EveryInstructionSetPasses) {
    if (kLimited) GTEST_SKIP() << "this is one of them";
    const std::int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
    // The lowest bit is the best one, which the other tests run with.
    for (std::int64_t left = all & (all - 1); left != 0; left &= left - 1) {
        const std::int64_t target = left & -left;
        const std::string command = fmt::format(
            "env {}={} '{}' --gtest_brief=1 --gtest_color=no "
            "--gtest_filter=-*bfloat16*:*float64* 2>&1",
            kVariable, target, std::filesystem::read_symlink("/proc/self/exe").string());
        std::FILE* pipe = popen(command.c_str(), "r");
        ASSERT_NE(pipe, nullptr);
        std::string output;
        std::array<char, 4096> buffer;
        for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
            output.append(buffer.data(), n);
        EXPECT_EQ(pclose(pipe), 0) << hwy::TargetName(target) << "\n" << output;
    }
}

}  // namespace
}  // namespace pippin::heavy_test
