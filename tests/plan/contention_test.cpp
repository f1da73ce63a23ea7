// When waiting threads stop spinning, and when they begin again.
#include "backends/cpu/contention.h"

#include <gtest/gtest.h>

namespace pippin::cpu {
namespace {

using Mode = WaitPolicy::Mode;

// A machine on which two plans take 1 and 5 ms times what is given for each mode.
struct Machine {
    WaitPolicy policy;
    RunTimes plans[2];
    double spun = 0;
    void run(double seconds, double spin, double sleep) {
        int k = 0;
        for (double t = 0; t < seconds; k = 1 - k) {
            const bool spins = policy.mode() == Mode::Spin;
            const double took = (k ? 5e-3 : 1e-3) * (spins ? spin : sleep);
            if (spins) spun += took;
            policy.add(took, plans[k]);
            t += took;
        }
    }
};

TEST(WaitPolicy, CoresOfOnesOwnAreSpunOn) {
    Machine m;
    m.run(60, 1, 2);
    EXPECT_EQ(m.policy.mode(), Mode::Spin);
    EXPECT_GT(m.spun, 59.5);  // trials are few
}

TEST(WaitPolicy, ContendedCoresAreSleptOn) {
    Machine m;
    m.run(60, 80, 2);
    EXPECT_EQ(m.policy.mode(), Mode::Sleep);
    EXPECT_LT(m.spun, 4);
    m.run(20, 1, 2);  // the others have gone
    EXPECT_EQ(m.policy.mode(), Mode::Spin);
}

TEST(WaitPolicy, ALittleDifferenceChangesNothing) {
    Machine m;
    m.run(60, 1, 0.9);
    EXPECT_EQ(m.policy.mode(), Mode::Spin);
}

// Each plan runs once: there is nothing to compare with, and no trial is long.
TEST(WaitPolicy, NewPlansAlwaysAreTriedOnce) {
    WaitPolicy policy;
    double slept = 0;
    for (int i = 0; i < 1000; ++i) {
        RunTimes plan;
        if (policy.mode() == Mode::Sleep) slept += 0.01;
        policy.add(0.01, plan);
    }
    EXPECT_LT(slept, 0.1);
}

}  // namespace
}  // namespace pippin::cpu
