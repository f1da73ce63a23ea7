// Faults of other frameworks in layers and their gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/expect_error.h"
#include "pippin/pippin.h"

namespace pippin {
namespace {

using Floats = std::vector<float>;

Tensor image(std::int64_t h, std::int64_t w) {
    return arange(h * w, float32).reshape({1, 1, h, w});
}

bool all_finite(const Tensor& t) {
    for (const float v : t.to_vector<float>())
        if (!std::isfinite(v)) return false;
    return true;
}

TEST(K23, AveragePoolingWithCeilModeDividesByWhatItSees) {
    const Pool2dOptions o{
        .kernel_h = 2, .kernel_w = 2, .stride_h = 3, .stride_w = 3, .ceil_mode = true};
    const Floats want{4, 7, 9.5f, 25, 28, 30.5f, 42.5f, 45.5f, 48};
    EXPECT_EQ(avg_pool2d(image(7, 7), o).to_vector<float>(), want);
    Pool2dOptions without = o;
    without.count_include_pad = false;
    EXPECT_EQ(avg_pool2d(image(7, 7), without).to_vector<float>(), want);
    EXPECT_EQ(avg_pool1d(arange(7, float32).reshape({1, 1, 7}),
                         {.kernel = 2, .stride = 3, .ceil_mode = true})
                  .to_vector<float>(),
              (Floats{0.5f, 3.5f, 6}));
    // Each gradient is one over the number of elements that its window saw.
    Tensor x = image(7, 7);
    x.requires_grad_();
    avg_pool2d(x, o).sum().backward();
    EXPECT_EQ(x.grad()[0][0][6].to_vector<float>(), (Floats{0.5f, 0.5f, 0, 0.5f, 0.5f, 0, 1}));
    EXPECT_EQ(max_pool2d(image(7, 7), o).to_vector<float>(),
              (Floats{8, 11, 13, 29, 32, 34, 43, 46, 48}));
}

TEST(K24, AdaptivePoolsOfOverlappingWindows) {
    EXPECT_EQ(adaptive_max_pool2d(image(5, 5), 3, 3).to_vector<float>(),
              (Floats{6, 8, 9, 16, 18, 19, 21, 23, 24}));
    EXPECT_EQ(adaptive_avg_pool2d(image(5, 5), 3, 3).to_vector<float>(),
              (Floats{3, 4.5f, 6, 10.5f, 12, 13.5f, 18, 19.5f, 21}));
    Tensor x = image(5, 5);
    x.requires_grad_();
    adaptive_avg_pool2d(x, 3, 3).sum().backward();
    EXPECT_NEAR(x.grad()[0][0][1][1].item<float>(), 1.0 / 4 + 2.0 / 6 + 1.0 / 9, 1e-6);
    EXPECT_NEAR(x.grad().sum().item<float>(), 9, 1e-5);
    // More outputs than inputs: elements repeat.
    EXPECT_EQ(adaptive_max_pool2d(image(2, 2), 3, 3).to_vector<float>(),
              (Floats{0, 1, 1, 2, 3, 3, 2, 3, 3}));
}

TEST(K25, LayerNormWhoseInputNeedsNoGradient) {
    Tensor weight = ones({4}), bias = zeros({4});
    weight.requires_grad_();
    bias.requires_grad_();
    layer_norm(rand({2, 4}), {4}, weight, bias).sum().backward();
    EXPECT_EQ(bias.grad().to_vector<float>(), (Floats{2, 2, 2, 2}));
    EXPECT_TRUE(all_finite(weight.grad()));
    // Any one of the three alone.
    Tensor only = zeros({4});
    only.requires_grad_();
    layer_norm(rand({2, 4}), {4}, {}, only).sum().backward();
    EXPECT_EQ(only.grad().to_vector<float>(), (Floats{2, 2, 2, 2}));
    Tensor x = rand({2, 4});
    x.requires_grad_();
    (layer_norm(x, {4}) * arange(4)).sum().backward();
    EXPECT_NEAR(x.grad().sum().item<float>(), 0, 1e-4);
}

TEST(K26, BatchNormWithFrozenParametersTrains) {
    manual_seed(3);
    Tensor w = rand({3, 2, 1, 1});
    w.requires_grad_();
    Tensor mean = zeros({3}), var = ones({3}), scale = full({3}, 2), shift = zeros({3});
    const Tensor x = rand({4, 2, 3, 3}), target = rand({4, 3, 3, 3});
    float first = 0, last = 0;
    for (int step = 0; step < 20; ++step) {
        const Tensor y = batch_norm(conv2d(x, w), mean, var, scale, shift, true);
        const Tensor loss = mse_loss(y, target);
        w.zero_grad();
        loss.backward();
        last = loss.item<float>();
        if (step == 0) first = last;
        const NoGrad off;
        w -= w.grad() * 0.5;
    }
    EXPECT_LT(last, first);
    EXPECT_FALSE(scale.grad().defined());
    EXPECT_EQ(scale.to_vector<float>(), (Floats{2, 2, 2}));
    EXPECT_TRUE(all_finite(mean));
}

TEST(K27, AttentionWithARowThatSeesNoKey) {
    for (const bool as_bool : {true, false}) {
        Tensor q = rand({1, 2, 4, 3}), k = rand({1, 2, 5, 3}), v = rand({1, 2, 5, 3});
        for (Tensor* t : {&q, &k, &v})
            t->requires_grad_();
        Tensor seen = ones({4, 5}, boolean);
        seen.index_put_({1}, zeros({5}, boolean));
        const Tensor mask =
            as_bool ? seen : where(seen, 0.0, -std::numeric_limits<double>::infinity());
        const Tensor y = scaled_dot_product_attention(q, k, v, mask);
        EXPECT_EQ(y[0][0][1].to_vector<float>(), (Floats{0, 0, 0}));
        EXPECT_EQ(y[0][1][1].to_vector<float>(), (Floats{0, 0, 0}));
        EXPECT_NE(y[0][0][0][0].item<float>(), 0);
        (y * y).sum().backward();
        for (Tensor* t : {&q, &k, &v})
            EXPECT_TRUE(all_finite(t->grad()));
        EXPECT_EQ(q.grad()[0][0][1].to_vector<float>(), (Floats{0, 0, 0}));
    }
    Tensor x = rand({2, 3, 4});
    x.requires_grad_();
    const Tensor nothing = scaled_dot_product_attention(x, x, x, zeros({3, 3}, boolean), 0.3);
    EXPECT_EQ(nothing.to_vector<float>(), Floats(24, 0.0f));
    nothing.sum().backward();
    EXPECT_EQ(x.grad().to_vector<float>(), Floats(24, 0.0f));
    EXPECT_ERROR(scaled_dot_product_attention(x, rand({2, 5, 4}), x), ValueError, "one length");
}

TEST(K28, DropoutIsSeededAndItsEndsAreExact) {
    const Tensor x = rand({64, 64}) + 1;
    manual_seed(0);
    const Floats a = dropout(x, 0.4).to_vector<float>();
    manual_seed(0);
    const Floats b = dropout(x, 0.4).to_vector<float>();
    EXPECT_EQ(a, b);
    EXPECT_NE(a, dropout(x, 0.4).to_vector<float>());
    double kept = 0;
    for (const float v : a)
        kept += v != 0;
    EXPECT_NEAR(kept / 4096, 0.6, 0.04);

    Tensor y = rand({8});
    y.requires_grad_();
    const Tensor none = dropout(y, 1);
    EXPECT_EQ(none.to_vector<float>(), Floats(8, 0.0f));
    none.sum().backward();
    EXPECT_EQ(y.grad().to_vector<float>(), Floats(8, 0.0f));
    EXPECT_TRUE(equal(dropout(y, 0), y));
    EXPECT_TRUE(equal(dropout(y, 0.5, false), y));

    // Attention weights too.
    const Tensor q = rand({2, 2, 6, 4});
    manual_seed(1);
    const Tensor first = scaled_dot_product_attention(q, q, q, {}, 0.5).eval();
    manual_seed(1);
    EXPECT_TRUE(equal(first, scaled_dot_product_attention(q, q, q, {}, 0.5)));
    EXPECT_EQ(scaled_dot_product_attention(q, q, q, {}, 1).to_vector<float>(), Floats(96, 0.0f));
}

// The input's gradient of a convolution, by its definition.
std::vector<double> input_gradient(const Tensor& w, const Tensor& dy, std::int64_t channels,
                                   std::int64_t size, std::int64_t stride, std::int64_t pad,
                                   std::int64_t groups) {
    const auto wv = w.to_vector<double>(), dv = dy.to_vector<double>();
    const std::int64_t out = dy.size(1), each = channels / groups, k = w.size(2), n = dy.size(2);
    std::vector<double> dx(static_cast<std::size_t>(channels * size * size));
    for (std::int64_t o = 0; o < out; ++o)
        for (std::int64_t i = 0; i < n * n; ++i)
            for (std::int64_t c = 0; c < each; ++c)
                for (std::int64_t t = 0; t < k * k; ++t) {
                    const std::int64_t h = i / n * stride - pad + t / k,
                                       v = i % n * stride - pad + t % k;
                    if (h < 0 || h >= size || v < 0 || v >= size) continue;
                    const std::int64_t from = o / (out / groups) * each + c;
                    dx[static_cast<std::size_t>((from * size + h) * size + v)] +=
                        dv[static_cast<std::size_t>(o * n * n + i)] *
                        wv[static_cast<std::size_t>((o * each + c) * k * k + t)];
                }
    return dx;
}

TEST(K29, GroupedConvolutionWithStride) {
    manual_seed(5);
    for (const std::int64_t groups : {1, 2, 4, 8})
        for (const std::int64_t stride : {1, 2, 3})
            for (const std::int64_t k : {1, 3}) {
                const std::int64_t channels = 8, size = 9, pad = k / 2;
                Tensor x = rand({1, channels, size, size});
                x.requires_grad_();
                const Tensor w = rand({8, channels / groups, k, k});
                Conv2dOptions o;
                o.stride_h = o.stride_w = stride, o.pad_h = o.pad_w = pad, o.groups = groups;
                const Tensor y = conv2d(x, w, {}, o), dy = rand(y.shape());
                y.backward(dy);
                const auto want = input_gradient(w, dy, channels, size, stride, pad, groups);
                const auto got = x.grad().to_vector<double>();
                for (std::size_t i = 0; i < want.size(); ++i)
                    ASSERT_NEAR(got[i], want[i], 1e-4)
                        << "groups " << groups << " stride " << stride << " kernel " << k;
                // The transposed convolution is this gradient.
                ConvTranspose2dOptions t;
                t.stride_h = t.stride_w = stride, t.pad_h = t.pad_w = pad, t.groups = groups;
                t.output_pad_h = t.output_pad_w = (size + 2 * pad - k) % stride;
                EXPECT_TRUE(allclose(conv_transpose2d(dy, w, {}, t), x.grad(), 1e-5, 1e-5));
            }
}

}  // namespace
}  // namespace pippin
