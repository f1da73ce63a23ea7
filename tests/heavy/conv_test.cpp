#include <cstdlib>
#include <random>

#include "heavy/launch.h"

namespace pippin::heavy_test {
namespace {

struct ConvCase {
    std::int64_t n, ci, h, w, co, kh, kw;
    graph::ConvAttrs a;
};

std::string text(const ConvCase& c) {
    std::string s;
    for (const std::int64_t v : {c.n, c.ci, c.h, c.w, c.co, c.kh, c.kw, c.a.stride[0], c.a.pad[0],
                                 c.a.dilation[0], c.a.groups})
        s += std::to_string(v) + " ";
    return s;
}

graph::Attrs attrs_of(const graph::ConvAttrs& a) {
    graph::Attrs r;
    for (const std::int64_t v :
         {a.stride[0], a.stride[1], a.pad[0], a.pad[1], a.dilation[0], a.dilation[1], a.groups})
        r.i.push_back(v);
    return r;
}

graph::ConvAttrs window(std::int64_t stride, std::int64_t pad, std::int64_t dilation = 1,
                        std::int64_t groups = 1) {
    return {{stride, stride}, {pad, pad}, {dilation, dilation}, groups};
}

const std::vector<ConvCase>& cases() {
    static const std::vector<ConvCase> all = {
        {1, 1, 1, 1, 1, 1, 1, window(1, 0)},
        {2, 1, 28, 28, 6, 5, 5, window(1, 2)},
        {3, 6, 14, 14, 16, 5, 5, window(1, 0)},
        {2, 1, 9, 7, 6, 3, 3, window(1, 1)},
        {2, 3, 17, 19, 16, 7, 7, window(2, 3)},
        {2, 3, 32, 32, 64, 3, 3, window(1, 1)},
        {1, 3, 33, 31, 64, 7, 7, window(2, 3)},
        {1, 3, 11, 13, 10, 3, 3, window(1, 0)},
        {2, 4, 8, 9, 20, 3, 2, window(1, 1)},
        {2, 2, 6, 6, 3, 5, 5, window(1, 4)},
        {1, 6, 5, 5, 16, 5, 5, window(1, 0)},
        {2, 6, 12, 11, 6, 3, 3, window(2, 1)},
        {1, 1, 40, 3, 4, 3, 3, window(1, 1)},
        {2, 16, 9, 9, 8, 3, 3, window(1, 1)},
        {2, 64, 7, 7, 64, 3, 3, window(1, 1)},
        {1, 64, 8, 8, 16, 1, 1, window(1, 0)},
        {2, 64, 9, 9, 32, 1, 1, window(2, 0)},
        {2, 5, 10, 9, 7, 3, 5, {{2, 1}, {1, 2}, {1, 1}, 1}},
        {2, 16, 11, 11, 16, 3, 3, window(1, 2, 2)},
        {2, 16, 10, 10, 32, 3, 3, window(1, 1, 1, 4)},
        {2, 16, 10, 10, 16, 3, 3, window(1, 1, 1, 16)},
        {2, 6, 9, 9, 12, 3, 3, window(2, 1, 1, 3)},
        {1, 33, 6, 6, 17, 3, 3, window(1, 1)},
        {2, 16, 12, 12, 1, 3, 3, window(1, 1)},
        {5, 1, 6, 6, 2, 6, 6, window(1, 0)},
        {0, 3, 8, 8, 4, 3, 3, window(1, 1)},
        {2, 3, 8, 8, 4, 2, 2, window(3, 0)},
        // Few channels without padding, of widths around one and two vectors.
        {2, 3, 7, 18, 8, 3, 3, window(1, 0)},
        {1, 2, 6, 17, 5, 2, 3, window(1, 0)},
        {2, 8, 6, 20, 16, 4, 4, window(1, 0)},
        {1, 6, 5, 31, 3, 3, 3, window(1, 0)},
        {1, 4, 5, 33, 8, 3, 5, window(1, 0)},
        {1, 8, 4, 15, 4, 1, 3, window(1, 0)},
        {1, 3, 4, 9, 2, 1, 3, window(1, 0)},
        // Dilated rows of channels that fill no vectors.
        {2, 34, 13, 11, 56, 3, 3, {{1, 1}, {0, 1}, {2, 1}, 1}},
        {2, 34, 9, 9, 16, 3, 3, window(1, 2, 2)},
    };
    return all;
}

Trial forward(const ConvCase& c, DType t) {
    Trial r;
    r.op = &ops::kConv2d;
    r.attrs = attrs_of(c.a);
    r.inputs = {random_data(t, {c.n, c.ci, c.h, c.w}, Order::ChannelsLast, 1),
                random_data(t, {c.co, c.ci / c.a.groups, c.kh, c.kw}, Order::RowMajor, 2)};
    return r;
}

Trial grad_input(const ConvCase& c, DType t) {
    const Trial f = forward(c, t);
    Trial r = f;
    r.op = &ops::kConv2dGradInput;
    r.attrs.i.push_back(c.h);
    r.attrs.i.push_back(c.w);
    r.inputs[0] = random_data(t, f.node()->shape, Order::ChannelsLast, 3);
    return r;
}

Trial grad_weight(const ConvCase& c, DType t) {
    const Trial f = forward(c, t);
    Trial r = f;
    r.op = &ops::kConv2dGradWeight;
    r.attrs.i.push_back(c.kh);
    r.attrs.i.push_back(c.kw);
    r.inputs[1] = random_data(t, f.node()->shape, Order::ChannelsLast, 3);
    r.order = Order::RowMajor;
    return r;
}

// Each channel by itself, with `multiplier` channels of y to one of x.
ConvCase depthwise(std::int64_t n, std::int64_t channels, std::int64_t h, std::int64_t w,
                   std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                   std::int64_t dilation = 1, std::int64_t multiplier = 1) {
    return {n,
            channels,
            h,
            w,
            channels * multiplier,
            kernel,
            kernel,
            window(stride, pad, dilation, channels)};
}

const std::vector<ConvCase>& depthwise_cases() {
    static const std::vector<ConvCase> all = {
        depthwise(1, 1, 9, 8, 3, 1, 1),
        depthwise(5, 3, 9, 7, 3, 1, 1),
        depthwise(1, 17, 11, 13, 5, 2, 2),
        depthwise(2, 64, 8, 8, 7, 1, 3),
        depthwise(1, 100, 7, 7, 5, 1, 2),
        depthwise(1, 17, 12, 10, 9, 1, 4),
        depthwise(5, 17, 10, 9, 9, 2, 4),
        depthwise(5, 64, 5, 6, 1, 1, 0),
        depthwise(1, 100, 7, 5, 1, 2, 0),
        depthwise(2, 17, 13, 12, 3, 1, 2, 2),
        depthwise(2, 33, 17, 15, 5, 2, 6, 3),
        depthwise(1, 17, 9, 9, 4, 2, 1),
        depthwise(1, 3, 12, 11, 6, 1, 0),
        depthwise(1, 3, 14, 15, 11, 1, 5),
        depthwise(2, 3, 5, 4, 2, 3, 0),
        depthwise(1, 5, 3, 3, 3, 1, 4),         // windows that see padding alone
        depthwise(1, 5, 16, 1, 7, 1, 3),        // and columns that do
        depthwise(5, 3, 9, 7, 5, 1, 2, 1, 2),   // a channel multiplier
        depthwise(1, 37, 8, 7, 3, 2, 1, 1, 3),  // with vectors in part
        depthwise(1, 17, 150, 70, 5, 1, 2),     // bands of rows
        {2, 20, 11, 12, 20, 5, 3, {{2, 1}, {1, 2}, {1, 2}, 20}},
        {1, 20, 9, 9, 20, 1, 7, {{1, 2}, {0, 3}, {1, 1}, 20}},
    };
    return all;
}

// Any geometry; few channels, and widths around those of vectors, are likely.
ConvCase random_case(std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
        return low +
               static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(high - low + 1));
    };
    ConvCase c{};
    const std::int64_t groups = pick(0, 4) ? 1 : pick(2, 4);
    c.n = pick(1, 3);
    c.ci = groups * pick(1, pick(0, 3) ? 9 : 40);
    c.co = groups * pick(1, pick(0, 3) ? 10 : 70);
    c.kh = pick(1, 5), c.kw = pick(1, 5);
    c.a.groups = groups;
    for (int i = 0; i < 2; ++i) {
        c.a.pad[i] = pick(0, 1) ? 0 : pick(1, 3);
        c.a.stride[i] = pick(0, 2) ? 1 : pick(2, 3);
        c.a.dilation[i] = pick(0, 4) ? 1 : 2;
    }
    if (pick(0, 1)) c.a.stride[1] = c.a.stride[0];
    c.h = pick(0, 8) + c.a.dilation[0] * (c.kh - 1) + 1;
    c.w = pick(0, 36) + c.a.dilation[1] * (c.kw - 1) + 1;
    return c;
}

