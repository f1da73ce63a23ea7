// Runs a test once for every instruction set that this processor has.
#pragma once

#include <gtest/gtest.h>
#include "backends/cpu/vec_targets.h"

#include <hwy/targets.h>

#include "pippin/device.h"

namespace pippin::programs {

template <class F>
void for_each_target(F&& test) {
    hwy::SetSupportedTargetsForTest(0);
    const std::int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
    for (std::int64_t left = all; left != 0; left &= left - 1) {
        const std::int64_t target = left & -left;
        hwy::SetSupportedTargetsForTest(target);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        SCOPED_TRACE(hwy::TargetName(target));
        test();
        if (testing::Test::HasFatalFailure()) break;
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

/// Sets the number of threads and puts it back.
class Threads {
  public:
    explicit Threads(int n) : before_(num_threads()) { set_num_threads(n); }
    ~Threads() { set_num_threads(before_); }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

  private:
    int before_;
};

}  // namespace pippin::programs
