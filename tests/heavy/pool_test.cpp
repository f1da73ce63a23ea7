#include <random>

#include "heavy/launch.h"

namespace pippin::heavy_test {
namespace {

struct PoolCase {
    std::int64_t n, c, h, w;
    graph::PoolAttrs a;
};

graph::PoolAttrs window(std::int64_t kernel, std::int64_t stride, std::int64_t pad = 0,
                        std::int64_t dilation = 1, bool ceil_mode = false,
                        bool count_include_pad = true) {
    return {{kernel, kernel},     {stride, stride}, {pad, pad},
            {dilation, dilation}, ceil_mode,        count_include_pad};
}

std::string text(const PoolCase& c) {
    std::string s;
    for (const std::int64_t v : {c.n, c.c, c.h, c.w, c.a.kernel[0], c.a.stride[0], c.a.pad[0],
                                 c.a.dilation[0], std::int64_t{c.a.ceil_mode}})
        s += std::to_string(v) + " ";
    return s;
}

graph::Attrs attrs_of(const graph::PoolAttrs& a) {
    graph::Attrs r;
    for (const std::int64_t v :
         {a.kernel[0], a.kernel[1], a.stride[0], a.stride[1], a.pad[0], a.pad[1], a.dilation[0],
          a.dilation[1], std::int64_t{a.ceil_mode}, std::int64_t{a.count_include_pad}})
        r.i.push_back(v);
    return r;
}

const std::vector<PoolCase>& cases() {
    static const std::vector<PoolCase> all = {
        {1, 1, 1, 1, window(1, 1)},
        {2, 6, 28, 28, window(2, 2)},
        {2, 16, 10, 10, window(2, 2)},
        {2, 64, 15, 14, window(3, 2, 1)},
        {1, 3, 7, 9, window(3, 1, 1)},
        {1, 17, 9, 8, window(2, 3)},
        {2, 5, 8, 8, window(3, 2, 1, 1, true)},
        {1, 4, 7, 7, window(2, 2, 0, 1, true)},
        {1, 20, 6, 6, window(2, 2, 1, 1, false, false)},
        {1, 2, 6, 7, window(3, 2, 1, 1, true, false)},
        {1, 33, 5, 5, window(5, 5)},
        {2, 3, 12, 5, {{4, 2}, {3, 1}, {2, 1}, {1, 1}, false, true}},
        {0, 3, 8, 8, window(2, 2)},
    };
    return all;
}

Trial pool(const graph::OpRecord& op, const PoolCase& c, DType t) {
    Trial r;
    r.op = &op;
    r.attrs = attrs_of(c.a);
    r.inputs = {random_data(t, {c.n, c.c, c.h, c.w}, Order::ChannelsLast, 1)};
    return r;
}

Trial max_grad(const PoolCase& c, DType t) {
    const Trial f = pool(ops::kMaxPool2d, c, t);
    Trial r = f;
    r.op = &ops::kMaxPool2dGrad;
    r.inputs.push_back(random_data(t, f.node()->shape, Order::ChannelsLast, 2));
    return r;
}

Trial average_grad(const PoolCase& c, DType t) {
    const Trial f = pool(ops::kAvgPool2d, c, t);
    Trial r = f;
    r.op = &ops::kAvgPool2dGrad;
    r.inputs = {random_data(t, f.node()->shape, Order::ChannelsLast, 2)};
    r.attrs.i.push_back(c.h);
    r.attrs.i.push_back(c.w);
    return r;
}

Trial adaptive(bool is_grad, const Shape& x, std::int64_t oh, std::int64_t ow, DType t) {
    Trial r;
    r.op = is_grad ? &ops::kAdaptiveAvgPool2dGrad : &ops::kAdaptiveAvgPool2d;
    if (is_grad) {
        r.attrs.i = {x[2], x[3]};
        r.inputs = {random_data(t, {x[0], x[1], oh, ow}, Order::ChannelsLast, 1)};
    } else {
        r.attrs.i = {oh, ow};
        r.inputs = {random_data(t, x, Order::ChannelsLast, 1)};
    }
    return r;
}

void to_row_major(Trial& r) {
    for (Data& d : r.inputs) {
        Data copy(d.view.dtype, d.view.shape, Order::RowMajor);
        for (std::int64_t i = 0; i < d.view.shape.numel(); ++i)
            copy.set(i, d.get(i));
        d = std::move(copy);
    }
    r.order = Order::RowMajor;
}

class Pool : public ::testing::TestWithParam<DType> {};

TEST_P(Pool, Max) {
    for (const PoolCase& c : cases()) {
        Trial r = pool(ops::kMaxPool2d, c, GetParam());
        EXPECT_TRUE(close(r.run(), r.expected(), 0)) << text(c);
    }
    Trial dilated = pool(ops::kMaxPool2d, {2, 6, 12, 13, window(3, 2, 1, 2)}, GetParam());
    EXPECT_TRUE(close(dilated.run(), dilated.expected(), 0));
}

TEST_P(Pool, MaxGrad) {
    for (const PoolCase& c : cases()) {
        Trial r = max_grad(c, GetParam());
        EXPECT_TRUE(close(r.run(), r.expected())) << text(c);
        EXPECT_TRUE(same_for_any_threads(r)) << text(c);
    }
    Trial dilated = max_grad({2, 6, 12, 13, window(3, 2, 1, 2)}, GetParam());
    EXPECT_TRUE(close(dilated.run(), dilated.expected()));
}

// Equal values: the first in scan order gets the gradient. NaN wins over all.
TEST_P(Pool, MaxTies) {
    Trial r = max_grad({1, 19, 9, 9, window(3, 2, 1)}, GetParam());
    for (std::int64_t i = 0; i < r.inputs[0].view.shape.numel(); ++i)
        r.inputs[0].set(i, i % 7 == 3 ? std::nan("") : static_cast<double>(i % 3));
    EXPECT_TRUE(close(r.run(), r.expected()));
    Trial f = pool(ops::kMaxPool2d, {1, 19, 9, 9, window(3, 2, 1)}, GetParam());
    f.inputs[0] = r.inputs[0];
    EXPECT_TRUE(close(f.run(), f.expected()));
    for (std::int64_t i = 0; i < r.inputs[0].view.shape.numel(); ++i)
        r.inputs[0].set(i, -HUGE_VAL);
    EXPECT_TRUE(close(r.run(), r.expected()));
}

TEST_P(Pool, Average) {
    for (const PoolCase& c : cases()) {
        Trial r = pool(ops::kAvgPool2d, c, GetParam());
        EXPECT_TRUE(close(r.run(), r.expected())) << text(c);
        Trial g = average_grad(c, GetParam());
        EXPECT_TRUE(close(g.run(), g.expected())) << text(c);
        EXPECT_TRUE(same_for_any_threads(g)) << text(c);
    }
}

TEST_P(Pool, RandomGeometries) {
    std::mt19937 random(1);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
        return low +
               static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(high - low + 1));
    };
    for (int i = 0; i < 60; ++i) {
        PoolCase c{pick(1, 3), pick(1, 40), 0, 0, window(1, 1)};
        for (int d = 0; d < 2; ++d) {
            c.a.kernel[d] = pick(1, 5), c.a.stride[d] = pick(1, 4);
            c.a.pad[d] = pick(0, c.a.kernel[d] / 2);
        }
        c.a.ceil_mode = pick(0, 1) != 0, c.a.count_include_pad = pick(0, 1) != 0;
        c.h = c.a.kernel[0] + pick(0, 8), c.w = c.a.kernel[1] + pick(0, 20);
        SCOPED_TRACE(text(c) + std::to_string(c.a.kernel[1]) + " " + std::to_string(c.a.stride[1]));
        for (Trial r : {pool(ops::kMaxPool2d, c, GetParam()), max_grad(c, GetParam()),
                        pool(ops::kAvgPool2d, c, GetParam()), average_grad(c, GetParam())})
            ASSERT_TRUE(close(r.run(), r.expected())) << r.op->name;
    }
}

