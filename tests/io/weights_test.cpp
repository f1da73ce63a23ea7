// Checkpoints into models: all differences in one error, or allowed by name.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "pippin/ops.h"
#include "pippin/weights.h"

namespace pippin {
namespace {

using namespace test;
using Names = std::vector<std::string>;

// {conv, bn, fc}: the model of tools/make_checkpoint_fixtures.py.
struct Net : nn::Module {
    explicit Net(std::int64_t classes = 3) {
        conv = register_module("conv", nn::make<nn::Conv2d>(1, 2, {.kernel = 3}));
        bn = register_module("bn", nn::make<nn::BatchNorm2d>(2));
        fc = register_module("fc", nn::make<nn::Linear>(8, classes));
    }
    Tensor forward(const Tensor& x) override { return fc->forward(flatten((*bn)((*conv)(x)), 1)); }
    std::string type_name() const override { return "Net"; }
    std::shared_ptr<nn::Conv2d> conv;
    std::shared_ptr<nn::BatchNorm2d> bn;
    std::shared_ptr<nn::Linear> fc;
};

const char* kTraining = PIPPIN_FIXTURES "/io/torch/training.pt";
const char* kState = PIPPIN_FIXTURES "/io/torch/training.safetensors";

void expect_state(const nn::Module& model, const Names& except = {}) {
    const io::SafeTensors want = io::load_safetensors(kState);
    for (const auto& [name, tensor] : model.state_dict())
        if (std::ranges::find(except, name) == except.end()) {
            EXPECT_EQ(tensor.to_vector<double>(), want.tensor(name).to_vector<double>()) << name;
        }
}

TEST(Weights, LoadAndSave) {
    const TempFolder folder;
    Net net;
    const LoadReport report = load_weights(net, kState);
    EXPECT_EQ(report.loaded.size(), 9u);
    EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
    EXPECT_EQ(report.str(), "loaded 9 tensors");
    expect_state(net);
    save_weights(net, folder / "w.safetensors");
    EXPECT_EQ(io::load_safetensors(folder / "w.safetensors").metadata().at("format"), "pt");
    Net other;
    load_weights(other, folder / "w.safetensors");
    expect_state(other);
}

TEST(Weights, OneErrorListsEverything) {
    Net net(5);
    const std::vector<float> before = net.conv->weight.to_vector<float>();
    io::NamedTensors state = io::load(kState);
    std::erase_if(state, [](const auto& e) { return e.first.starts_with("bn.running"); });
    state.emplace_back("head.weight", ones({1}));
    state.emplace_back("head.bias", ones({1}));
    EXPECT_ERROR(load_weights(net, state, {}, "here"), ValueError,
                 "here: the weights do not fit Net", "nothing was loaded",
                 "missing: \"bn.running_mean\", \"bn.running_var\"",
                 "unexpected: \"head.weight\", \"head.bias\"",
                 "size mismatch for fc.weight: shape [3, 8] in the file, [5, 8] in the model",
                 "size mismatch for fc.bias");
    EXPECT_ERROR(load_weights(net, state, {.strict = false}), ValueError, "fc.weight");
    EXPECT_EQ(net.conv->weight.to_vector<float>(), before);
    state.emplace_back("fc.bias", ones({5}));
    EXPECT_ERROR(load_weights(net, state), ValueError, "\"fc.bias\" is there more than once");
}

TEST(Weights, NotStrict) {
    Net net;
    io::NamedTensors state = io::load(kState);
    std::erase_if(state, [](const auto& e) { return e.first == "fc.bias"; });
    state.emplace_back("extra", ones({1}));
    const LoadReport report = load_weights(net, state, {.strict = false});
    EXPECT_EQ(report.missing, Names{"fc.bias"});
    EXPECT_EQ(report.unexpected, Names{"extra"});
    expect_state(net, {"fc.bias"});
    // Not one name that fits is a mistake under any options.
    EXPECT_ERROR(load_weights(net, {{"x", ones({1})}}, {.strict = false}), ValueError,
                 "not one of the file's 1 names", "\"x\"");
}

TEST(Weights, AKeyOfATrainingCheckpoint) {
    Net net;
    load_weights(net, kTraining, {.key = "model"});
    expect_state(net);
    EXPECT_ERROR(load_weights(net, kTraining), ValueError, kTraining,
                 "the file's names begin with \"model.\"", ".key = \"model\"");
    EXPECT_ERROR(load_weights(net, kTraining, {.strict = false}), ValueError, ".key = \"model\"");
    EXPECT_ERROR(load_weights(net, kTraining, {.key = "state"}), ValueError, "model, nested");
}

TEST(Weights, PrefixesAreStripped) {
    io::NamedTensors state;
    for (const auto& [name, tensor] : io::load(kState))
        state.emplace_back("module." + name, tensor);
    Net net;
    load_weights(net, state, {.strip_prefix = "module."});
    expect_state(net);
    EXPECT_ERROR(load_weights(net, state), ValueError, ".strip_prefix = \"module.\"");
    nn::Sequential wrapped({std::make_shared<Net>()});
    EXPECT_ERROR(load_weights(wrapped, io::load(kState)), ValueError,
                 "the model's names begin with \"0.\"", "that part of the model");
    load_weights(wrapped[0], io::load(kState));
    expect_state(wrapped[0]);
}

TEST(Weights, ANewHead) {
    Net by_name(5), by_shape(5);
    const LoadReport ignored = load_weights(by_name, kState, {.ignore = {"fc."}});
    EXPECT_EQ(ignored.ignored, (Names{"fc.weight", "fc.bias"}));
    EXPECT_EQ(ignored.loaded.size(), 7u);
    expect_state(by_name, {"fc.weight", "fc.bias"});
    const LoadReport skipped = load_weights(by_shape, kState, {.skip_mismatched = true});
    EXPECT_EQ(skipped.mismatched, (Names{"fc.weight", "fc.bias"}));
    EXPECT_EQ(skipped.str(), "loaded 7 tensors; skipped for their shape: fc.weight, fc.bias");
    expect_state(by_shape, {"fc.weight", "fc.bias"});
    // Heads of other names, on both sides.
    io::NamedTensors state = io::load(kState);
    state.emplace_back("head.weight", ones({1}));
    EXPECT_EQ(load_weights(by_name, state, {.ignore = {"fc.", "head."}}).unexpected, Names{});
}

TEST(Weights, ConvertsToTheModelsDType) {
    Net net;
    net.to(float64);
    load_weights(net, kState);
    EXPECT_EQ(net.fc->weight.dtype(), float64);
    expect_state(net);
}

}  // namespace
}  // namespace pippin
