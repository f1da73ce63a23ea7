// Every module against what PyTorch computed: its printed line, names and shapes of its state,
// outputs, gradients of inputs and parameters, and buffers after a training step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "torch/module_factory.h"

namespace pippin::test {
namespace {

constexpr std::uint32_t kUpstreamSeed = 1000;

const Fixture& fixture() {
    static const Fixture f("modules");
    return f;
}

nn::Module::Named state_of(const Json& spec) {
    nn::Module::Named state;
    for (const Json& j : spec) {
        const Shape shape(j.at("shape").get<Dims>());
        const auto name = j.at("name").get<std::string>();
        if (!j.contains("gen")) {
            state.emplace_back(name, zeros(shape, int64));
            continue;
        }
        const Json& g = j["gen"];
        state.emplace_back(
            name, generate(shape, g.at("seed").get<std::uint32_t>(), g.at("bits").get<int>(),
                           g.at("scale").get<double>(), g.value("offset", 0.0)));
    }
    return state;
}

Tensor named(const nn::Module::Named& list, const std::string& name) {
    for (const auto& [n, t] : list)
        if (n == name) return t;
    return {};
}

void run(const Json& j) {
    const MadeModule made = module_table().at(j.at("module").get<std::string>())(
        {j.at("args"), j.at("named"), j.at("call")});
    nn::Module& m = *made.module;
    if (!j.at("str").is_null()) {
        EXPECT_EQ(m.str(), j["str"].get<std::string>());
    }
    m.train(j.at("train").get<bool>());
    m.load_state_dict(state_of(j.at("state")));
    std::vector<Tensor> in;
    for (const Json& i : j.at("in"))
        in.push_back(i.is_null()     ? Tensor{}
                     : i.is_string() ? fixture().tensor(i.get<std::string>())
                                     : generate(i.at("gen")));
    for (std::size_t i = 0; i < in.size(); ++i)
        if (!j["grad"][i].is_null()) in[i].requires_grad_();

    const std::vector<Tensor> out = made.call(in);
    const double scale = std::sqrt(j.at("k").get<double>());
    ASSERT_EQ(out.size(), j.at("out").size());
    for (std::size_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(fixture().difference(out[i], j["out"][i], scale), "") << "output " << i;
    for (std::size_t i = 0; i < out.size(); ++i)
        if (out[i].requires_grad())
            out[i].backward(
                generate(out[i].shape(), kUpstreamSeed + static_cast<std::uint32_t>(i), 8), true);

    const auto expect_gradient = [&](const Tensor& t, const Json& want, const std::string& what) {
        const Tensor g = t.grad().defined() ? t.grad() : zeros_like(t);
        EXPECT_EQ(fixture().difference(g, want, scale), "") << "gradient of " << what;
    };
    for (std::size_t i = 0; i < in.size(); ++i)
        if (!j["grad"][i].is_null())
            expect_gradient(in[i], j["grad"][i], "input " + std::to_string(i));
    const auto parameters = m.named_parameters();
    EXPECT_EQ(parameters.size(), j.at("parameters").size());
    for (const auto& [name, want] : j["parameters"].items()) {
        const Tensor p = named(parameters, name);
        ASSERT_TRUE(p.defined()) << name;
        expect_gradient(p, want, name);
    }
    for (const auto& [name, want] : j.at("buffers").items())
        EXPECT_EQ(fixture().difference(named(m.named_buffers(), name), want, scale), "") << name;
}

std::vector<std::string> module_names() {
    std::set<std::string> names;
    try {
        for (const Json& j : fixture().cases())
            names.insert(j.at("module").get<std::string>());
    } catch (const std::exception&) {
        names.insert("unreadable");  // its test fails
    }
    return {names.begin(), names.end()};
}

class TorchModule : public ::testing::TestWithParam<std::string> {};

TEST_P(TorchModule, Cases) {
    for (const Json& j : fixture().cases()) {
        if (j.at("module") != GetParam()) continue;
        SCOPED_TRACE(j.at("id").get<std::string>());
        try {
            run(j);
        } catch (const std::exception& e) {
            ADD_FAILURE() << e.what();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, TorchModule, ::testing::ValuesIn(module_names()),
                         [](const auto& test) { return test.param; });

TEST(TorchModules, EveryOneOfTheTableHasCases) {
    const std::vector<std::string> names = module_names();
    for (const auto& entry : module_table())
        EXPECT_TRUE(std::find(names.begin(), names.end(), entry.first) != names.end())
            << entry.first;
}

}  // namespace
}  // namespace pippin::test
