// No op of a model's training step is left to the processor.
#include <gtest/gtest.h>

#include "backends/gpu/work.h"
#include "gpu/gpu_testing.h"
#include "gpu/model_plans.h"

namespace pippin::gpu_test {
namespace {

class ModelSteps : public GpuTest {};

TEST_F(ModelSteps, HaveAKernelForEveryLaunch) {
    gpu::Features features;
    int plans = 0;
    for_each_step_plan([&](const std::string& what, const plan::Plan& plan) {
        ++plans;
        ASSERT_GT(plan.launches.size(), 10u) << what;
        for (const bool large : {false, true}) {
            features.large_tiles = large;
            const gpu::Work work = gpu::make_work(plan, features);
            for (const gpu::Step& s : work.steps)
                EXPECT_FALSE(s.on_cpu)
                    << what << ": " << plan.launches[static_cast<std::size_t>(s.launch)].name
                    << ": " << s.why;
        }
    });
    EXPECT_GE(plans, 38);
}

}  // namespace
}  // namespace pippin::gpu_test
