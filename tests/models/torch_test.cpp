// The networks against the reference's: every name and shape at full size; and scaled down, logits,
// loss, every gradient and twenty training steps. tools/make_model_fixtures.py wrote the numbers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "common/generate.h"
#include "pippin/bert.h"
#include "pippin/models.h"
#include "pippin/optim.h"

namespace pippin::test {
namespace {

constexpr int kSteps = 20, kBatches = 3;
constexpr std::int64_t kClasses = 10;
constexpr std::uint32_t kProbeSeed = 99;
constexpr double kLogits = 1e-5;  // of the largest

// --- names ---

class FullSize : public ::testing::TestWithParam<std::string> {};

TEST_P(FullSize, HasTheReferencesNamesAndShapes) {
    std::ifstream in(PIPPIN_SOURCE_DIR "/tests/models/names/" + GetParam() + ".txt");
    ASSERT_TRUE(in.is_open());
    std::string line;
    std::getline(in, line);
    const models::Info& info = models::info(GetParam());
    const auto model = models::create(info.name, info.num_classes);
    EXPECT_EQ(model->num_parameters(), std::stoll(line));
    std::vector<std::string> want, got;
    while (std::getline(in, line))
        want.push_back(line);
    for (const auto& [name, t] : model->state_dict()) {
        got.push_back(name);
        for (const std::int64_t extent : t.shape())
            got.back() += fmt::format(" {}", extent);
    }
    EXPECT_EQ(got, want);
}

std::string as_name(const testing::TestParamInfo<std::string>& test) { return test.param; }
INSTANTIATE_TEST_SUITE_P(All, FullSize, ::testing::ValuesIn(models::names()), as_name);

TEST(Models, CountsThatWerePublished) {
    const std::map<std::string, std::int64_t> counts = {
        {"lenet5", 61706},      {"alexnet", 61100840},        {"vgg16", 138357544},
        {"resnet50", 25557032}, {"efficientnet_b0", 5288548}, {"efficientnet_b4", 19341616},
        {"vit_b_16", 86567656}, {"bert_base", 109483778}};
    for (const auto& [name, count] : counts) {
        const auto model = models::create(name, models::info(name).num_classes);
        EXPECT_EQ(model->num_parameters(), count) << name;
    }
}

// --- numbers ---

nn::ModulePtr make_model(const Json& j) {
    const std::string name = j.at("model");
    const Json& c = j.at("config");
    const auto integer = [&](const char* key) { return c.at(key).get<std::int64_t>(); };
    const auto layers = [&] { return c.at("layers").get<std::vector<std::int64_t>>(); };
    if (name == "alexnet") return nn::make<models::AlexNet>(kClasses, 0.0, integer("hidden"));
    if (name == "vgg" || name == "vgg_bn")
        return nn::make<models::VGG>(layers(), c.at("batch_norm").get<bool>(), kClasses, 0.0,
                                     integer("hidden"));
    using models::ResNet;
    if (name == "resnet_bottleneck")
        return nn::make<ResNet>(ResNet::Block::Bottleneck, layers(), kClasses);
    if (name == "resnet_d")
        return nn::make<ResNet>(ResNet::Block::Bottleneck, layers(), kClasses, ResNet::Variant::D,
                                integer("width"));
    if (name == "convmixer")
        return nn::make<models::ConvMixer>(integer("dim"), integer("depth"), integer("kernel"),
                                           integer("patch"), kClasses);
    if (name == "efficientnet" || name == "efficientnet_b5up")
        return nn::make<models::EfficientNet>(
            models::EfficientNet::Args{.width = c.at("width"),
                                       .depth = c.at("depth"),
                                       .dropout = 0,
                                       .stochastic_depth = 0,
                                       .bn_eps = c.at("bn_eps"),
                                       .bn_momentum = c.at("bn_momentum"),
                                       .num_classes = kClasses});
    if (name == "vit")
        return nn::make<models::VisionTransformer>(
            models::VisionTransformer::Args{.image_size = integer("image_size"),
                                            .patch_size = integer("patch_size"),
                                            .layers = integer("layers"),
                                            .heads = integer("heads"),
                                            .hidden = integer("hidden"),
                                            .mlp = integer("mlp"),
                                            .num_classes = kClasses});
    models::BertConfig b;
    b.vocab_size = integer("vocab_size"), b.hidden_size = integer("hidden_size");
    b.layers = integer("layers"), b.heads = integer("heads");
    b.intermediate_size = integer("intermediate_size");
    b.max_positions = integer("max_positions");
    b.hidden_dropout = b.attention_dropout = 0;
    return nn::make<models::BertForSequenceClassification>(b, kClasses);
}

struct Batch {
    std::vector<Tensor> x;  // images; or ids, mask and types
    Tensor y;
};

// The script's batch_of.
Batch make_batch(const Json& j, std::uint32_t number) {
    const Dims shape = j.at("input");
    std::vector<std::int64_t> classes;
    for (const std::uint32_t v : hash32(shape[0], 6000 + number))
        classes.push_back(v % kClasses);
    Batch out;
    out.y = tensor(classes);
    if (shape.size() == 4) {
        out.x = {patchy_images(Shape(shape), number)};
        return out;
    }
    const std::int64_t n = shape[0], length = shape[1];
    const auto vocabulary = j.at("config").at("vocab_size").get<std::uint32_t>();
    std::vector<std::int64_t> ids, mask, types;
    for (const std::uint32_t v : hash32(n * length, 5000 + number))
        ids.push_back(v % vocabulary);
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < length; ++k) {
            const std::int64_t tokens = std::min(3 + 2 * i, length);
            mask.push_back(k < tokens);
            types.push_back(k >= tokens / 2);
        }
    out.x = {tensor(ids, {n, length}), tensor(mask, {n, length}), tensor(types, {n, length})};
    return out;
}

Tensor run(nn::Module& model, const Batch& b) {
    if (b.x.size() == 1) return model(b.x[0]);
    return dynamic_cast<models::BertForSequenceClassification&>(model)(b.x[0], b.x[1], b.x[2]);
}

void load_start(nn::Module& model, const Json& state, std::uint32_t first_seed) {
    nn::Module::Named start;
    std::uint32_t position = 0;
    const auto own = model.state_dict();
    ASSERT_EQ(own.size(), state.size());
    for (const auto& [name, t] : own) {
        const Json& s = state[position];
        ASSERT_EQ(name, s[0].get<std::string>());
        start.emplace_back(name, t.dtype() == int64
                                     ? zeros({}, int64)
                                     : generate(t.shape(), first_seed + position, 24, s[1], s[2]));
        ++position;
    }
    model.load_state_dict(start);
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Json& j, std::vector<Tensor> parameters) {
    const Json& o = j.at("options");
    if (j.at("optimizer") == "SGD")
        return std::make_unique<optim::SGD>(
            std::move(parameters), optim::SGDOptions{.lr = o.at("lr"),
                                                     .momentum = o.at("momentum"),
                                                     .weight_decay = o.at("weight_decay")});
    return std::make_unique<optim::AdamW>(std::move(parameters),
                                          optim::AdamOptions{.lr = o.at("lr"),
                                                             .beta1 = o.at("beta1"),
                                                             .beta2 = o.at("beta2"),
                                                             .eps = o.at("eps"),
                                                             .weight_decay = o.at("weight_decay")});
}

// Every gradient's length and its part along a direction.
void compare_gradients(const nn::Module& model, const Json& state, double tolerance) {
    std::map<std::string, std::pair<double, double>> want;
    double largest = 0;
    for (const Json& s : state) {
        if (s[3].is_null()) continue;
        want[s[0]] = {s[3], s[4]};
        largest = std::max(largest, s[3].get<double>());
    }
    const auto parameters = model.named_parameters();
    ASSERT_EQ(parameters.size(), want.size());
    for (const auto& [name, p] : parameters) {
        ASSERT_TRUE(p.grad().defined()) << name;
        const auto g = p.grad().to_vector<float>();
        const auto probe = generate({p.numel()}, kProbeSeed).to_vector<float>();
        double squares = 0, along = 0;
        for (std::size_t i = 0; i < g.size(); ++i) {
            const double v = g[i];
            squares += v * v, along += v * static_cast<double>(probe[i]);
        }
        const auto [want_norm, want_along] = want.at(name);
        // Below a small part of the largest gradient there is only rounding.
        const double allowed = tolerance * std::max(want_norm, 1e-3 * largest);
        EXPECT_NEAR(std::sqrt(squares), want_norm, allowed) << name;
        EXPECT_NEAR(along, want_along, allowed) << name;
    }
}

class Reference : public ::testing::TestWithParam<std::string> {};

TEST_P(Reference, LogitsGradientsAndTwentyStepsAgree) {
    std::ifstream in(PIPPIN_FIXTURES "/models/" + GetParam() + ".json");
    ASSERT_TRUE(in.is_open());
    const Json j = Json::parse(in);
    const nn::ModulePtr model = make_model(j);
    ASSERT_NO_FATAL_FAILURE(load_start(*model, j.at("state"), j.at("seed")));
    std::vector<Batch> batches;
    for (std::uint32_t i = 0; i < kBatches; ++i)
        batches.push_back(make_batch(j, i));

    model->eval();
    {
        const NoGrad no_grad;
        const auto got = run(*model, batches[0]).to_vector<double>();
        const auto want = j.at("logits").get<std::vector<double>>();
        ASSERT_EQ(got.size(), want.size());
        double size = 0;
        for (const double v : want)
            size = std::max(size, std::abs(v));
        for (std::size_t i = 0; i < got.size(); ++i)
            EXPECT_NEAR(got[i], want[i], kLogits * size) << "logit " << i;
    }

    model->train();
    const auto optimizer = make_optimizer(j, model->parameters());
    for (int step = 0; step < kSteps; ++step) {
        const Batch& b = batches[static_cast<std::size_t>(step % kBatches)];
        const Tensor loss = cross_entropy(run(*model, b), b.y);
        optimizer->zero_grad();
        loss.backward();
        if (step == 0) compare_gradients(*model, j.at("state"), j.at("gradient_tolerance"));
        optimizer->step();
        const double want = j.at("losses")[static_cast<std::size_t>(step)];
        EXPECT_NEAR(loss.item<double>(), want, j.at("loss_tolerance").get<double>() * want)
            << "step " << step;
    }
}

INSTANTIATE_TEST_SUITE_P(All, Reference,
                         ::testing::Values("alexnet", "vgg", "vgg_bn", "resnet_bottleneck",
                                           "resnet_d", "convmixer", "efficientnet",
                                           "efficientnet_b5up", "vit", "bert"),
                         as_name);

}  // namespace
}  // namespace pippin::test
