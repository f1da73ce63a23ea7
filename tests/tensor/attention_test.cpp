// The kernels of attention against the same in float64, which has none and is composed of matrix
// products, whatever scaled_dot_product_attention would choose: sizes beyond one block of queries,
// broadcast masks, heads inside of positions, dropout with the same random numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/build_attention.h"
#include "graph/random.h"
#include "pippin/pippin.h"
#include "tensor/variable.h"

namespace pippin {
namespace {

struct Case {
    const char* name;
    Shape q, k, v;
    bool causal = false;
    double dropout = 0;
    Shape bool_mask{0}, added_mask{0};  ///< [0]: none
    bool heads_inside = false;          ///< the shapes' dims 1 and 2 are swapped in memory
};
const Case kCases[] = {
    {"one block", {2, 3, 20, 8}, {2, 3, 20, 8}, {2, 3, 20, 8}},
    {"several blocks", {1, 2, 300, 16}, {1, 2, 510, 16}, {1, 2, 510, 24}},
    {"several blocks, causal", {1, 2, 300, 16}, {1, 2, 510, 16}, {1, 2, 510, 24}, true},
    {"causal, fewer keys", {1, 2, 150, 8}, {1, 2, 40, 8}, {1, 2, 40, 8}, true},
    {"dropout", {1, 2, 140, 8}, {1, 2, 401, 8}, {1, 2, 401, 8}, false, 0.3},
    {"causal dropout", {2, 2, 37, 8}, {2, 2, 37, 8}, {2, 2, 37, 8}, true, 0.5},
    {"padding mask", {2, 3, 17, 8}, {2, 3, 19, 8}, {2, 3, 19, 8}, false, 0, {2, 1, 1, 19}},
    {"mask of queries", {2, 3, 17, 8}, {2, 3, 19, 8}, {2, 3, 19, 8}, false, 0, {17, 1}},
    {"mask of heads and queries",
     {2, 3, 17, 8},
     {2, 3, 19, 8},
     {2, 3, 19, 8},
     false,
     0.2,
     {3, 17, 19}},
    {"added", {2, 3, 17, 8}, {2, 3, 19, 8}, {2, 3, 19, 8}, false, 0, {0}, {3, 17, 19}},
    {"added per query", {2, 3, 17, 8}, {2, 3, 19, 8}, {2, 3, 19, 8}, false, 0, {0}, {2, 1, 17, 1}},
    {"heads inside", {2, 3, 33, 8}, {2, 3, 21, 8}, {2, 3, 21, 8}, false, 0, {0}, {0}, true},
    {"no batch", {50, 7}, {60, 7}, {60, 5}},
    {"one key", {1, 1, 5, 3}, {1, 1, 1, 3}, {1, 1, 1, 2}},
    {"one query", {2, 2, 1, 16}, {2, 2, 90, 16}, {2, 2, 90, 16}},
};

struct Result {
    std::vector<Tensor> all;  ///< y, dq, dk, dv
};

graph::NodePtr with_rank_4(const Tensor& t) {
    Shape s = t.shape();
    while (s.rank() < 4)
        s.insert(0, 1);
    return node_of(t.reshape(s));
}

Tensor kernel(const std::vector<Tensor>& x, const Tensor& mask, const Case& c) {
    graph::AttentionInputs in{with_rank_4(x[0]), with_rank_4(x[1]), with_rank_4(x[2]),
                              nullptr,           nullptr,           {0, 0}};
    if (mask.defined()) in.mask = with_rank_4(mask);
    if (c.dropout > 0) {
        std::tie(in.random[0], in.random[1]) = graph::next_random();
        in.seed = node_of(tensor<std::int64_t>(
            {static_cast<std::int64_t>(in.random[0]), static_cast<std::int64_t>(in.random[1])}));
    }
    const double scale = 1 / std::sqrt(static_cast<double>(c.q.back()));
    Shape out = c.q;
    out[out.rank() - 1] = c.v.back();
    return wrap(graph::reshape(
        graph::permute(graph::attention(in, {scale, c.dropout, c.causal}), {0, 2, 1, 3}), out));
}

Result run(const Case& c, DType dtype, double rounding) {
    manual_seed(9);
    std::vector<Tensor> leaves;
    std::vector<Tensor> in;
    for (const Shape* s : {&c.q, &c.k, &c.v}) {
        Shape laid = *s;
        if (c.heads_inside) std::swap(laid[1], laid[2]);
        // Values that every dtype here holds.
        Tensor x = cast(round(randn(laid) * rounding) / rounding, dtype);
        x.requires_grad_();
        leaves.push_back(x);
        in.push_back(c.heads_inside ? transpose(x, 1, 2) : x);
    }
    Tensor mask;
    if (!(c.bool_mask == Shape{0})) mask = rand(c.bool_mask) > 0.4;
    if (!(c.added_mask == Shape{0}))
        mask = cast(where(rand(c.added_mask) > 0.2, round(randn(c.added_mask) * 4) / 4,
                          -std::numeric_limits<double>::infinity()),
                    dtype);
    const Tensor y = dtype == float64 ? scaled_dot_product_attention(in[0], in[1], in[2], mask,
                                                                     c.dropout, c.causal)
                                      : kernel(in, mask, c);
    y.backward(cast(round(randn(y.shape()) * rounding) / rounding, dtype));
    Result r{{y}};
    for (const Tensor& x : leaves)
        r.all.push_back(x.grad());
    return r;
}

double furthest(const Tensor& a, const Tensor& b) {
    const Tensor x = cast(a, float64), y = cast(b, float64);
    return (abs(x - y) / (1 + abs(y))).max().item<double>();
}

TEST(Attention, KernelsEqualTheComposition) {
    for (const Case& c : kCases) {
        SCOPED_TRACE(c.name);
        const Result want = run(c, float64, 16), got = run(c, float32, 16);
        for (std::size_t i = 0; i < 4; ++i) {
            ASSERT_EQ(got.all[i].shape().str(), want.all[i].shape().str());
            EXPECT_LE(furthest(got.all[i], want.all[i]), 2e-5) << "result " << i;
        }
    }
}

// Halves are rounded at the ends alone.
TEST(Attention, HalvesAreComputedInFloat32) {
    for (const Case& c : kCases)
        for (const DType t : {bfloat16, float16}) {
            SCOPED_TRACE(c.name);
            const Result want = run(c, float64, 4), got = run(c, t, 4);
            for (std::size_t i = 0; i < 4; ++i) {
                ASSERT_EQ(got.all[i].dtype(), t);
                EXPECT_LE(furthest(got.all[i], want.all[i]), t == bfloat16 ? 4.1e-3 : 6e-4)
                    << "result " << i;
            }
        }
}

TEST(Attention, TheMaskCanBeTrained) {
    Tensor x = rand({2, 5, 4}), mask = rand({5, 5});
    mask.requires_grad_();
    scaled_dot_product_attention(x, x, x * x, mask).sum().backward();
    EXPECT_EQ(mask.grad().shape(), (Shape{5, 5}));
    // A row's weights sum to 1 whatever is added to all of it.
    for (const float v : mask.grad().sum({1}).to_vector<float>())
        EXPECT_NEAR(v, 0, 1e-5);
    EXPECT_GT(abs(mask.grad()).max().item<float>(), 1e-3);
}

TEST(Attention, StepsWithDropoutShareAPlanAndDrawNewMasks) {
    for (const std::int64_t length : {8, 160}) {  // composed, and the kernel
        Tensor x = rand({1, 4, length, 8}).eval();
        x.requires_grad_();
        std::vector<float> losses;
        std::int64_t compiled = 0;
        for (int step = 0; step < 6; ++step) {
            const Stats before = stats();
            const Tensor loss = scaled_dot_product_attention(x, x, x, {}, 0.5).sum();
            x.zero_grad();
            loss.backward();
            x.grad().eval();
            losses.push_back(loss.item<float>());
            if (step > 1) compiled += stats().plans_compiled - before.plans_compiled;
        }
        EXPECT_EQ(compiled, 0);
        EXPECT_NE(losses[4], losses[5]);
    }
}

TEST(Attention, LargeScoresAreNotHeld) {
    for (const DType t : {float32, bfloat16}) {
        Tensor x = zeros({2, 4, 2048, 8}, t).eval();
        x.requires_grad_();
        const Tensor y = scaled_dot_product_attention(x, x, x, {}, 0.1, true);
        y.backward(ones_like(y));
        const std::string plan = explain(x.grad());
        EXPECT_NE(plan.find("attention_grad"), std::string::npos) << plan;
        EXPECT_EQ(plan.find("matmul"), std::string::npos) << plan;
    }
}

}  // namespace
}  // namespace pippin
