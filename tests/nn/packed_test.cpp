// What fixtures cannot show of batch norm without a momentum, convolutions padded by name and
// packed sequences: several steps, plans that stay, NaN behind sequences' ends, errors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/expect_error.h"
#include "pippin/pippin.h"

namespace pippin {
namespace {

using Lengths = std::vector<std::int64_t>;

TEST(BatchNorm, WithoutMomentumKeepsTheMeanOverAllBatches) {
    manual_seed(1);
    nn::BatchNorm1d norm(3, 1e-5, std::nullopt);
    Tensor means = zeros({3}), variances = zeros({3});
    constexpr int kBatches = 5;
    for (int i = 0; i < kBatches; ++i) {
        const Tensor x = randn({8, 3}) + runtime_scalar(i);
        x.eval();
        // The share of a batch changes from step to step, the plan does not.
        const auto plans = stats().plans_compiled;
        norm(x).eval();
        if (i > 1) {
            EXPECT_EQ(stats().plans_compiled, plans) << i;
        }
        const NoGrad off;
        means.assign_(means + x.mean({0}));
        variances.assign_(variances + var(x, {0}));
        means.eval(), variances.eval();
    }
    EXPECT_TRUE(allclose(norm.running_mean, means / kBatches, 1e-5, 1e-6));
    EXPECT_TRUE(allclose(norm.running_var, variances / kBatches, 1e-5, 1e-6));
    EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), kBatches);

    // A checkpoint carries the count on.
    nn::BatchNorm1d other(3, 1e-5, std::nullopt);
    other.load_state_dict(norm.state_dict());
    const Tensor x = randn({8, 3});
    norm(x), other(x);
    EXPECT_TRUE(equal(norm.running_mean, other.running_mean));
    EXPECT_EQ(other.num_batches_tracked.item<std::int64_t>(), kBatches + 1);
    EXPECT_NE(norm.str().find("momentum=None"), std::string::npos);
}

TEST(BatchNorm, MomentumAsATensor) {
    const Tensor x = tensor<float>({1, 3, 5, 7}, {4, 1});
    Tensor mean = zeros({1}), variance = ones({1});
    batch_norm(x, mean, variance, {}, {}, true, scalar(0.25));
    EXPECT_FLOAT_EQ(mean.item<float>(), 1);
    EXPECT_FLOAT_EQ(variance.item<float>(), 0.75f + 0.25f * 20 / 3);
    EXPECT_ERROR(batch_norm(x, mean, variance, {}, {}, true, ones({1})), ValueError,
                 "without dimensions");
}

TEST(Convolution, PaddingByNameIsCheckedWhenTheLayerIsMade) {
    EXPECT_ERROR(nn::Conv2d(1, 1, {.kernel = 3, .stride = 2, .padding = "same"}), ValueError,
                 "Conv2d", "stride 1");
    EXPECT_ERROR(nn::Conv1d(1, 1, {.kernel = 3, .stride = 2, .padding = "same"}), ValueError,
                 "Conv1d", "stride 1");
    EXPECT_ERROR(nn::Conv2d(1, 1, {.kernel = 3, .padding = "full"}), ValueError, "\"full\"");
    const Tensor x = ones({1, 1, 4, 4}), w = ones({1, 1, 3, 3});
    EXPECT_ERROR(conv2d(x, w, {}, {.pad_h = 1, .padding = "same"}), ValueError, "leaves no room");
    EXPECT_EQ(nn::Conv2d(1, 2, {.kernel = {2, 5}, .padding = "same"})(x).shape(),
              (Shape{1, 2, 4, 4}));
}

TEST(Packed, NothingBehindTheEndsReachesAResultOrAGradient) {
    manual_seed(3);
    nn::LSTM lstm(2, 3, {.num_layers = 2, .bidirectional = true});
    const auto run = [&](float behind) {
        lstm.zero_grad();
        Tensor x = tensor<float>({1, 2, 3, 4, 5, 6, behind, behind}, {2, 2, 2});
        x.requires_grad_();
        const auto [packed, state] = lstm(nn::pack_padded_sequence(x, {2, 1}));
        const Tensor y = nn::pad_packed_sequence(packed).output;
        (y.sum() + state.h.sum() + state.c.sum()).backward();
        std::vector<Tensor> out{y, state.h, state.c, x.grad()};
        for (const Tensor& p : lstm.parameters())
            out.push_back(p.grad());
        return out;
    };
    const auto zeros = run(0), holes = run(std::numeric_limits<float>::quiet_NaN());
    for (std::size_t i = 0; i < zeros.size(); ++i)
        EXPECT_TRUE(equal(zeros[i], holes[i])) << i;
}

TEST(Packed, OtherLengthsOfTheSameShapeNeedNoNewPlan) {
    nn::GRU gru(2, 3);
    const Tensor x = randn({4, 3, 2});
    const auto run = [&](const Lengths& lengths) {
        const auto r = gru(nn::pack_padded_sequence(x, lengths, false, false));
        const Tensor all = nn::pad_packed_sequence(r.output).output.sum() + r.h.sum();
        return all.item<float>();
    };
    run({4, 2, 1});  // draws x and the weights, too
    run({4, 4, 2});
    const auto plans = stats().plans_compiled;
    run({1, 4, 3});
    EXPECT_EQ(stats().plans_compiled, plans);
}

TEST(Packed, SaysWhatDoesNotFit) {
    const Tensor x = ones({3, 2, 4});
    EXPECT_ERROR(nn::pack_padded_sequence(x, {4, 1}), ValueError, "a length of 4", "3 steps");
    EXPECT_ERROR(nn::pack_padded_sequence(x, {1, 3}), ValueError, "enforce_sorted = false",
                 "[1, 3]");
    EXPECT_ERROR(nn::pack_padded_sequence(x, {3}), ValueError, "1 lengths for 2 sequences");
    EXPECT_ERROR(nn::pack_padded_sequence(x, {3, 0}), ValueError, "at least one step", "[3, 0]");
    EXPECT_ERROR(nn::pack_padded_sequence(x, {0, 0}), ValueError, "at least one step");
    EXPECT_ERROR(nn::PackedSequence(x, {2, 2}), ValueError, "must be 3", "it is 2");
    EXPECT_ERROR(nn::pad_sequence({}), ValueError, "no sequence");
    const auto packed = nn::pack_padded_sequence(x, {3, 2});
    EXPECT_ERROR(nn::pad_packed_sequence(packed, false, 0, 2), ValueError, "total_length 2");
    EXPECT_ERROR(nn::LSTM(5, 2)(packed), ValueError, "LSTM", "5 numbers");
    EXPECT_ERROR(nn::GRU(4, 2)(packed, ones({1, 3, 2})), ValueError, "initial h");
}

}  // namespace
}  // namespace pippin
