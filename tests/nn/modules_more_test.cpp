// Layers, recurrent ones, attention, initialisation and random functions: what PyTorch's tables
// (tests/torch) cannot show, errors, and faults by name (K02 to K10 of the list of known ones).
#include <gtest/gtest.h>

#include <cmath>

#include "common/expect_error.h"
#include "pippin/pippin.h"

namespace pippin {
namespace {

using Floats = std::vector<float>;

double at(const Tensor& t) { return t.item<double>(); }

// A tensor with the same values that is plain row-major memory.
Tensor plain(const Tensor& t) { return tensor(t.to_vector<float>(), t.shape()); }

void expect_same(const Tensor& a, const Tensor& b) { EXPECT_TRUE(allclose(a, b, 1e-4, 1e-5)); }

TEST(Products, TwoOfOneRowAddUp) {
    // The second product is the bias of the first, and not the other way about as well.
    manual_seed(1);
    const Tensor a = randn({1, 6}), b = randn({1, 6}), w = randn({6, 6});
    a.eval(), b.eval(), w.eval();
    const auto x = (matmul(a, w) + matmul(b, w)).to_vector<float>();
    const auto y = matmul(plain(a + b), w).to_vector<float>();
    for (std::size_t i = 0; i < x.size(); ++i)
        EXPECT_NEAR(x[i], y[i], 1e-5);
}

TEST(KnownFaults, K02LinearWithEverySecondRowOfAWeight) {
    manual_seed(2);
    const Tensor w = randn({12, 8}).index({Slice({}, {}, 2)}), x = randn({2, 8});
    expect_same(linear(x, w), linear(plain(x), plain(w)));
}

TEST(KnownFaults, K05BatchNormOfAPermutedInput) {
    manual_seed(5);
    const Tensor base = randn({4, 8, 8, 3}), up = randn({4, 3, 8, 8});
    Tensor x = base.detach(), y = plain(permute(base, {0, 3, 1, 2}));
    x.requires_grad_(), y.requires_grad_();
    nn::BatchNorm2d bn(3);
    bn(permute(x, {0, 3, 1, 2})).backward(up);
    const Tensor dw = bn.weight.grad().detach();
    bn.zero_grad();
    bn(y).backward(up);
    expect_same(permute(x.grad(), {0, 3, 1, 2}), y.grad());
    expect_same(dw, bn.weight.grad());
}

TEST(KnownFaults, K06LayerNormOfSomeRows) {
    manual_seed(6);
    const Tensor x = randn({3, 4}).index({Slice(1, 3)});
    expect_same(layer_norm(x, {4}), layer_norm(plain(x), {4}));
}

TEST(KnownFaults, K08ActivationsOfATransposedTensor) {
    manual_seed(8);
    const Tensor x = transpose(randn({1, 1024, 500}), 1, 2);
    expect_same(gelu(x), gelu(plain(x)));
    expect_same(elu(x), elu(plain(x)));
}

TEST(KnownFaults, K10EvaluationOfADropoutModelAfterAStep) {
    manual_seed(10);
    auto m = nn::sequential(nn::make<nn::Linear>(5, 8), nn::make<nn::Dropout>(0.5),
                            nn::make<nn::Dropout2d>(0.5), nn::make<nn::AlphaDropout>(0.5),
                            nn::make<nn::Linear>(8, 2));
    optim::SGD opt(m->parameters(), {.lr = 0.1});
    const Tensor x = plain(randn({10, 5}));
    sum((*m)(x)).backward();
    opt.step();
    m->eval();
    const Tensor three = (*m)(x.index({Slice(0, 3)}));
    expect_same((*m)(x).index({Slice(0, 3)}), three);
}

TEST(Dropouts, ChannelsAndSelu) {
    manual_seed(3);
    const auto v = dropout2d(ones({50, 20, 3}), 0.25).to_vector<float>();
    int dropped = 0;
    for (std::size_t i = 0; i < v.size(); i += 3) {
        EXPECT_TRUE(v[i] == v[i + 1] && v[i] == v[i + 2]);
        EXPECT_TRUE(v[i] == 0 || std::abs(v[i] - 4.0f / 3) < 1e-6f);
        dropped += v[i] == 0;
    }
    EXPECT_NEAR(dropped, 250, 60);
    const Tensor y = alpha_dropout(randn({40000}), 0.3);
    EXPECT_NEAR(at(mean(y)), 0, 0.03);
    EXPECT_NEAR(at(std(y)), 1, 0.03);
    EXPECT_TRUE(equal(alpha_dropout(ones({3}), 1), zeros({3})));
    EXPECT_ERROR(dropout2d(ones({3})), ValueError, "(N, C, ...)");
    EXPECT_ERROR(nn::Dropout2d(2), ValueError, "Dropout2d");
    EXPECT_ERROR(alpha_dropout(ones({3}, int64), 0.5), TypeError, "int64");
}

TEST(Layers, EmbeddingStartsWithItsPaddingRowZero) {
    manual_seed(4);
    nn::Embedding e(50, 40, -1);
    const Tensor last = e.weight[49].detach();
    EXPECT_TRUE(equal(last, zeros({40})));
    EXPECT_NEAR(at(std(e.weight.detach())), 1, 0.06);
    EXPECT_ERROR(nn::Embedding(5, 2, 5), ValueError, "padding_idx 5");
    EXPECT_ERROR(nn::Embedding(0, 2), ValueError, "Embedding");
}

TEST(Layers, ListsAndDictionaries) {
    struct Net : nn::Module {
        std::shared_ptr<nn::ModuleList<nn::Linear>> list =
            register_module("list", nn::make<nn::ModuleList<nn::Linear>>());
        std::shared_ptr<nn::ModuleDict<>> dict =
            register_module("dict", nn::make<nn::ModuleDict<>>());
        std::string type_name() const override { return "Net"; }
    } net;
    net.list->append(nn::make<nn::Linear>(2, 3)).append(nn::make<nn::Linear>(3, 1, false));
    net.dict->insert("act", nn::make<nn::ReLU>()).insert("norm", nn::make<nn::LayerNorm>(Shape{3}));
    std::vector<std::string> names;
    for (const auto& entry : net.named_parameters())
        names.push_back(entry.first);
    EXPECT_EQ(names, (std::vector<std::string>{"list.0.weight", "list.0.bias", "list.1.weight",
                                               "dict.norm.weight", "dict.norm.bias"}));
    EXPECT_EQ(net.list->size(), 2u);
    EXPECT_EQ((*net.list)[1].weight.shape(), (Shape{1, 3}));
    EXPECT_TRUE(net.dict->contains("act"));
    EXPECT_FALSE(net.dict->contains("else"));
    EXPECT_EQ((*net.dict)["act"].type_name(), "ReLU");
    EXPECT_ERROR((*net.dict)["else"], ValueError, "\"else\"");
    EXPECT_ERROR((*net.list)(ones({1, 2})), ValueError, "ModuleList", "one input");
}

TEST(Layers, RefuseBadArguments) {
    const Tensor x = ones({2, 4, 3, 3});
    EXPECT_ERROR(nn::Conv1d(3, 4, {.groups = 2}), ValueError, "Conv1d", "divisible");
    EXPECT_ERROR(nn::Conv1d(3, 4, {.kernel = 0}), ValueError, "kernel");
    EXPECT_ERROR(nn::ConvTranspose2d(3, 4, {.stride = 0}), ValueError, "ConvTranspose2d", "stride");
    EXPECT_ERROR(nn::MaxPool1d(2, 1, 2), ValueError, "padding");
    EXPECT_ERROR(nn::AvgPool1d(0), ValueError, "AvgPool1d");
    EXPECT_ERROR(nn::Upsample({}), ValueError, "either a size or a scale");
    EXPECT_ERROR(pixel_shuffle(x, 3), ValueError, "4 channels", "9");
    EXPECT_ERROR(pixel_unshuffle(x, 2), ValueError, "height 3");
    EXPECT_ERROR(unflatten(x, 1, {3, -1}), ValueError, "[3, -1]", "extent 4");
    EXPECT_ERROR(unflatten(x, 1, {-1, -1}), ValueError, "only one");
    EXPECT_TRUE(equal(pixel_unshuffle(pixel_shuffle(x, 2), 2), x));
    EXPECT_ERROR(nn::BatchNorm1d(4)(x), ValueError, "BatchNorm1d", "(N, C) or (N, C, L)");
    EXPECT_ERROR(nn::BatchNorm2d(3)(x), ValueError, "3 channels", "[2, 4, 3, 3]");
    EXPECT_ERROR(nn::InstanceNorm2d(4)(ones({2, 4, 1, 1})), ValueError, "more than one value");
    EXPECT_ERROR(nn::GroupNorm(3, 4), ValueError, "4 channels", "3 groups");
    EXPECT_ERROR(group_norm(x, 3), ValueError, "group_norm");
    EXPECT_ERROR(rms_norm(x, {4}), ValueError, "does not end in [4]");
}

TEST(Recurrent, StartsRefusalsAndDropoutBetweenLayers) {
    manual_seed(9);
    nn::LSTM lstm(4, 25, {.num_layers = 2, .dropout = 0.5});
    const Tensor w = lstm.named_parameters()[1].second.detach();
    EXPECT_LE(at(amax(abs(w))), 0.2);  // 1 / sqrt(25)
    EXPECT_GT(at(amax(abs(w))), 0.19);
    const Tensor x = plain(randn({5, 3, 4}));
    EXPECT_FALSE(equal(lstm(x), lstm(x)));
    lstm.eval();
    EXPECT_TRUE(equal(lstm(x), lstm(x)));
    EXPECT_ERROR(lstm(ones({5, 3, 5})), ValueError, "LSTM", "(L, N, 4)", "[5, 3, 5]");
    EXPECT_ERROR(lstm(ones({0, 3, 4})), ValueError, "no elements");
    EXPECT_ERROR((lstm(x, nn::LSTM::State{ones({1, 3, 25}), {}})), ValueError, "[2, 3, 25]");
    EXPECT_ERROR(nn::GRU(0, 2), ValueError, "GRU");
    EXPECT_ERROR(nn::RNN(2, 2, {.num_layers = 0}), ValueError, "num_layers");
    EXPECT_ERROR(nn::RNN(2, 2, {.dropout = 2}), ValueError, "dropout");
    EXPECT_ERROR(nn::GRUCell(4, 2)(ones({3, 5})), ValueError, "GRUCell", "(N, 4)");
    EXPECT_ERROR(nn::GRUCell(4, 2)(ones({3, 4}), ones({3, 3})), ValueError, "[3, 2]", "[3, 3]");
}

TEST(Attention, CausalRowsThatSeeNothingAndErrors) {
    manual_seed(11);
    nn::MultiheadAttention mha(8, 2);
    const Tensor x = plain(randn({4, 3, 8}));
    const Tensor mask = unsqueeze(arange(4), 1) < arange(4);
    const Tensor want = mha(x, x, x, {.attn_mask = mask}).output;
    for (const bool weights : {false, true})
        expect_same(mha(x, x, x, {.is_causal = true}, weights).output, want);
    const Tensor all = ones({3, 4}, boolean);
    for (const bool weights : {false, true}) {
        const Tensor y = mha(x, x, x, {.key_padding_mask = all}, weights).output;
        expect_same(y, expand(mha.out_proj->bias, y.shape()));
    }
    EXPECT_ERROR(nn::MultiheadAttention(8, 3), ValueError, "embed_dim 8", "num_heads 3");
    EXPECT_ERROR(mha(x, x, ones({4, 3, 7})), ValueError, "value", "[4, 3, 7]");
    EXPECT_ERROR(mha(x, x, x, {.attn_mask = ones({3, 4})}), ValueError, "attn_mask", "[4, 4]");
    EXPECT_ERROR(mha(x, x, x, {.key_padding_mask = ones({3, 4}, int64)}), TypeError, "int64");
    EXPECT_ERROR(nn::TransformerEncoder(8, 2, 0), ValueError, "num_layers");
    nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16});
    EXPECT_FALSE(equal(layer(x), layer(x)));  // dropout
}

