// pippin models.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/process.h"
#include "pippin/models.h"
#include "pippin/optim.h"
#include "pippin/pippin.h"
#include "pippin/random.h"
#include "pippin/stats.h"

namespace pippin {
namespace {

using test::kPippin;

TEST(ModelsCommand, ListsEveryNetworkWithItsCost) {
    const test::Outcome out = test::shell(kPippin.string() + " models --json");
    ASSERT_EQ(out.code, 0) << out.output;
    std::map<std::string, nlohmann::json> rows;
    std::vector<std::string> names;
    std::istringstream in(out.output);
    for (std::string line; std::getline(in, line);) {
        const auto j = nlohmann::json::parse(line);
        names.push_back(j.at("model"));
        rows[names.back()] = j;
    }
    EXPECT_EQ(names, models::names());
    // Thousand million multiply-adds, as torchvision publishes them beside its weights, and what
    // the layers' sizes give for LeNet-5 and for BERT's products (128 tokens).
    const std::map<std::string, double> published = {
        {"lenet5", 0.000416520},    {"alexnet", 0.714},          {"vgg11", 7.609},
        {"vgg16", 15.470},          {"vgg19", 19.632},           {"resnet18", 1.814},
        {"resnet50", 4.089},        {"resnet152", 11.514},       {"efficientnet_b0", 0.386},
        {"efficientnet_b4", 4.394}, {"efficientnet_b7", 37.746}, {"vit_b_16", 17.564},
        {"vit_b_32", 4.409},        {"vit_l_16", 61.555},        {"bert_base", 11.174}};
    for (const auto& [name, cost] : published)
        EXPECT_NEAR(rows[name].at("multiply_adds").get<double>() * 1e-9, cost, 0.01 * cost) << name;
    EXPECT_EQ(rows["resnet50"].at("parameters"), 25557032);
    EXPECT_EQ(rows["efficientnet_b4"].at("input"), (std::vector<int>{3, 380, 380}));
    EXPECT_EQ(rows["bert_base"].at("vocabulary"), 30522);
}

TEST(ModelsCommand, PrintsATableOfThoseAskedFor) {
    const test::Outcome out = test::shell(kPippin.string() + " models resnet50 minilm");
    ASSERT_EQ(out.code, 0) << out.output;
    EXPECT_TRUE(out.has("25,557,032") && out.has("3 x 224 x 224") && out.has("4.09")) << out.output;
    EXPECT_TRUE(out.has("128 tokens")) << out.output;
    EXPECT_FALSE(out.has("alexnet")) << out.output;
    const test::Outcome unknown = test::shell(kPippin.string() + " models resnet19");
    EXPECT_EQ(unknown.code, 2);
    EXPECT_TRUE(unknown.has("resnet19") && unknown.has("did you mean resnet18?")) << unknown.output;
}

// The plan's figure against what a real step takes.
TEST(EstimateMemory, IsWhatTrainingTakes) {
    const test::Outcome out =
        test::shell(kPippin.string() + " estimate-memory resnet18 --batch 4 --dtypes float32");
    ASSERT_EQ(out.code, 0) << out.output;
    const std::string row = out.lines().at(3);
    double said = 0;
    char unit[8] = "";
    ASSERT_EQ(std::sscanf(row.c_str() + row.size() - 11, "%lf %7s", &said, unit), 2) << row;
    EXPECT_STREQ(unit, "MiB");
    manual_seed(1);
    const auto model = models::resnet18();
    optim::Adam optimizer(model->parameters());
    const Tensor x = randn({4, 3, 224, 224}).eval(), y = randint(0, 1000, {4}).eval();
    for (int step = 0; step < 2; ++step) {
        if (step == 1) reset_peak_memory();
        const Tensor loss = cross_entropy((*model)(x), y);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        synchronize();
    }
    EXPECT_NEAR(said, static_cast<double>(stats().bytes_peak) / (1 << 20), 0.1 * said) << row;
}

TEST(EstimateMemory, SaysWhatItTakes) {
    const std::string command = kPippin.string() + " estimate-memory ";
    EXPECT_TRUE(test::shell(command + "resnet19").has("resnet18"));
    EXPECT_TRUE(test::shell(command + "resnet18 --dtypes int4").has("int4"));
    EXPECT_TRUE(test::shell(command + "none.safetensors").has("none.safetensors"));
    const auto text = test::shell(command + "minilm --dtypes float32 --length 64");
    EXPECT_TRUE(text.has("memory of minilm, texts of 64 tokens, batches of 1")) << text.output;
    const auto longer = test::shell(command + "minilm --dtypes float32 --length 512");
    EXPECT_NE(longer.lines().at(3), text.lines().at(3));
}

// What the registry says of image sizes is what the networks take.
TEST(Models, SmallestImages) {
    const NoGrad no_grad;
    for (const char* name : {"alexnet", "vgg11_bn", "convmixer_768_32"}) {
        const models::Info& info = models::info(name);
        const auto model = models::create(name, 10);
        model->eval();
        EXPECT_NO_THROW((*model)(zeros({1, 3, info.smallest, info.smallest}))) << name;
        EXPECT_THROW((*model)(zeros({1, 3, info.smallest - 1, info.smallest - 1})), Error) << name;
    }
    EXPECT_TRUE(models::info("lenet5").one_size && models::info("vit_b_16").one_size);
}

}  // namespace
}  // namespace pippin
