// Faults of other frameworks with NaN, infinity, dtypes and reductions: each one's input, its right
// answer, and neighbours of the same kind.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "pippin/pippin.h"

namespace pippin {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
using Floats = std::vector<float>;
using Ints = std::vector<std::int64_t>;

bool nan_at(const Tensor& t, std::size_t i) { return std::isnan(t.to_vector<float>().at(i)); }

TEST(K11, NanGoesThroughExtremaAndActivations) {
    const Tensor x = tensor<float>({1, kNan, 3});
    EXPECT_TRUE(std::isnan(x.max().item<float>()));
    EXPECT_TRUE(std::isnan(x.min().item<float>()));
    EXPECT_TRUE(nan_at(maximum(x, 2.0), 1));
    EXPECT_TRUE(nan_at(minimum(2.0, x), 1));
    EXPECT_TRUE(nan_at(relu(x), 1));
    EXPECT_TRUE(nan_at(leaky_relu(x), 1));
    EXPECT_TRUE(nan_at(clamp(x, 0, 2), 1));
    EXPECT_EQ(argmax(x).item<std::int64_t>(), 1);
    EXPECT_EQ(argmin(x).item<std::int64_t>(), 1);
    EXPECT_TRUE(nan_at(max(x, 0).values, 0));
    EXPECT_EQ(max(x, 0).indices.item<std::int64_t>(), 1);
    EXPECT_TRUE(nan_at(max_pool1d(x.reshape({1, 1, 3}), {.kernel = 3}), 0));
    EXPECT_TRUE(std::isnan(median(x).item<float>()));
    // Long enough for vector code, at every place of a vector.
    for (const std::int64_t at : {0, 1, 7, 15, 16, 31, 64}) {
        std::vector<float> v(65, 1.0f);
        v[static_cast<std::size_t>(at)] = kNan;
        EXPECT_TRUE(std::isnan(tensor(v).max().item<float>())) << at;
        EXPECT_EQ(argmax(tensor(v)).item<std::int64_t>(), at);
        EXPECT_TRUE(nan_at(relu(tensor(v)), static_cast<std::size_t>(at)));
    }
    for (const DType t : {float16, bfloat16, float64})
        EXPECT_TRUE(std::isnan(cast(x, t).max().item<float>()));
}

TEST(K12, LogSoftmaxOfWidelySpreadLogitsIsFinite) {
    const Tensor x = tensor<float>({74.59f, 12.25f, -33.5f, 0.0f, -118.125f, -245.57f});
    for (const float v : log_softmax(x, 0).to_vector<float>())
        EXPECT_TRUE(std::isfinite(v));
    EXPECT_NEAR(log_softmax(x, 0)[5].item<float>(), -245.57f - 74.59f, 1e-4);
    EXPECT_EQ(cross_entropy(x.reshape({1, 6}), tensor<std::int64_t>({0})).item<float>(), 0);
    const Tensor far = tensor<float>({1e30f, -1e30f});
    EXPECT_EQ(log_softmax(far, 0).to_vector<float>(), (Floats{0, -2e30f}));
    EXPECT_EQ(softmax(far, 0).to_vector<float>(), (Floats{1, 0}));
    EXPECT_EQ(logsumexp(far, 0).item<float>(), 1e30f);
}

TEST(K13, IntegersHaveExtrema) {
    EXPECT_EQ(arange(5).max().item<std::int64_t>(), 4);
    const Tensor x = tensor<std::int64_t>({0, 1, 2, 1, 1, 0}, {3, 2});
    EXPECT_EQ(argmax(x, 1).to_vector<std::int64_t>(), (Ints{1, 0, 0}));
    EXPECT_EQ(argmin(x, 1).to_vector<std::int64_t>(), (Ints{0, 1, 1}));
    EXPECT_EQ(max(x, 1).values.to_vector<std::int64_t>(), (Ints{1, 2, 1}));
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(tensor<std::int64_t>({most - 1, most, most - 2}).max().item<std::int64_t>(), most);
    EXPECT_EQ(argmax(tensor<std::int64_t>({most - 1, most})).item<std::int64_t>(), 1);
    EXPECT_EQ(tensor<std::int64_t>({-most - 1, 3}).min().item<std::int64_t>(), -most - 1);
}

TEST(K14, AFractionalBoundOfIntegersGivesFloats) {
    const Tensor y = clamp(tensor<std::int64_t>({0, 3}), 0.1);
    EXPECT_EQ(y.dtype(), float32);
    EXPECT_EQ(y.to_vector<float>(), (Floats{0.1f, 3}));
    EXPECT_EQ(clamp(tensor<std::int64_t>({0, 3}), {}, 1.5).to_vector<float>(), (Floats{0, 1.5f}));
    EXPECT_EQ(clamp(tensor<std::int64_t>({0, 3}), 1).dtype(), int64);
}

TEST(K15, LayerNormOfAZeroRowInHalves) {
    for (const DType t : {float16, bfloat16, float32}) {
        const Tensor y = layer_norm(zeros({2, 8}, t), {8}, {}, {}, 1e-12);
        EXPECT_EQ(y.to_vector<float>(), Floats(16, 0.0f));
    }
    // One row of zeros beside an ordinary one.
    const Tensor x =
        cat(std::vector<Tensor>{zeros({1, 4}, float16), cast(arange(4), float16).reshape({1, 4})});
    const Floats y = layer_norm(x, {4}, {}, {}, 1e-12).to_vector<float>();
    for (std::size_t i = 0; i < 8; ++i)
        EXPECT_NEAR(y[i], i < 4 ? 0 : (static_cast<float>(i) - 5.5f) / 1.118034f, 2e-3);
}

TEST(K16, BooleansAreCountedNotAdded) {
    const Tensor x = ones({128}, boolean);
    EXPECT_EQ(sum(x).item<std::int64_t>(), 128);
    EXPECT_EQ(sum(x).dtype(), int64);
    const Tensor running = cumsum(x, 0);
    EXPECT_EQ(running.dtype(), int64);
    EXPECT_EQ(running[127].item<std::int64_t>(), 128);
    EXPECT_EQ(sum(full({300}, 200, uint8)).item<std::int64_t>(), 60000);
    EXPECT_EQ(cumsum(full({300}, 200, uint8), 0)[299].item<std::int64_t>(), 60000);
    EXPECT_EQ(sum(ones({3, 300}, boolean), {1}).to_vector<std::int64_t>(), (Ints{300, 300, 300}));
}

TEST(K30, TheSquareHasSlopeZeroAtZero) {
    for (const double exponent : {2.0, 3.0, 1.5}) {
        Tensor x = tensor<float>({0, 1});
        x.requires_grad_();
        pow(x, exponent).sum().backward();
        EXPECT_EQ(x.grad().to_vector<float>(), (Floats{0, static_cast<float>(exponent)}));
    }
    Tensor x = zeros({3}), e = full({3}, 2);
    x.requires_grad_();
    pow(x, e).sum().backward();
    EXPECT_EQ(x.grad().to_vector<float>(), (Floats{0, 0, 0}));
    Tensor s = zeros({2});
    s.requires_grad_();
    square(s).sum().backward();
    EXPECT_EQ(s.grad().to_vector<float>(), (Floats{0, 0}));
    for (const double p : {1.0, 2.0, 3.0, static_cast<double>(kInf)}) {
        Tensor z = zeros({4});
        z.requires_grad_();
        norm(z, p).backward();
        EXPECT_EQ(z.grad().to_vector<float>(), (Floats{0, 0, 0, 0})) << p;
    }
}

}  // namespace
}  // namespace pippin