TEST(Init, TruncatedOrthogonalIdentity) {
    manual_seed(12);
    Tensor t = zeros({200, 200});
    nn::init::trunc_normal_(t, 0.5, 2, -1, 3);
    EXPECT_GE(at(amin(t)), -1);
    EXPECT_LE(at(amax(t)), 3);
    // Mean and deviation of a normal distribution cut at (low - mean) / std = -0.75 and 1.25.
    EXPECT_NEAR(at(mean(t)), 0.5 + 2 * (0.3011374 - 0.1826491) / (0.8943502 - 0.2266274), 0.02);
    nn::init::trunc_normal_(t, 0, 0.02);
    EXPECT_NEAR(at(std(t)), 0.02, 0.0004);
    for (const Shape& shape : {Shape{4, 9}, Shape{9, 4}, Shape{6, 2, 3}}) {
        Tensor m = zeros(shape);
        nn::init::orthogonal_(m, 2);
        const Tensor flat = reshape(m, {shape[0], -1});
        const bool wide = flat.size(0) <= flat.size(1);
        expect_same(wide ? matmul(flat, flat.t()) : matmul(flat.t(), flat),
                    eye(std::min(flat.size(0), flat.size(1))) * 4);
    }
    Tensor k = ones({3, 2, 3});
    nn::init::dirac_(k);
    EXPECT_EQ(k.to_vector<float>(), (Floats{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}));
    Tensor i = zeros({2, 3});
    nn::init::eye_(i);
    EXPECT_EQ(i.to_vector<float>(), (Floats{1, 0, 0, 0, 1, 0}));
    EXPECT_NEAR(nn::init::calculate_gain(nn::init::After::LeakyRelu, 0.2), std::sqrt(2 / 1.04),
                1e-12);
    EXPECT_ERROR(nn::init::trunc_normal_(t, 0, 0), ValueError, "std");
    EXPECT_ERROR(nn::init::trunc_normal_(t, 0, 1, 2, 1), ValueError, "low 2");
    EXPECT_ERROR(nn::init::dirac_(t), ValueError, "3 or 4");
}

