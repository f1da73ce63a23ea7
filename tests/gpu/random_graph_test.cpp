// Random graphs give on the GPU what the fp64 references say, as one plan and op by op.
#include <cstdlib>

#include "common/random_graphs.h"
#include "gpu/gpu_testing.h"

namespace pippin::gpu_test {
namespace {

class RandomGraphs : public GpuTest {
  protected:
    // PIPPIN_RANDOM_GRAPHS=20 makes twenty times as many.
    void check(std::uint32_t first, int count, int steps, bool smooth) {
        if (const char* times = std::getenv("PIPPIN_RANDOM_GRAPHS")) count *= std::atoi(times);
        const auto fails = [&](const random_graphs::Recipe& r) -> std::string {
            try {
                return random_graphs::difference(r, DType::Float32, 2e-3, kGpu);
            } catch (const std::exception& e) {
                return std::string("threw: ") + e.what();
            }
        };
        for (int i = 0; i < count; ++i) {
            const std::uint32_t seed = first + static_cast<std::uint32_t>(i);
            const auto r = random_graphs::random_recipe(seed, 1 + i % steps, smooth);
            ASSERT_EQ(random_graphs::shrink(r, fails).text, "") << "seed " << seed;
        }
    }
};

TEST_F(RandomGraphs, Forward) { check(1, 20, 10, false); }
TEST_F(RandomGraphs, Gradients) { check(1000000, 10, 8, true); }

}  // namespace
}  // namespace pippin::gpu_test
