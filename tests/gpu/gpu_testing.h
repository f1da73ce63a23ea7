// A GPU for tests: whatever the machine has, software included.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "pippin/device.h"
#include "plan/plan.h"
#include "programs/oracle.h"
#include "runtime/backend.h"

namespace pippin::gpu_test {

inline const Device kGpu{Device::Type::GPU};

/// Skips a test where this build or machine has no GPU, not even a software one.
class GpuTest : public ::testing::Test {
  protected:
    void SetUp() override;
};

/// Runs a plan whose slots are inputs, one per buffer, and reads all buffers back.
void run_plan(const plan::Plan& plan, std::vector<programs::Buffer>& buffers,
              const std::vector<std::uint64_t>& scalars);

/// A plan of one program. `place`: the number of each access' buffer (empty: one each).
plan::Plan program_plan(const plan::Program& program, const std::vector<programs::Buffer>& buffers,
                        const std::vector<std::size_t>& place = {});

inline void run_program(const plan::Program& program, std::vector<programs::Buffer>& buffers,
                        const std::vector<std::uint64_t>& scalars,
                        const std::vector<std::size_t>& place = {}) {
    run_plan(program_plan(program, buffers, place), buffers, scalars);
}

}  // namespace pippin::gpu_test
