// Layers: what forward computes, how parameters start, what constructors refuse.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "pippin/autograd.h"
#include "pippin/nn.h"
#include "pippin/random.h"

namespace pippin {
namespace {

struct Moments {
    double mean, std, low, high;
};

Moments moments(const Tensor& t) {
    const auto v = t.to_vector<double>();
    Moments m{0, 0, v[0], v[0]};
    for (const double x : v)
        m.mean += x, m.low = std::min(m.low, x), m.high = std::max(m.high, x);
    m.mean /= static_cast<double>(v.size());
    for (const double x : v)
        m.std += (x - m.mean) * (x - m.mean);
    m.std = std::sqrt(m.std / static_cast<double>(v.size()));
    return m;
}

// Within 4 standard errors of a uniform distribution on (-bound, bound), and filling it.
void expect_uniform(const Tensor& t, double bound) {
    const Moments m = moments(t);
    const double n = static_cast<double>(t.numel()), std = bound / std::sqrt(3.0);
    EXPECT_NEAR(m.mean, 0, 4 * std / std::sqrt(n));
    EXPECT_NEAR(m.std, std, 4 * std / std::sqrt(n));
    EXPECT_GE(m.low, -bound);
    EXPECT_LE(m.high, bound);
    EXPECT_LT(m.low, -(1 - 15 / n) * bound);
    EXPECT_GT(m.high, (1 - 15 / n) * bound);
}

void expect_normal(const Tensor& t, double mean, double std) {
    const Moments m = moments(t);
    const double n = static_cast<double>(t.numel());
    EXPECT_NEAR(m.mean, mean, 4 * std / std::sqrt(n));
    EXPECT_NEAR(m.std, std, 4 * std / std::sqrt(2 * n));
    EXPECT_GT(m.high, mean + 2.5 * std);  // no uniform distribution reaches that far
}

TEST(Init, LinearAndConvStartAsPyTorchs) {
    manual_seed(3);
    const nn::Linear l(100, 200);
    expect_uniform(l.weight, 1 / std::sqrt(100.0));
    expect_uniform(l.bias, 1 / std::sqrt(100.0));
    const nn::Conv2d c(8, 300, {.kernel = {3, 5}, .groups = 2});
    EXPECT_EQ(c.weight.shape(), (Shape{300, 4, 3, 5}));
    expect_uniform(c.weight, 1 / std::sqrt(60.0));
    expect_uniform(c.bias, 1 / std::sqrt(60.0));
    EXPECT_FALSE(nn::Linear(2, 2, false).bias.defined());
    EXPECT_FALSE(nn::Conv2d(2, 2, {.bias = false}).bias.defined());
}

TEST(Init, Functions) {
    manual_seed(4);
    Tensor t = zeros({200, 50, 2, 3});
    nn::init::kaiming_uniform_(t);
    expect_uniform(t, std::sqrt(6.0 / 300));
    nn::init::kaiming_uniform_(t, std::sqrt(5.0), nn::init::Fan::Out);
    expect_uniform(t, std::sqrt(1.0 / 1200));
    nn::init::kaiming_normal_(t, 0, nn::init::Fan::Out);
    expect_normal(t, 0, std::sqrt(2.0 / 1200));
    nn::init::xavier_uniform_(t, 2);
    expect_uniform(t, 2 * std::sqrt(6.0 / 1500));
    nn::init::xavier_normal_(t);
    expect_normal(t, 0, std::sqrt(2.0 / 1500));
    nn::init::normal_(t, 1, 3);
    expect_normal(t, 1, 3);
    nn::init::constant_(t, 2.5);
    EXPECT_EQ(moments(t).low, 2.5);
    Tensor bias = zeros({3});
    EXPECT_THROW(nn::init::kaiming_uniform_(bias), ValueError);
}

TEST(Init, SeedDecides) {
    manual_seed(7);
    const auto a = nn::Linear(5, 5).weight.to_vector<float>();
    const auto b = nn::Linear(5, 5).weight.to_vector<float>();
    manual_seed(7);
    EXPECT_EQ(nn::Linear(5, 5).weight.to_vector<float>(), a);
    EXPECT_NE(a, b);
}

TEST(Layers, Linear) {
    nn::Linear l(2, 3);
    l.load_state_dict({{"weight", tensor(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2})},
                       {"bias", tensor(std::vector<float>{10, 20, 30})}});
    EXPECT_EQ(l(tensor(std::vector<float>{1, -1}, {1, 2})).to_vector<float>(),
              (std::vector<float>{9, 19, 29}));
}

TEST(Layers, ConvPassesItsArguments) {
    nn::Conv2d c(1, 1, {.kernel = {1, 2}, .stride = {2, 1}, .padding = {0, 1}, .bias = false});
    c.load_state_dict({{"weight", tensor(std::vector<float>{1, 10}, {1, 1, 1, 2})}});
    const Tensor y = c(tensor(std::vector<float>{1, 2, 3, 4, 5, 6}, {1, 1, 3, 2}));
    EXPECT_EQ(y.shape(), (Shape{1, 1, 2, 3}));
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{10, 21, 2, 50, 65, 6}));
}

