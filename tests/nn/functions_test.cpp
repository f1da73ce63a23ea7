// Activations and losses: small digits that a table relative to 1 cannot show, modules, and what
// they refuse. Their values and gradients are in tests/torch.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/expect_error.h"
#include "pippin/losses.h"
#include "pippin/nn_activations.h"

namespace pippin {
namespace {

using Floats = std::vector<float>;

double at(const Tensor& t, std::size_t i = 0) { return t.to_vector<double>()[i]; }

// Relative to the value itself, by more than float32 has left after log(1 + tiny).
TEST(Activations, KeepTheDigitsOfSmallResults) {
    for (const double v : {-1e-8, -1e-4, -3e-7, -0.1}) {
        EXPECT_NEAR(at(elu(Tensor({static_cast<float>(v)}))) / std::expm1(v), 1, 1e-6) << v;
    }
    for (const double v : {-20.0, -9.0, -40.0, -80.0, -1.0, 0.0}) {
        const Tensor x({static_cast<float>(v)});
        const double want = std::log1p(std::exp(v));
        EXPECT_NEAR(at(softplus(x)) / want, 1, 2e-6) << v;
        EXPECT_NEAR(at(logsigmoid(-x)) / -want, 1, 2e-6) << v;
        EXPECT_NEAR(at(binary_cross_entropy_with_logits(x, zeros({1}))) / want, 1, 2e-6) << v;
        if (v != 0) {
            EXPECT_NEAR(at(mish(x)) / (v * std::tanh(want)), 1, 3e-6) << v;
        }
    }
}

TEST(Activations, InfinitiesOfHardswish) {
    const double inf = std::numeric_limits<double>::infinity();
    const auto y = hardswish(Tensor({-HUGE_VALF, HUGE_VALF, 3e38f})).to_vector<double>();
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(y[1], inf);
    EXPECT_NEAR(y[2], 3e38, 1e32);
}

TEST(Activations, RefuseBadArguments) {
    const Tensor x = ones({2, 3}), integers = ones({2}, int64);
    EXPECT_ERROR(elu(integers), TypeError, "elu", "floating point", "int64", "functions_test.cpp");
    EXPECT_ERROR(relu6(integers), TypeError, "relu6");
    EXPECT_ERROR(hardtanh(x, 1, 0), ValueError, "min_val 1", "max_val 0");
    EXPECT_ERROR(celu(x, 0), ValueError, "alpha");
    EXPECT_ERROR(softplus(x, 0), ValueError, "beta");
    EXPECT_ERROR(softshrink(x, -1), ValueError, "lambd");
    EXPECT_ERROR(glu(x), ValueError, "even", "[2, 3]");
    EXPECT_ERROR(glu(scalar(1)), ValueError, "at least 1 dimension");
    EXPECT_ERROR(prelu(x, ones({2})), ValueError, "3 channels", "[2]");
    EXPECT_ERROR(prelu(x, ones({3}, float64)), TypeError, "float64");
    EXPECT_ERROR(nn::Hardtanh(2, 1), ValueError, "Hardtanh", "min_val");
    EXPECT_ERROR(nn::CELU(0), ValueError, "CELU");
    EXPECT_ERROR(nn::Softplus(0), ValueError, "Softplus");
    EXPECT_ERROR(nn::Softshrink(-1), ValueError, "Softshrink");
    EXPECT_ERROR(nn::PReLU(0), ValueError, "PReLU");
}

TEST(Losses, RefuseBadArguments) {
    const Tensor x = ones({2, 3}), t = zeros({2}, int64);
    EXPECT_ERROR(cross_entropy(x, t, ones({2})), ValueError, "one for each class", "[3]");
    EXPECT_ERROR(cross_entropy(x, ones({2, 4})), ValueError, "probabilities", "[2, 3]", "[2, 4]");
    EXPECT_ERROR(cross_entropy(x, t, ones({3}), Reduction::Mean, -100, 2), ValueError, "smoothing");
    EXPECT_ERROR(nll_loss(x, zeros({3}, int64)), ValueError, "nll_loss", "[2]", "[3]");
    EXPECT_ERROR(cross_entropy(ones({2, 3}, int64), t), TypeError, "floating point");
    EXPECT_ERROR(binary_cross_entropy(x, ones({3})), ValueError, "one shape", "[2, 3]", "[3]");
    EXPECT_ERROR(l1_loss(ones({2}, int64), ones({2}, int64)), TypeError, "l1_loss", "int64");
    EXPECT_ERROR(huber_loss(x, x, Reduction::Mean, 0), ValueError, "delta");
    EXPECT_ERROR(smooth_l1_loss(x, x, Reduction::Mean, -1), ValueError, "beta");
    EXPECT_ERROR(triplet_margin_loss(x, x, x, 0), ValueError, "margin");
    EXPECT_ERROR(cosine_embedding_loss(x, x, x), ValueError, "(N, D)");
    EXPECT_ERROR(kl_div(scalar(1), scalar(1), KlReduction::BatchMean), ValueError, "batch");
    nn::MSELoss loss;
    EXPECT_ERROR(static_cast<nn::Module&>(loss)(x), ValueError, "MSELoss", "one input");
}

TEST(Losses, ModulesCallTheirFunction) {
    const Tensor x = tensor(Floats{0.5f, -1, 2, 0.25f, 1, -0.5f}, {2, 3});
    const Tensor y = tensor(Floats{1, 0, 1, 0, 1, 1}, {2, 3}), p = sigmoid(x);
    const Tensor classes({std::int64_t{2}, std::int64_t{0}}), w = tensor(Floats{1, 2, 3});
    const Tensor sign({1.f, -1.f});
    const auto same = [](const Tensor& a, const Tensor& b) {
        EXPECT_TRUE(equal(a, b)) << a << " and " << b;
    };
    using R = Reduction;
    same(nn::CrossEntropyLoss({.weight = w, .ignore_index = 0, .label_smoothing = 0.1})(x, classes),
         cross_entropy(x, classes, w, R::Mean, 0, 0.1));
    same(nn::CrossEntropyLoss()(x, classes), cross_entropy(x, classes));
    same(nn::NLLLoss(w, 2, R::Sum)(x, classes), nll_loss(x, classes, w, R::Sum, 2));
    same(nn::BCELoss(w, R::None)(p, y), binary_cross_entropy(p, y, w, R::None));
    same(nn::BCEWithLogitsLoss(w, R::Sum, w + 1)(x, y),
         binary_cross_entropy_with_logits(x, y, w, R::Sum, w + 1));
    same(nn::MSELoss(R::Sum)(x, y), mse_loss(x, y, R::Sum));
    same(nn::L1Loss(R::None)(x, y), l1_loss(x, y, R::None));
    same(nn::SmoothL1Loss(R::Mean, 0.5)(x, y), smooth_l1_loss(x, y, R::Mean, 0.5));
    same(nn::HuberLoss(R::Sum, 0.5)(x, y), huber_loss(x, y, R::Sum, 0.5));
    same(nn::KLDivLoss(KlReduction::BatchMean, true)(x, y),
         kl_div(x, y, KlReduction::BatchMean, true));
    same(nn::SoftMarginLoss(R::Sum)(x, y * 2 - 1), soft_margin_loss(x, y * 2 - 1, R::Sum));
    same(nn::HingeEmbeddingLoss(0.5, R::Sum)(x, y * 2 - 1),
         hinge_embedding_loss(x, y * 2 - 1, 0.5, R::Sum));
    same(nn::PoissonNLLLoss(false, 0.5, R::Sum)(p, y), poisson_nll_loss(p, y, false, 0.5, R::Sum));
    same(nn::MarginRankingLoss(0.5, R::Sum)(x[0], x[1], y[0] * 2 - 1),
         margin_ranking_loss(x[0], x[1], y[0] * 2 - 1, 0.5, R::Sum));
    same(nn::CosineEmbeddingLoss(0.25, R::None)(x, y, sign),
         cosine_embedding_loss(x, y, sign, 0.25, R::None));
    same(nn::TripletMarginLoss(2, 1, 1e-3, true, R::None)(x, y, p),
         triplet_margin_loss(x, y, p, 2, 1, 1e-3, true, R::None));
}

TEST(Losses, WeightsAreBuffers) {
    nn::CrossEntropyLoss loss({.weight = ones({3})});
    ASSERT_EQ(loss.state_dict().size(), 1u);
    EXPECT_EQ(loss.state_dict()[0].first, "weight");
    const Tensor x = tensor(Floats{1, 2, 3}, {1, 3}), t = zeros({1}, int64);
    loss.load_state_dict({{"weight", tensor(Floats{5, 1, 1})}});
    EXPECT_NEAR(at(nn::CrossEntropyLoss(
                    {.weight = tensor(Floats{5, 1, 1}), .reduction = Reduction::Sum})(x, t)),
                5 * at(cross_entropy(x, t)), 1e-5);
    EXPECT_NEAR(at(loss(x, t)), at(cross_entropy(x, t)), 1e-6);
    EXPECT_EQ(loss.str(), "CrossEntropyLoss()");
}

// A weight of 0 on a class whose log-probability is -inf, in a row that is ignored.
TEST(Losses, IgnoredRowsCountInNothing) {
    const float inf = std::numeric_limits<float>::infinity();
    Tensor log_p = tensor(Floats{-inf, 0, -1, -0.5f}, {2, 2});
    log_p.requires_grad_();
    const Tensor t({std::int64_t{-100}, std::int64_t{0}});
    const Tensor loss = nll_loss(log_p, t, tensor(Floats{2, 0}));
    loss.backward();
    EXPECT_EQ(at(loss), 1);
    EXPECT_EQ(log_p.grad().to_vector<float>(), (Floats{0, 0, -1, 0}));
}

}  // namespace
}  // namespace pippin