// PIPPIN_RANDOM_CONVOLUTIONS=20: twenty times as many.
std::uint32_t random_count(DType t) {
    const char* times = std::getenv("PIPPIN_RANDOM_CONVOLUTIONS");
    const auto factor = static_cast<std::uint32_t>(times ? std::atoi(times) : 1);
    return (t == DType::Float32 ? 100 : 15) * factor;
}

class Conv : public ::testing::TestWithParam<DType> {};

TEST_P(Conv, RandomGeometries) {
    for (std::uint32_t seed = 1; seed <= random_count(GetParam()); ++seed) {
        const ConvCase c = random_case(seed);
        for (Trial r :
             {forward(c, GetParam()), grad_input(c, GetParam()), grad_weight(c, GetParam())})
            ASSERT_TRUE(close(r.run(), r.expected()))
                << r.op->name << ", seed " << seed << ": " << text(c) << "width stride "
                << c.a.stride[1] << " pad " << c.a.pad[1] << " dilation " << c.a.dilation[1];
    }
}

TEST_P(Conv, Forward) {
    for (const ConvCase& c : cases()) {
        Trial r = forward(c, GetParam());
        EXPECT_TRUE(close(r.run(), r.expected())) << text(c);
    }
}

TEST_P(Conv, GradInput) {
    for (const ConvCase& c : cases()) {
        Trial r = grad_input(c, GetParam());
        EXPECT_TRUE(close(r.run(), r.expected())) << text(c);
    }
}