TEST(Random, Distributions) {
    manual_seed(13);
    const Tensor p = full({20000}, 0.3);
    EXPECT_NEAR(at(mean(bernoulli(p))), 0.3, 0.02);
    EXPECT_NEAR(at(mean(exponential({20000}, 4))), 0.25, 0.01);
    const Tensor n = normal(full({20000}, 5.0), full({20000}, 0.5));
    EXPECT_NEAR(at(mean(n)), 5, 0.02);
    EXPECT_NEAR(at(std(n)), 0.5, 0.01);
    EXPECT_NEAR(at(std(normal(p, 2))), 2, 0.05);
    EXPECT_EQ(rand_like(ones({2}, float64)).dtype(), float64);
    EXPECT_EQ(randn_like(p).shape(), p.shape());
    const Tensor r = randint_like(zeros({1000}, int64), 2, 4);
    EXPECT_EQ(r.dtype(), int64);
    EXPECT_EQ(amin(r).item<std::int64_t>(), 2);
    EXPECT_EQ(amax(r).item<std::int64_t>(), 3);
    EXPECT_ERROR(exponential({2}, 0), ValueError, "rate");
    EXPECT_ERROR(bernoulli(ones({2}, int64)), TypeError, "bernoulli");
    EXPECT_ERROR(normal(p, -1), ValueError, "negative");
}

}  // namespace
}  // namespace pippin