TEST(Layers, BatchNormTracksStatistics) {
    nn::BatchNorm2d bn(2, 1e-5, 0.1);
    const Tensor x = tensor(std::vector<float>{1, 2, 3, 4, 10, 10, 10, 14},
                            {2, 2, 1, 2});  // channel 0: 1 2 10 10
    const Tensor y = bn(x);
    EXPECT_EQ(bn.num_batches_tracked.item<std::int64_t>(), 1);
    const auto mean = bn.running_mean.to_vector<double>(), var = bn.running_var.to_vector<double>();
    EXPECT_NEAR(mean[0], 0.1 * 5.75, 1e-6);
    EXPECT_NEAR(var[0], 0.9 + 0.1 * (72.75 / 3), 1e-5);  // unbiased
    EXPECT_NEAR(y.to_vector<double>()[0], (1 - 5.75) / std::sqrt(72.75 / 4 + 1e-5), 1e-5);

    bn.eval();
    const auto e = bn(x).to_vector<double>();
    EXPECT_NEAR(e[0], (1 - mean[0]) / std::sqrt(var[0] + 1e-5), 1e-5);
    EXPECT_EQ(bn.num_batches_tracked.item<std::int64_t>(), 1);
    EXPECT_EQ(bn.running_mean.to_vector<double>(), mean);
    EXPECT_THROW(bn(ones({2, 2})), ValueError);
}

TEST(Layers, DropoutOnlyWhileTraining) {
    manual_seed(1);
    nn::Dropout d(0.25);
    const auto v = d(ones({4000})).to_vector<float>();
    std::int64_t zeroed = 0;
    for (const float x : v) {
        EXPECT_TRUE(x == 0 || std::abs(x - 1 / 0.75f) < 1e-6f);
        zeroed += x == 0;
    }
    EXPECT_NEAR(static_cast<double>(zeroed), 1000, 120);
    d.eval();
    EXPECT_TRUE(equal(d(ones({5})), ones({5})));
}

TEST(Layers, PoolsAndFlatten) {
    const Tensor x = tensor(
        std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {1, 1, 4, 4});
    EXPECT_EQ(nn::MaxPool2d(2)(x).to_vector<float>(), (std::vector<float>{6, 8, 14, 16}));
    EXPECT_EQ(nn::AvgPool2d(2)(x).to_vector<float>(), (std::vector<float>{3.5, 5.5, 11.5, 13.5}));
    EXPECT_EQ(nn::MaxPool2d(3, 2, 1)(x).shape(), (Shape{1, 1, 2, 2}));
    EXPECT_EQ(nn::AdaptiveAvgPool2d(1)(x).to_vector<float>(), (std::vector<float>{8.5}));
    EXPECT_EQ(nn::Flatten()(ones({2, 3, 4})).shape(), (Shape{2, 12}));
    EXPECT_EQ(nn::LayerNorm(Shape{4})(x).shape(), x.shape());
    EXPECT_EQ(nn::Sequential()(x).shape(), x.shape());
}

TEST(Layers, RefuseBadArguments) {
    EXPECT_THROW(nn::Conv2d(3, 4, {.groups = 2}), ValueError);
    EXPECT_THROW(nn::Conv2d(3, 4, {.kernel = 0}), ValueError);
    EXPECT_THROW(nn::Conv2d(3, 4, {.stride = 0}), ValueError);
    EXPECT_THROW(nn::Conv2d(0, 4, {}), ValueError);
    EXPECT_THROW(nn::Linear(-1, 4), ValueError);
    EXPECT_THROW(nn::Dropout(1.5), ValueError);
    EXPECT_THROW(nn::MaxPool2d(2, 1, 2), ValueError);
    EXPECT_THROW(nn::AvgPool2d(0), ValueError);
    EXPECT_THROW(nn::BatchNorm2d(0), ValueError);
}

TEST(Clip, NormScalesAllGradientsTogether) {
    Tensor a = ones({2}), b = ones({1}), without = ones({1});
    for (Tensor* t : {&a, &b, &without})
        t->requires_grad_();
    a.set_grad(tensor(std::vector<float>{3, 0}));
    b.set_grad(tensor(std::vector<float>{4}));
    EXPECT_NEAR(nn::clip_grad_norm_({a, b, without}, 10).item<double>(), 5, 1e-6);
    EXPECT_EQ(a.grad().to_vector<float>()[0], 3);  // small enough: left alone
    EXPECT_NEAR(nn::clip_grad_norm_({a, b, without}, 1).item<double>(), 5, 1e-6);
    EXPECT_NEAR(a.grad().to_vector<float>()[0], 0.6, 1e-5);
    EXPECT_NEAR(b.grad().to_vector<float>()[0], 0.8, 1e-5);
    EXPECT_FALSE(without.grad().defined());
    EXPECT_NEAR(
        nn::clip_grad_norm_({a, b}, 0.4, std::numeric_limits<double>::infinity()).item<double>(),
        0.8, 1e-5);
    EXPECT_NEAR(b.grad().to_vector<float>()[0], 0.4, 1e-5);
    EXPECT_EQ(nn::clip_grad_norm_({without}, 1).item<double>(), 0);
    EXPECT_THROW(nn::clip_grad_norm_({a}, -1), ValueError);
}

TEST(Clip, Value) {
    Tensor a = ones({3});
    a.requires_grad_();
    a.set_grad(tensor(std::vector<float>{3, -0.25f, -4}));
    nn::clip_grad_value_({a}, 0.5);
    EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{0.5f, -0.25f, -0.5f}));
}

}  // namespace
}  // namespace pippin
