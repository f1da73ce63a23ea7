// This test program, run again with another environment, which is read once a process.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace pippin::gpu_test {

struct Ended {
    int status = 0;
    std::string output;
};
using Environment = std::vector<std::pair<std::string, std::string>>;

/// Runs tests whose names match, disabled ones as well.
Ended run_again(const std::string& filter, const Environment& environment);

/// Whether at least one test ran and all passed.
::testing::AssertionResult passes_again(const std::string& filter, const Environment& environment);

}  // namespace pippin::gpu_test
