// Batch norm in evaluation: part of the convolution before it, and the same numbers.
#include <gtest/gtest.h>

#include <string>

#include "pippin/pippin.h"

namespace pippin {
namespace {

struct Block {
    std::int64_t channels;
    Tensor x, w, mean, var, gamma, beta, other;
    Block(std::int64_t n, std::int64_t from, std::int64_t size, std::int64_t to) : channels(to) {
        manual_seed(3);
        x = randn({n, from, size, size}).eval();
        w = (randn({to, from, 3, 3}) * 0.1).eval();
        mean = randn({to}).eval(), var = (rand({to}) + 0.5).eval();
        gamma = randn({to}).eval(), beta = randn({to}).eval();
        other = randn({n, to, size, size}).eval();
    }
    Tensor convolution() const { return conv2d(x, w, {}, {.pad_h = 1, .pad_w = 1}); }
    // In memory as convolutions have it.
    Tensor skip() const { return conv2d(x, w * 2, {}, {.pad_h = 1, .pad_w = 1}); }
    Tensor normal(const Tensor& y) const {
        return batch_norm(y, mean, var, gamma, beta, /*training=*/false);
    }
};

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

double largest(const Tensor& t) { return t.abs().max().item<float>(); }

TEST(Fold, BatchNormInEvaluationIsPartOfTheConvolution) {
    const Block b(2, 5, 9, 8);
    for (const bool residual : {false, true}) {
        const auto rest = [&](const Tensor& y) {
            return relu(residual ? b.normal(y) + b.skip() : b.normal(y));
        };
        const Tensor folded = rest(b.convolution());
        const std::string plan = explain(folded);
        EXPECT_TRUE(has(plan, residual ? "conv2d+bias+add+relu" : "conv2d+bias+relu")) << plan;
        // Computed on their own the two have nothing to share.
        const Tensor apart = rest(b.convolution().eval());
        EXPECT_LT(largest(folded - apart), 1e-5 * largest(apart));
    }
}

TEST(Fold, NotWhereSomethingElseReadsTheConvolution) {
    const Block b(2, 5, 9, 8);
    const Tensor y = b.convolution(), sum = b.normal(y) + y;
    EXPECT_FALSE(has(explain(sum), "conv2d+bias"));
    const Tensor apart = b.convolution().eval();
    EXPECT_LT(largest(sum - (b.normal(apart) + apart)), 1e-5 * largest(apart));
}

// One pass over the weights would cost more than the pass over the map that it saves.
TEST(Fold, NotWhereWeightsAreMoreThanResults) {
    const Block b(1, 64, 3, 32);
    const Tensor y = relu(b.normal(b.convolution()));
    EXPECT_FALSE(has(explain(y), "conv2d+bias")) << explain(y);
}

TEST(Fold, GradientsThroughFixedStatistics) {
    Block b(2, 5, 9, 8);
    b.w.requires_grad_();
    const auto gradient = [&](bool apart) {
        b.w.zero_grad();
        const Tensor y = b.convolution();
        if (apart) y.eval();
        (relu(b.normal(y)) * b.other).sum().backward();
        return b.w.grad().detach().eval();
    };
    const Tensor folded = gradient(false), apart = gradient(true);
    EXPECT_LT(largest(folded - apart), 1e-4 * largest(apart));
}

// A product with a bias takes up the sum behind it, if that lies in memory as it does.
TEST(Fold, ProductsTakeUpSums) {
    manual_seed(4);
    const Tensor x = randn({64, 48}).eval(), w = randn({32, 48}).eval(), bias = randn({32}).eval();
    const Tensor other = randn({64, 32}).eval(), turned = randn({32, 64}).eval();
    const Tensor product = linear(x, w, bias).eval();
    const Tensor y = linear(x, w, bias) + other;
    EXPECT_TRUE(has(explain(y), "matmul+bias+add")) << explain(y);
    EXPECT_LT(largest(y - (product + other)), 1e-5 * largest(product));
    const Tensor z = linear(x, w, bias) + turned.transpose(0, 1);
    EXPECT_FALSE(has(explain(z), "matmul+bias+add")) << explain(z);
    EXPECT_LT(largest(z - (product + turned.transpose(0, 1))), 1e-5 * largest(product));
}

}  // namespace
}  // namespace pippin
