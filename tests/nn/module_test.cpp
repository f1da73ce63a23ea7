// The module tree: names, printing, state dicts, modes, conversions.
#include <gtest/gtest.h>

#include "pippin/nn.h"

namespace pippin {
namespace {

std::string error_of(const std::function<void()>& f) {
    try {
        f();
    } catch (const Error& e) {
        return e.what();
    }
    return "no error";
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::vector<std::string> names(const nn::Module::Named& list) {
    std::vector<std::string> out;
    for (const auto& entry : list)
        out.push_back(entry.first);
    return out;
}

// Two layers that share one weight, and a child without any.
class Tied : public nn::Module {
  public:
    Tied() {
        a = register_module("a", nn::make<nn::Linear>(3, 3, false));
        b = register_module("b", nn::make<Sharer>(a->weight));
        register_module("act", nn::make<nn::ReLU>());
    }
    Tensor forward(const Tensor& x) override { return (*b)((*a)(x)); }
    std::string type_name() const override { return "Tied"; }

    class Sharer : public nn::Module {
      public:
        explicit Sharer(const Tensor& w) { weight = register_parameter("weight", w); }
        Tensor forward(const Tensor& x) override { return linear(x, weight); }
        std::string type_name() const override { return "Sharer"; }
        using nn::Module::register_buffer;
        using nn::Module::register_module;
        using nn::Module::register_parameter;
        Tensor weight;
    };
    std::shared_ptr<nn::Linear> a;
    std::shared_ptr<Sharer> b;
};

TEST(Module, NamesFollowTheTree) {
    auto m =
        nn::sequential(nn::make<nn::Conv2d>(1, 2, {.kernel = 3}), nn::make<nn::BatchNorm2d>(2),
                       nn::sequential(nn::make<nn::Flatten>(), nn::make<nn::Linear>(8, 2, false)));
    EXPECT_EQ(names(m->named_parameters()),
              (std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias", "2.1.weight"}));
    EXPECT_EQ(
        names(m->named_buffers()),
        (std::vector<std::string>{"1.running_mean", "1.running_var", "1.num_batches_tracked"}));
    // PyTorch's order: each module's buffers behind its parameters.
    EXPECT_EQ(
        names(m->state_dict()),
        (std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean",
                                  "1.running_var", "1.num_batches_tracked", "2.1.weight"}));
    EXPECT_EQ(m->num_parameters(), 2 * 9 + 2 + 2 + 2 + 16);
    std::vector<std::string> modules;
    for (auto& [name, module] : m->named_modules())
        modules.push_back(name + ":" + module->type_name());
    EXPECT_EQ(modules, (std::vector<std::string>{":Sequential", "0:Conv2d", "1:BatchNorm2d",
                                                 "2:Sequential", "2.0:Flatten", "2.1:Linear"}));
}

TEST(Module, SharedParameterIsListedOnce) {
    Tied m;
    EXPECT_EQ(names(m.named_parameters()), (std::vector<std::string>{"a.weight"}));
    EXPECT_EQ(names(m.state_dict()), (std::vector<std::string>{"a.weight", "b.weight"}));
    EXPECT_EQ(m.num_parameters(), 9);
}

TEST(Module, RefusesBadNames) {
    Tied::Sharer s(ones({1}));
    EXPECT_THROW(s.register_parameter("weight", ones({1})), ValueError);
    EXPECT_THROW(s.register_buffer("weight", ones({1})), ValueError);
    EXPECT_THROW(s.register_module("a.b", nn::make<nn::ReLU>()), ValueError);
    EXPECT_THROW(s.register_parameter("", ones({1})), ValueError);
    EXPECT_THROW(s.register_parameter("undefined", Tensor()), ValueError);
    EXPECT_THROW(s.register_module("null", std::shared_ptr<nn::ReLU>()), ValueError);
}

TEST(Module, PrintsAsPyTorch) {
    auto m = nn::sequential(
        nn::make<nn::Conv2d>(
            4, 8, nn::Conv2d::Args{.kernel = 3, .stride = 2, .padding = {1, 2}, .groups = 2}),
        nn::make<nn::Conv2d>(8, 8, {.kernel = {1, 3}, .dilation = 2, .bias = false}),
        nn::make<nn::BatchNorm2d>(8), nn::make<nn::LayerNorm>(Shape{4, 5}),
        nn::make<nn::MaxPool2d>(3, 2, 1), nn::make<nn::AvgPool2d>(2),
        nn::make<nn::AdaptiveAvgPool2d>(1), nn::make<nn::Dropout>(),
        nn::sequential(nn::make<nn::Flatten>(), nn::make<nn::Linear>(8, 2), nn::make<nn::Tanh>()),
        nn::make<nn::Sequential>(), nn::make<nn::Identity>(), nn::make<nn::ReLU>());
    EXPECT_EQ(m->str(), R"(Sequential(
  (0): Conv2d(4, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 2), groups=2)
  (1): Conv2d(8, 8, kernel_size=(1, 3), stride=(1, 1), dilation=(2, 2), bias=False)
  (2): BatchNorm2d(8, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
  (3): LayerNorm((4, 5), eps=1e-05, elementwise_affine=True, bias=True)
  (4): MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False)
  (5): AvgPool2d(kernel_size=2, stride=2, padding=0)
  (6): AdaptiveAvgPool2d(output_size=(1, 1))
  (7): Dropout(p=0.5, inplace=False)
  (8): Sequential(
    (0): Flatten(start_dim=1, end_dim=-1)
    (1): Linear(in_features=8, out_features=2, bias=True)
    (2): Tanh()
  )
  (9): Sequential()
  (10): Identity()
  (11): ReLU()
))");
}

TEST(Module, TrainAndEvalReachAllChildren) {
    auto inner = nn::make<nn::Dropout>();
    auto m = nn::sequential(nn::sequential(inner));
    EXPECT_TRUE(inner->is_training());
    m->eval();
    EXPECT_FALSE(inner->is_training());
    m->train();
    EXPECT_TRUE(inner->is_training());
}

TEST(Module, LoadsAStateDict) {
    auto from = nn::sequential(nn::make<nn::Linear>(3, 2), nn::make<nn::BatchNorm2d>(2));
    auto to = nn::sequential(nn::make<nn::Linear>(3, 2), nn::make<nn::BatchNorm2d>(2));
    const Tensor held = to->parameters()[0];  // an optimizer's handle sees the new value
    to->load_state_dict(from->state_dict());
    EXPECT_TRUE(equal(held, from->parameters()[0]));
    for (std::size_t i = 0; i < from->state_dict().size(); ++i)
        EXPECT_TRUE(equal(to->state_dict()[i].second, from->state_dict()[i].second))
            << from->state_dict()[i].first;
    EXPECT_TRUE(held.requires_grad());
    EXPECT_TRUE(held.is_leaf());
    // The values were copied: changing one model leaves the other.
    nn::init::constant_(from->parameters()[0], 7);
    EXPECT_FALSE(equal(held, from->parameters()[0]));
}

TEST(Module, LoadConvertsDtypes) {
    nn::Linear m(2, 1, false);
    m.load_state_dict({{"weight", tensor(std::vector<double>{0.5, -2}, {1, 2})}});
    EXPECT_EQ(m.weight.dtype(), float32);
    EXPECT_EQ(m.weight.to_vector<float>(), (std::vector<float>{0.5f, -2}));
}

TEST(Module, LoadListsAllFaultsAndWritesNothing) {
    auto m = nn::sequential(nn::make<nn::Linear>(3, 2), nn::make<nn::BatchNorm2d>(2));
    const auto before = m->parameters()[1].to_vector<float>();
    const nn::Module::Named state{{"0.weight", zeros({2, 4})}, {"0.bias", ones({2})},
                                  {"1.weight", ones({2})},     {"1.bias", ones({2})},
                                  {"1.bias", ones({2})},       {"2.extra", ones({1})},
                                  {"1.running_mean", Tensor()}};
    const std::string what = error_of([&] { m->load_state_dict(state); });
    EXPECT_TRUE(contains(what, "missing: \"1.running_mean\", \"1.running_var\"")) << what;
    EXPECT_FALSE(contains(what, "num_batches_tracked")) << what;
    EXPECT_TRUE(contains(what, "unexpected: \"2.extra\"")) << what;
    EXPECT_TRUE(
        contains(what, "size mismatch for 0.weight: shape [2, 4] in the state dict, [2, 3]"))
        << what;
    EXPECT_TRUE(contains(what, "\"1.bias\" is there more than once")) << what;
    EXPECT_TRUE(contains(what, "\"1.running_mean\" is undefined")) << what;
    EXPECT_EQ(m->parameters()[1].to_vector<float>(), before);
}

TEST(Module, LoadNotStrictIgnoresMissingAndExtraNamesOnly) {
    nn::Linear m(3, 2);
    m.load_state_dict({{"bias", ones({2})}, {"other", ones({1})}}, false);
    EXPECT_EQ(m.bias.to_vector<float>(), (std::vector<float>{1, 1}));
    EXPECT_THROW(m.load_state_dict({{"bias", ones({3})}}, false), ValueError);
}

TEST(Module, ToConvertsFloatingPointOnly) {
    nn::BatchNorm2d m(2);
    const Tensor held = m.weight;
    m.to(bfloat16);
    EXPECT_EQ(held.dtype(), bfloat16);
    EXPECT_EQ(m.running_mean.dtype(), bfloat16);
    EXPECT_EQ(m.num_batches_tracked.dtype(), int64);
    EXPECT_TRUE(held.requires_grad());
    EXPECT_TRUE(held.is_leaf());
    m.to(float64).to(Device(Device::Type::CPU));
    EXPECT_EQ(held.dtype(), float64);
    EXPECT_EQ(held.to_vector<double>(), (std::vector<double>{1, 1}));
    EXPECT_THROW(m.to(int64), TypeError);
}

TEST(Module, FreezesAndClearsGradients) {
    nn::Linear m(2, 2);
    m(ones({1, 2})).sum().backward();
    EXPECT_TRUE(m.weight.grad().defined());
    m.zero_grad();
    EXPECT_FALSE(m.weight.grad().defined());
    m.requires_grad_(false);
    EXPECT_FALSE(m(ones({1, 2})).requires_grad());
}

TEST(Module, ErrorsNameTheCallersLine) {
    auto m = nn::sequential(nn::sequential(nn::make<nn::Linear>(3, 2)));
    const int line = __LINE__ + 1;
    const std::string what = error_of([&] { (*m)(ones({4, 5})); });
    EXPECT_TRUE(contains(what, "module_test.cpp:" + std::to_string(line))) << what;
}

}  // namespace
}  // namespace pippin
