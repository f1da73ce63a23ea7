// Attention on the GPU against the record's reference.
#include "gpu/attention_testing.h"

#include <cstring>

#include "gpu/heavy_testing.h"

namespace pippin::gpu_test {
namespace {

class Attention : public GpuTest {
  protected:
    TrialsOnGpu on_gpu;
};

const AttentionCase kCases[] = {
    {2, 3, 40, 50, 64, 64, false, 0, 0, false, DType::Float32, true},
    {2, 2, 9, 37, 20, 33, false, 'b', 0.3},
    {1, 2, 40, 36, 7, 130, true, 'a', 0, false, DType::Float16},
    {2, 1, 35, 3, 256, 12, true, 'A', 0.1, false, DType::BFloat16, true},
    {1, 2, 3, 0, 4, 4},
    // The gradient's scores are too many to be kept on software.
    {1, 2, 150, 140, 20, 24, true, 'a', 0.2},
    {3, 2, 64, 72, 16, 8, false, 'b', 0.1, false, DType::Float16, true},
};

TEST_F(Attention, EqualsTheReferenceTwice) {
    for (AttentionCase c : kCases)
        for (const bool gradient : {false, true}) {
            c.gradient = gradient;
            heavy_test::Trial t = attention_trial(c);
            const heavy_test::Data a = t.run(), b = t.run();
            EXPECT_TRUE(close(a, attention_expected(t))) << c.str();
            EXPECT_EQ(std::memcmp(a.memory.data(), b.memory.data(), a.memory.size() * 8), 0)
                << c.str() << " gives other bits the second time";
        }
}

}  // namespace
}  // namespace pippin::gpu_test
