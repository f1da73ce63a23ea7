// Dtypes, shapes and random numbers.
#include <limits>
#include <thread>

#include "graph/philox.h"
#include "graph/random.h"
#include "graph_testing.h"
#include "pippin/random.h"

namespace pippin::graph {
namespace {

TEST(DTypes, NamesAndPromotion) {
    EXPECT_EQ(name_of(DType::Bool), "bool");
    EXPECT_EQ(name_of(DType::BFloat16), "bfloat16");
    EXPECT_EQ(name_of(DType::Float64), "float64");
    EXPECT_EQ(promote_types(DType::Bool, DType::UInt8), DType::UInt8);
    EXPECT_EQ(promote_types(DType::UInt8, DType::Int32), DType::Int32);
    EXPECT_EQ(promote_types(DType::Float16, DType::Int64), DType::Float16);
    EXPECT_EQ(promote_types(DType::Float16, DType::BFloat16), DType::Float32);
    EXPECT_EQ(promote_types(DType::BFloat16, DType::BFloat16), DType::BFloat16);
    EXPECT_EQ(promote_types(DType::Float64, DType::Float32), DType::Float64);
}

float half(std::uint32_t bits) {
    Half h;
    h.bits = static_cast<std::uint16_t>(bits);
    return h;
}

TEST(Half, EveryValueComesBack) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const float f = half(bits);
        if ((bits & 0x7fff) > 0x7c00)
            EXPECT_TRUE(std::isnan(f) && std::isnan(static_cast<float>(Half(f)))) << bits;
        else
            EXPECT_EQ(Half(f).bits, bits);
    }
    EXPECT_EQ(half(0x0001), 0x1p-24f);
    EXPECT_EQ(half(0x3c00), 1.f);
    EXPECT_EQ(half(0x7bff), 65504.f);
    EXPECT_EQ(half(0xfc00), -std::numeric_limits<float>::infinity());
}

// Between two neighbours the middle rounds to the even one and anything else to the nearer.
TEST(Half, RoundsToNearestEven) {
    for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
        const float middle = (half(bits) + half(bits + 1)) / 2;
        ASSERT_EQ(Half(middle).bits, bits + (bits & 1)) << bits;
        ASSERT_EQ(Half(std::nextafter(middle, 0.f)).bits, bits);
        ASSERT_EQ(Half(std::nextafter(middle, 1e9f)).bits, bits + 1);
        ASSERT_EQ(Half(-middle).bits, (bits + (bits & 1)) | 0x8000);
    }
    EXPECT_EQ(Half(65519.996f).bits, 0x7bff);
    EXPECT_EQ(Half(65520.f).bits, 0x7c00);
    EXPECT_EQ(Half(1e30f).bits, 0x7c00);
    EXPECT_EQ(Half(std::numeric_limits<float>::denorm_min()).bits, 0);
}

TEST(BFloat, RoundsToNearestEven) {
    EXPECT_EQ(BFloat(1.00390625f).bits, 0x3f80);
    EXPECT_EQ(BFloat(1.01171875f).bits, 0x3f82);
    EXPECT_EQ(BFloat(3.4e38f).bits, 0x7f80);
    EXPECT_TRUE(std::isnan(static_cast<float>(BFloat(std::nanf("")))));
}

TEST(Shapes, Basics) {
    Shape s{2, 3};
    EXPECT_EQ(s.str(), "[2, 3]");
    EXPECT_EQ(Shape{}.str(), "[]");
    EXPECT_EQ(Shape{}.numel(), 1);
    s.insert(0, 5);
    s.insert(3, 1);
    EXPECT_EQ(s.str(), "[5, 2, 3, 1]");
    s.erase(1);
    EXPECT_EQ(s.str(), "[5, 3, 1]");
    s.push_back(4);
    EXPECT_EQ(s.back(), 4);
    EXPECT_THROW(Shape(std::vector<std::int64_t>(9, 1)), ValueError);
    Shape full{1, 1, 1, 1, 1, 1, 1, 1};
    EXPECT_THROW(full.push_back(1), ValueError);
}

TEST(Shapes, Broadcast) {
    EXPECT_EQ(broadcast_shapes({2, 1, 4}, {3, 1}).str(), "[2, 3, 4]");
    EXPECT_EQ(broadcast_shapes({3, 1}, {2, 1, 4}).str(), "[2, 3, 4]");
    EXPECT_EQ(broadcast_shapes({}, {2}).str(), "[2]");
    EXPECT_EQ(broadcast_shapes({0, 3}, {1}).str(), "[0, 3]");
    EXPECT_EQ(broadcast_shapes({1}, {0}).str(), "[0]");
    EXPECT_THROW(broadcast_shapes({0}, {2}), ValueError);
    try {
        broadcast_shapes({2, 3}, {5, 4});
        ADD_FAILURE();
    } catch (const ValueError& e) {
        EXPECT_STREQ(e.what(),
                     "shapes [2, 3] and [5, 4] do not broadcast: extents 2 and 5 differ and "
                     "neither is 1");
    }
}

// The known answers that Random123 publishes.
static_assert(philox4x32({0, 0, 0, 0}, {0, 0}) ==
              PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                         {0xffffffff, 0xffffffff}) ==
              PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                         {0xa4093822, 0x299f31d0}) ==
              PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

TEST(Random, NumbersDependOnSeedAndSequenceAlone) {
    World w;
    manual_seed(42);
    const NodePtr a = random_bits({2, 3}, kCpu), b = random_uniform({5}, kCpu);
    EXPECT_EQ(random_state().sequence, 2u);
    EXPECT_NE(a->run_args[1], b->run_args[1]);
    const auto words = philox4x32({1, 0, 0, 0}, {42, 0});
    EXPECT_EQ(w(a)[4], words[0]);
    EXPECT_EQ(w(a)[5], words[1]);
    manual_seed(42);
    EXPECT_EQ(w(random_bits({2, 3}, kCpu)), w(a));
    set_random_state({42, 1});
    EXPECT_EQ(w(random_uniform({5}, kCpu)), w(b));
}

TEST(Random, UniformIsInRangeAndEven) {
    World w;
    manual_seed(1);
    const std::vector<double> v = w(random_uniform({10000}, kCpu));
    double sum = 0, squares = 0;
    for (const double x : v) {
        ASSERT_TRUE(x >= 0 && x < 1);
        ASSERT_EQ(x, static_cast<float>(x));
        sum += x;
        squares += x * x;
    }
    EXPECT_NEAR(sum / 10000, 0.5, 0.01);
    EXPECT_NEAR(squares / 10000, 1. / 3, 0.01);
}

TEST(Random, EveryThreadDrawsAnotherSequenceNumber) {
    manual_seed(0);
    std::vector<std::thread> threads;
    for (int k = 0; k < 4; ++k)
        threads.emplace_back([] {
            for (int i = 0; i < 1000; ++i)
                next_random();
        });
    for (std::thread& t : threads)
        t.join();
    EXPECT_EQ(random_state().sequence, 4000u);
}

}  // namespace
}  // namespace pippin::graph