TEST_P(Pool, Adaptive) {
    for (const bool is_grad : {false, true})
        for (const auto& [oh, ow] : {std::pair{1, 1}, {2, 3}, {7, 7}, {5, 9}})
            for (const Shape& x : {Shape{2, 64, 7, 7}, Shape{1, 5, 9, 6}, Shape{3, 17, 1, 1}}) {
                Trial r = adaptive(is_grad, x, oh, ow, GetParam());
                EXPECT_TRUE(close(r.run(), r.expected())) << x.str() << oh << ow << is_grad;
            }
}

TEST_P(Pool, RowMajor) {
    const PoolCase c{2, 5, 9, 8, window(3, 2, 1)};
    for (Trial r : {pool(ops::kMaxPool2d, c, GetParam()), max_grad(c, GetParam()),
                    pool(ops::kAvgPool2d, c, GetParam()), average_grad(c, GetParam()),
                    adaptive(false, {2, 5, 9, 8}, 2, 2, GetParam()),
                    adaptive(true, {2, 5, 9, 8}, 2, 2, GetParam())}) {
        to_row_major(r);
        EXPECT_TRUE(close(r.run(), r.expected())) << r.op->name;
    }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Pool,
                         ::testing::Values(DType::Float32, DType::BFloat16, DType::Float16,
                                           DType::Float64),
                         dtype_name);

}  // namespace
}  // namespace pippin::heavy_test
