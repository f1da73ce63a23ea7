// Tests that run in several processes.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "cli/process.h"
#include "train/distributed.h"

namespace pippin::test {

inline bool is_one_of_several() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

/// Why tests of several processes cannot run here, or nothing.
inline std::string no_processes() {
    if (!dist::has_transport()) return "this build has no MPI";
    if (!std::filesystem::exists(kPippin)) return "this build has no pippin command";
    if (shell("mpirun --version").code != 0) return "there is no mpirun";
    return "";
}

/// This program again, with that test alone, as several processes.
inline std::string launch_line(int processes, const std::string& test,
                               const std::string& environment = "") {
    return "env XDG_CONFIG_HOME=/nonexistent OMP_WAIT_POLICY=passive " + environment + " " +
           kPippin.string() + " launch --num_processes " + std::to_string(processes) + " " +
           std::filesystem::read_symlink("/proc/self/exe").string() +
           " --gtest_color=no --gtest_filter=" + test;
}

inline std::string this_test() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    return std::string(info->test_suite_name()) + "." + info->name();
}

/// In the process that runs all tests: runs this one in several processes, where this function
/// gives false, and is done.
inline bool ran_in_processes(int processes) {
    if (is_one_of_several()) return false;
    const Outcome o = shell("timeout 120 " + launch_line(processes, this_test()));
    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(o.has("[  PASSED  ] 1 test.")) << o.output;
    return true;
}

class Processes : public testing::Test {
  protected:
    void SetUp() override {
        if (is_one_of_several()) return;
        if (const std::string reason = no_processes(); !reason.empty()) GTEST_SKIP() << reason;
    }
};

}  // namespace pippin::test
