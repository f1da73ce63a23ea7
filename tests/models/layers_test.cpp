// Dropout and stochastic depth of the networks, how they start, and BERT's inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <sstream>

#include "pippin/bert.h"
#include "pippin/models.h"
#include "pippin/random.h"

namespace pippin {
namespace {

models::BertConfig small_bert() {
    models::BertConfig c;
    c.vocab_size = 50, c.hidden_size = 16, c.layers = 2, c.heads = 2, c.intermediate_size = 32;
    c.max_positions = 12;
    c.hidden_dropout = c.attention_dropout = 0;
    return c;
}

// --- stochastic depth and dropout ---

TEST(StochasticDepth, DropsWholeSamplesAndScalesTheRest) {
    manual_seed(3);
    const std::int64_t n = 4000;
    const double p = 0.3;
    const Tensor x = full({n, 2, 3}, 5.0).requires_grad_();
    const Tensor y = models::stochastic_depth(x, p, true);
    y.sum().backward();
    const auto values = y.to_vector<double>(), gradient = x.grad().to_vector<double>();
    std::int64_t dropped = 0;
    for (std::size_t i = 0; i < values.size(); i += 6) {
        const bool zero = values[i] == 0;
        dropped += zero;
        for (std::size_t k = i; k < i + 6; ++k) {
            EXPECT_FLOAT_EQ(static_cast<float>(values[k]),
                            zero ? 0.f : static_cast<float>(5 / (1 - p)));
            EXPECT_FLOAT_EQ(static_cast<float>(gradient[k]),
                            zero ? 0.f : static_cast<float>(1 / (1 - p)));
        }
    }
    // Five standard deviations of the binomial distribution.
    EXPECT_NEAR(static_cast<double>(dropped), n * p, 5 * std::sqrt(n * p * (1 - p)));
}

TEST(StochasticDepth, EdgesAndErrors) {
    const Tensor x = ones({4, 2});
    EXPECT_TRUE(equal(models::stochastic_depth(x, 0.5, false), x));
    EXPECT_TRUE(equal(models::stochastic_depth(x, 0, true), x));
    EXPECT_TRUE(equal(models::stochastic_depth(x, 1, true), zeros({4, 2})));
    EXPECT_EQ(models::stochastic_depth(x.to(float16), 0.5, true).dtype(), float16);
    EXPECT_THROW(models::stochastic_depth(x, 1.5, true), ValueError);
    EXPECT_THROW(models::stochastic_depth(x, std::nan(""), true), ValueError);
    EXPECT_THROW(models::stochastic_depth(ones({}), 0.5, true), ValueError);
}

// A module's description has the rates that its layers run with.
std::vector<std::string> lines_with(const nn::Module& m, const std::string& word) {
    std::vector<std::string> out;
    std::istringstream in(m.str());
    for (std::string line; std::getline(in, line);)
        if (const auto at = line.find(word); at != std::string::npos)
            out.push_back(line.substr(at));
    return out;
}

TEST(StochasticDepth, RatesOfEfficientNetRiseLinearly) {
    const auto rates = lines_with(*models::efficientnet_b(0), "stochastic_depth=");
    ASSERT_EQ(rates.size(), 16u);
    for (std::size_t i = 0; i < rates.size(); ++i)
        EXPECT_NEAR(std::stod(rates[i].substr(17)), 0.2 * static_cast<double>(i) / 16, 1e-12);
}

TEST(Dropout, PublishedRates) {
    const auto rates = [](const std::string& name) {
        return lines_with(*models::create(name, 10), "Dropout(");
    };
    const auto all = [](std::size_t n, const std::string& p) {
        return std::vector<std::string>(n, "Dropout(p=" + p + ", inplace=False)");
    };
    EXPECT_EQ(rates("alexnet"), all(2, "0.5"));
    EXPECT_EQ(rates("vgg11"), all(2, "0.5"));
    EXPECT_EQ(rates("efficientnet_b0"), all(1, "0.2"));
    EXPECT_EQ(rates("efficientnet_b3"), all(1, "0.3"));
    EXPECT_EQ(rates("efficientnet_b7"), all(1, "0.5"));
    EXPECT_EQ(rates("vit_b_16"), all(37, "0.0"));
    EXPECT_EQ(rates("bert_base"), all(26, "0.1"));
}

// Two passes in training differ, two in evaluation do not.
void expect_random_in_training_alone(nn::Module& m, const std::function<Tensor()>& run) {
    m.train();
    EXPECT_FALSE(equal(run(), run()));
    m.eval();
    EXPECT_TRUE(equal(run(), run()));
}

TEST(Dropout, OfAttentionAndHiddenStatesIsDrawnInTrainingAlone) {
    manual_seed(4);
    const Tensor ids = randint(0, 50, {2, 8});
    for (const bool attention : {true, false}) {
        models::BertConfig c = small_bert();
        (attention ? c.attention_dropout : c.hidden_dropout) = 0.5;
        models::BertModel bert(c);
        expect_random_in_training_alone(bert, [&] { return bert(ids).pooled; });
        models::VisionTransformer::Args a{.image_size = 16,
                                          .patch_size = 8,
                                          .layers = 1,
                                          .heads = 2,
                                          .hidden = 8,
                                          .mlp = 16,
                                          .num_classes = 4};
        (attention ? a.attention_dropout : a.dropout) = 0.5;
        models::VisionTransformer vit(a);
        // The head starts at zero.
        for (auto& [name, t] : vit.named_parameters())
            if (name == "heads.head.weight") nn::init::normal_(t);
        const Tensor x = randn({2, 3, 16, 16});
        expect_random_in_training_alone(vit, [&] { return vit(x); });
    }
}

// --- initialisation ---

struct Start {
    std::string name;
    double mean, std;
};

// Against a normal or uniform distribution's moments, within five standard errors.
void expect_start(const nn::Module& m, const std::vector<Start>& expected) {
    std::map<std::string, Tensor> all;
    for (const auto& [name, t] : m.state_dict())
        all[name] = t;
    for (const Start& e : expected) {
        ASSERT_TRUE(all.count(e.name)) << e.name;
        const Tensor t = all[e.name].detach();
        const auto n = static_cast<double>(t.numel());
        EXPECT_NEAR(t.mean().item<double>(), e.mean, 5 * e.std / std::sqrt(n)) << e.name;
        EXPECT_NEAR(std(t).item<double>(), e.std, 5 * e.std / std::sqrt(2 * n) + 1e-12) << e.name;
    }
}

double by_fan(double fan) { return std::sqrt(2 / fan); }
double uniform_std(double bound) { return bound / std::sqrt(3.0); }

TEST(Start, Vgg) {
    manual_seed(7);
    const models::VGG m({16, 0, 32}, true, 10, 0.5, 64);
    expect_start(m, {{"features.0.weight", 0, by_fan(16 * 9)},
                     {"features.0.bias", 0, 0},
                     {"features.4.weight", 0, by_fan(32 * 9)},
                     {"features.1.weight", 1, 0},
                     {"classifier.0.weight", 0, 0.01},
                     {"classifier.0.bias", 0, 0},
                     {"classifier.6.weight", 0, 0.01}});
}

TEST(Start, AlexNetAndConvMixerAsTheLayersDo) {
    manual_seed(8);
    expect_start(models::AlexNet(10, 0.5, 32),
                 {{"features.0.weight", 0, uniform_std(1 / std::sqrt(363.0))},
                  {"classifier.1.weight", 0, uniform_std(1 / std::sqrt(9216.0))}});
    expect_start(models::ConvMixer(64, 2, 5, 4, 10),
                 {{"blocks.0.0.fn.0.weight", 0, uniform_std(1.0 / 5)},
                  {"blocks.1.1.weight", 0, uniform_std(1.0 / 8)}});
}

TEST(Start, ResNetDBlocksStartAsTheIdentity) {
    manual_seed(9);
    const models::ResNet m(models::ResNet::Block::Bottleneck, {1, 1, 1, 1}, 10,
                           models::ResNet::Variant::D, 16);
    expect_start(m, {{"layer1.0.bn3.weight", 0, 0},
                     {"layer4.0.bn3.weight", 0, 0},
                     {"layer1.0.bn2.weight", 1, 0},
                     {"conv1.3.weight", 0, by_fan(8 * 9)}});
    expect_start(*models::resnet18(10), {{"layer1.0.bn2.weight", 1, 0}});
}

TEST(Start, EfficientNet) {
    manual_seed(10);
    expect_start(*models::efficientnet_b(0, 1000),
                 {{"features.0.0.weight", 0, by_fan(32 * 9)},
                  {"features.4.1.block.1.0.weight", 0, by_fan(480 * 9)},
                  {"features.4.1.block.2.fc1.weight", 0, by_fan(20)},
                  {"features.4.1.block.2.fc1.bias", 0, 0},
                  {"classifier.1.weight", 0, uniform_std(1 / std::sqrt(1000.0))},
                  {"classifier.1.bias", 0, 0}});
}

TEST(Start, VisionTransformer) {
    manual_seed(11);
    const models::VisionTransformer m({.image_size = 64,
                                       .patch_size = 16,
                                       .layers = 1,
                                       .heads = 4,
                                       .hidden = 64,
                                       .mlp = 256,
                                       .num_classes = 10});
    const std::string layer = "encoder.layers.encoder_layer_0.";
    expect_start(m, {{"class_token", 0, 0},
                     {"conv_proj.weight", 0, std::sqrt(1.0 / 768)},
                     {"conv_proj.bias", 0, 0},
                     {"encoder.pos_embedding", 0, 0.02},
                     {layer + "self_attention.in_proj_weight", 0, std::sqrt(2.0 / (64 + 192))},
                     {layer + "self_attention.in_proj_bias", 0, 0},
                     {layer + "self_attention.out_proj.weight", 0, uniform_std(1.0 / 8)},
                     {layer + "mlp.0.weight", 0, std::sqrt(2.0 / (64 + 256))},
                     {layer + "mlp.0.bias", 0, 1e-6},
                     {"heads.head.weight", 0, 0}});
}

TEST(Start, Bert) {
    manual_seed(12);
    const models::BertForSequenceClassification m(small_bert(), 3);
    expect_start(m, {{"bert.embeddings.position_embeddings.weight", 0, 0.02},
                     {"bert.encoder.layer.1.output.dense.weight", 0, 0.02},
                     {"bert.encoder.layer.1.output.dense.bias", 0, 0},
                     {"bert.embeddings.LayerNorm.weight", 1, 0},
                     {"bert.pooler.dense.weight", 0, 0.02},
                     {"classifier.weight", 0, 0.02}});
    const Tensor words = m.bert->state_dict()[0].second.detach();
    EXPECT_TRUE(equal(words[0], zeros({16})));
    EXPECT_NEAR(std(narrow(words, 0, 1, 49)).item<double>(), 0.02, 0.003);
}

// --- BERT's inputs ---

TEST(Bert, TokensThatDoNotCountChangeNothing) {
    manual_seed(13);
    models::BertModel m(small_bert());
    m.eval();
    const NoGrad no_grad;
    const Tensor ids = randint(1, 50, {2, 6}), mask = ones({2, 6}, int64);
    const auto plain = m(ids), masked = m(ids, mask);
    EXPECT_TRUE(allclose(plain.last_hidden, masked.last_hidden, 1e-5, 1e-6));
    EXPECT_TRUE(allclose(m.forward(ids), plain.last_hidden, 1e-5, 1e-6));
    EXPECT_TRUE(allclose(m(ids, {}, zeros({2, 6}, int64)).pooled, plain.pooled, 1e-5, 1e-6));
    EXPECT_FALSE(allclose(m(ids, {}, ones({2, 6}, int64)).pooled, plain.pooled, 1e-5, 1e-6));
    // Padded, with the padding masked away by a mask of any dtype, and whatever ids are there.
    const Tensor longer[] = {ids, randint(0, 50, {2, 3})}, counted[] = {mask, zeros({2, 3}, int64)};
    for (const DType t : {int64, boolean, float32}) {
        const auto padded = m(cat(longer, 1), cast(cat(counted, 1), t));
        EXPECT_TRUE(allclose(padded.pooled, plain.pooled, 1e-5, 1e-6)) << name_of(t);
        EXPECT_TRUE(allclose(narrow(padded.last_hidden, 1, 0, 6), plain.last_hidden, 1e-5, 1e-6));
        EXPECT_TRUE(allclose(models::mean_pool(padded.last_hidden, cast(cat(counted, 1), t)),
                             plain.last_hidden.mean({1}), 1e-5, 1e-6));
    }
}

TEST(Bert, MeanPoolOfNothingIsZero) {
    EXPECT_TRUE(equal(models::mean_pool(ones({1, 3, 2}), zeros({1, 3}, int64)), zeros({1, 2})));
    EXPECT_THROW(models::mean_pool(ones({1, 3, 2}), ones({1, 2}, int64)), ValueError);
}

TEST(Bert, PaddingHasNoGradient) {
    manual_seed(14);
    models::BertModel m(small_bert());
    m(tensor<std::int64_t>({0, 5, 7, 0}, {1, 4}), {}).pooled.sum().backward();
    const Tensor g = m.named_parameters()[0].second.grad();
    EXPECT_EQ(norm(g[0]).item<double>(), 0);
    EXPECT_GT(norm(g[5]).item<double>(), 0);
}

TEST(Bert, RefusesWhatDoesNotFit) {
    models::BertModel m(small_bert());
    const Tensor ids = zeros({2, 6}, int64);
    EXPECT_THROW(m(zeros({6}, int64)), ValueError);
    EXPECT_THROW(m(zeros({1, 13}, int64)), ValueError);  // more than max_positions
    EXPECT_THROW(m(ids, ones({2, 5}, int64)), ValueError);
    EXPECT_THROW(m(ids, {}, zeros({6}, int64)), ValueError);
    EXPECT_THROW(m(zeros({2, 6})), TypeError);  // ids must be integers
    auto c = small_bert();
    c.heads = 3;
    EXPECT_THROW(models::BertModel{c}, ValueError);
}

TEST(Models, RefuseImpossibleConfigurations) {
    EXPECT_THROW(models::VisionTransformer({.image_size = 30, .patch_size = 16}), ValueError);
    EXPECT_THROW(models::VisionTransformer({.heads = 5}), ValueError);
    EXPECT_THROW(models::ConvMixer(8, 1, 4, 2, 10), ValueError);
    EXPECT_THROW(models::efficientnet_b(8), ValueError);
    EXPECT_THROW(models::EfficientNet({.width = 0}), ValueError);
    models::VisionTransformer vit(
        {.image_size = 16, .patch_size = 8, .layers = 1, .heads = 1, .hidden = 4, .mlp = 4});
    EXPECT_THROW(vit(ones({1, 3, 24, 24})), ValueError);
}

}  // namespace
}  // namespace pippin