TEST_P(Conv, GradWeight) {
    for (const ConvCase& c : cases()) {
        Trial r = grad_weight(c, GetParam());
        EXPECT_TRUE(close(r.run(), r.expected())) << text(c);
    }
}

TEST_P(Conv, DepthwiseGradWeight) {
    for (const ConvCase& c : depthwise_cases()) {
        Trial r = grad_weight(c, GetParam());
        EXPECT_TRUE(close(r.run(), r.expected())) << text(c);
    }
}

TEST_P(Conv, DepthwiseOtherWays) {
    for (const ConvCase& c : depthwise_cases()) {
        if (c.h > 100) continue;
        for (Trial r : {forward(c, GetParam()), grad_input(c, GetParam())})
            EXPECT_TRUE(close(r.run(), r.expected())) << r.op->name << " " << text(c);
    }
}

TEST_P(Conv, DepthwiseRowMajorMaps) {
    Trial r = grad_weight(depthwise(2, 19, 9, 8, 5, 1, 2), GetParam());
    for (Data& d : r.inputs) {
        Data copy(d.view.dtype, d.view.shape, Order::RowMajor);
        for (std::int64_t i = 0; i < d.view.shape.numel(); ++i)
            copy.set(i, d.get(i));
        d = std::move(copy);
    }
    EXPECT_TRUE(close(r.run(), r.expected()));
}

// What is not finite reaches the taps that it is multiplied for and no others: neither in dy, next
// to padding, nor in x.
TEST_P(Conv, DepthwiseNanStays) {
    for (const std::int64_t kernel : {5, 7})
        for (const std::int64_t stride : {1, 2})
            for (const double value : {std::nan(""), HUGE_VAL})
                for (const int input : {0, 1}) {
                    const ConvCase c = depthwise(2, 19, 9, 8, kernel, stride, kernel / 2);
                    Trial r = grad_weight(c, GetParam());
                    r.inputs[static_cast<std::size_t>(input)].set(0, value);
                    EXPECT_TRUE(close(r.run(), r.expected()))
                        << text(c) << value << " in operand " << input;
                }
}

// Any number of threads merges the same parts in the same order.
TEST_P(Conv, DepthwiseSameForAnyThreads) {
    for (const ConvCase& c : {depthwise(5, 70, 14, 15, 7, 1, 3), depthwise(1, 17, 150, 70, 5, 1, 2),
                              depthwise(5, 33, 12, 12, 5, 2, 2, 1, 2)}) {
        Trial r = grad_weight(c, GetParam());
        EXPECT_TRUE(same_for_any_threads(r)) << text(c);
    }
}

TEST_P(Conv, Epilogue) {
    using plan::Activation;
    for (const ConvCase& c : cases()) {
        const RefArray bare = forward(c, GetParam()).reference();
        for (const auto activation :
             {Activation::None, Activation::Relu, Activation::Tanh, Activation::Gelu})
            for (const bool residual : {false, true}) {
                Trial r = forward(c, GetParam());
                r.bias = random_data(GetParam(), {c.co}, Order::RowMajor, 4);
                if (residual)
                    r.residual = random_data(GetParam(), r.node()->shape, Order::ChannelsLast, 5);
                r.activation = activation;
                EXPECT_TRUE(close(r.run(), r.with_epilogue(bare)))
                    << text(c) << static_cast<int>(activation) << residual;
            }
    }
}

// The layout pass keeps maps in NHWC, but a launch says for itself how its operands lie.
TEST_P(Conv, RowMajorMaps) {
    const ConvCase c{2, 3, 9, 8, 5, 3, 3, window(1, 1)};
    for (Trial r :
         {forward(c, GetParam()), grad_input(c, GetParam()), grad_weight(c, GetParam())}) {
        for (Data& d : r.inputs) {
            Data copy(d.view.dtype, d.view.shape, Order::RowMajor);
            for (std::int64_t i = 0; i < d.view.shape.numel(); ++i)
                copy.set(i, d.get(i));
            d = std::move(copy);
        }
        r.order = Order::RowMajor;
        EXPECT_TRUE(close(r.run(), r.expected())) << r.op->name;
    }
}

TEST_P(Conv, NanStays) {
    const ConvCase c{2, 6, 14, 14, 16, 5, 5, window(1, 0)};
    using plan::Activation;
    for (const auto activation :
         {Activation::None, Activation::Relu, Activation::Tanh, Activation::Gelu}) {
        Trial r = forward(c, GetParam());
        r.inputs[0].set(40, std::nan(""));
        r.activation = activation;
        EXPECT_TRUE(close(r.run(), r.expected())) << static_cast<int>(activation);
    }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Conv,
                         ::testing::Values(DType::Float32, DType::BFloat16, DType::Float16,
                                           DType::Float64),
                         dtype_name);

}  // namespace
}  // namespace pippin::heavy_test
