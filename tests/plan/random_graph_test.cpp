// Random graphs of random ops agree: as one fused plan, op by op, and through the fp64 references;
// their gradients too. The smallest failing graph is printed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/random_graphs.h"

namespace pippin {
namespace {

using namespace random_graphs;

// How many graphs where the test asks for `count`. PIPPIN_RANDOM_GRAPHS=20 makes twenty times as
// many; sanitizers see a part, since each takes that much longer.
int scaled(int count) {
    const char* times = std::getenv("PIPPIN_RANDOM_GRAPHS");
    if (times) count *= std::atoi(times);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    count /= 20;
#endif
    return count;
}

void check(std::uint32_t first, int count, int steps, DType dtype, double tolerance,
           bool smooth = false) {
    const auto fails = [&](const Recipe& r) -> std::string {
        try {
            return difference(r, dtype, tolerance);
        } catch (const std::exception& e) {
            return std::string("threw: ") + e.what();
        }
    };
    for (int i = 0; i < scaled(count); ++i) {
        const std::uint32_t seed = first + static_cast<std::uint32_t>(i);
        const Recipe r = random_recipe(seed, 1 + i % steps, smooth);
        ASSERT_EQ(shrink(r, fails).text, "") << "seed " << seed << ", " << 1 + i % steps << " ops";
    }
}

TEST(RandomGraphs, SmallFloat64) { check(1, 4000, 6, DType::Float64, 1e-9); }
TEST(RandomGraphs, LargeFloat64) { check(1000000, 1500, 30, DType::Float64, 1e-8); }
TEST(RandomGraphs, Float32) { check(2000000, 2000, 12, DType::Float32, 5e-4); }
TEST(RandomGraphs, Gradients) { check(3000000, 2500, 12, DType::Float64, 1e-7, true); }

// A planted fault that needs two ops is shrunk to those two.
TEST(RandomGraphs, ShrinkingFindsTheSmallestGraph) {
    const auto fails = [](const Recipe& r) -> std::string {
        const Graph b = build(r, DType::Float64, Device::Type::CPU);
        const bool planted = b.text.find("= softmax") != std::string::npos &&
                             b.text.find("= tanh") != std::string::npos;
        return planted ? b.text : "";
    };
    int shrunk = 0;
    for (std::uint32_t seed = 1; shrunk < 5; ++seed) {
        ASSERT_LT(seed, 1000u) << "no graph has both ops";
        const Shrunk s = shrink(random_recipe(seed, 40), fails);
        if (s.text.empty()) continue;
        EXPECT_EQ(s.recipe.steps.size(), 2u) << s.text;
        ++shrunk;
    }
}

}  // namespace
}  // namespace pippin
