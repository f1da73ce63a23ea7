// 20 steps of every optimizer, and EMA, against PyTorch's numbers (expected_more.json, made by
// make_more_fixtures.py); and the promises on their plans.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/expect_error.h"
#include "pippin/nn.h"
#include "pippin/optim_adaptive.h"
#include "pippin/optim_schedules.h"
#include "pippin/stats.h"

namespace pippin {
namespace {

using nlohmann::json;
using Doubles = std::vector<double>;
using Optimizer = std::unique_ptr<optim::Optimizer>;

const json& expected() {
    static const json all =
        json::parse(std::ifstream(PIPPIN_SOURCE_DIR "/tests/optim/expected_more.json"));
    return all;
}

// The options that Adam's relatives share.
template <class O>
O adam_options(const json& j) {
    O o;
    o.lr = j.value("lr", o.lr);
    o.beta1 = j.value("beta1", o.beta1);
    o.beta2 = j.value("beta2", o.beta2);
    o.eps = j.value("eps", o.eps);
    o.weight_decay = j.value("weight_decay", o.weight_decay);
    return o;
}

Optimizer make(const std::string& kind, const json& j, std::vector<Tensor> p) {
    using namespace optim;
    if (kind == "SGD") {
        SGDOptions o;
        o.lr = j.value("lr", o.lr), o.momentum = j.value("momentum", o.momentum);
        o.nesterov = j.value("nesterov", false);
        o.weight_decay = j.value("weight_decay", o.weight_decay);
        return std::make_unique<SGD>(p, o);
    }
    if (kind == "RMSprop") {
        RMSpropOptions o;
        o.lr = j.value("lr", o.lr), o.alpha = j.value("alpha", o.alpha);
        o.eps = j.value("eps", o.eps), o.momentum = j.value("momentum", o.momentum);
        o.weight_decay = j.value("weight_decay", o.weight_decay);
        o.centered = j.value("centered", false);
        return std::make_unique<RMSprop>(p, o);
    }
    if (kind == "Adagrad") {
        AdagradOptions o;
        o.lr = j.value("lr", o.lr), o.lr_decay = j.value("lr_decay", o.lr_decay);
        o.eps = j.value("eps", o.eps), o.weight_decay = j.value("weight_decay", o.weight_decay);
        o.initial_accumulator_value =
            j.value("initial_accumulator_value", o.initial_accumulator_value);
        return std::make_unique<Adagrad>(p, o);
    }
    if (kind == "Adadelta") {
        AdadeltaOptions o;
        o.lr = j.value("lr", o.lr), o.rho = j.value("rho", o.rho), o.eps = j.value("eps", o.eps);
        o.weight_decay = j.value("weight_decay", o.weight_decay);
        return std::make_unique<Adadelta>(p, o);
    }
    if (kind == "Adamax") return std::make_unique<Adamax>(p, adam_options<AdamaxOptions>(j));
    if (kind == "Lamb") return std::make_unique<Lamb>(p, adam_options<LambOptions>(j));
    if (kind == "NAdam") {
        auto o = adam_options<NAdamOptions>(j);
        o.momentum_decay = j.value("momentum_decay", o.momentum_decay);
        o.decoupled_weight_decay = j.value("decoupled_weight_decay", false);
        return std::make_unique<NAdam>(p, o);
    }
    if (kind == "RAdam") {
        auto o = adam_options<RAdamOptions>(j);
        o.decoupled_weight_decay = j.value("decoupled_weight_decay", false);
        return std::make_unique<RAdam>(p, o);
    }
    auto o = adam_options<AdamOptions>(j);
    o.amsgrad = j.value("amsgrad", false);
    if (kind == "Adam") return std::make_unique<Adam>(p, o);
    EXPECT_EQ(kind, "AdamW");
    return std::make_unique<AdamW>(p, o);
}

Tensor start_of(const json& c, DType dtype) {
    const json& start = c.contains("start") ? c["start"] : expected()["start"];
    return tensor(start.get<Doubles>(), {2, 3}, dtype);
}

Tensor gradient(std::size_t step, DType dtype) {
    return tensor(expected()["gradients"][step].get<Doubles>(), {2, 3}, dtype);
}

std::string label(const json& c) {
    return c["kind"].get<std::string>() + " " + c["options"].dump();
}

void expect_steps(const json& c, Tensor p, double tolerance) {
    p.requires_grad_();
    const Optimizer opt = make(c["kind"], c["options"], {p});
    for (std::size_t step = 0; step < c["after"].size(); ++step) {
        p.set_grad(gradient(step, p.dtype()));
        opt->step();
        const auto got = p.to_vector<double>(), want = c["after"][step].get<Doubles>();
        for (std::size_t i = 0; i < want.size(); ++i)
            ASSERT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::abs(want[i])))
                << label(c) << " step " << step << " element " << i;
    }
}

TEST(Optimizers, TwentyStepsAsPyTorch) {
    for (const json& c : expected()["optimizers"]) {
        expect_steps(c, start_of(c, float64), 1e-7);
        expect_steps(c, start_of(c, float32), 2e-5);
    }
}

// A parameter that was built as a view of another tensor's transpose.
TEST(Optimizers, K01ParameterFromATransposedTensor) {
    for (const json& c : expected()["optimizers"])
        expect_steps(c, start_of(c, float32).t().flatten().reshape({3, 2}).t(), 2e-5);
}

TEST(Optimizers, ResumeFromTheirState) {
    for (const json& c : expected()["optimizers"]) {
        SCOPED_TRACE(label(c));
        Tensor p = start_of(c, float64);
        p.requires_grad_();
        Optimizer opt = make(c["kind"], c["options"], {p});
        for (std::size_t step = 0; step < 10; ++step) {
            if (step == 4) {  // all anew, from a copy of everything
                const auto state = opt->state_dict();
                p = tensor(p.to_vector<double>(), {2, 3}, float64);
                p.requires_grad_();
                opt = make(c["kind"], c["options"], {p});
                opt->load_state_dict(state);
            }
            p.set_grad(gradient(step, float64));
            opt->step();
        }
        const auto got = p.to_vector<double>(), want = c["after"][9].get<Doubles>();
        for (std::size_t i = 0; i < want.size(); ++i)
            EXPECT_NEAR(got[i], want[i], 1e-7 * std::max(1.0, std::abs(want[i])));
    }
}

// Parameters of different sizes in two groups: one launch a step, and one plan for all steps while
// the learning rate changes. Lamb's norms are reductions, so that its updates are several launches;
// Adadelta's two moving averages and step are two.
TEST(Optimizers, AStepIsOneLaunchAndOnePlan) {
    std::set<std::string> seen;
    for (const json& c : expected()["optimizers"]) {
        const auto kind = c["kind"].get<std::string>();
        if (!seen.insert(label(c)).second) continue;
        SCOPED_TRACE(label(c));
        std::vector<Tensor> params{ones({30, 40}), ones({7}), ones({5, 3}), ones({64})};
        for (Tensor& p : params)
            p.requires_grad_();
        const Optimizer opt = make(kind, c["options"], params);
        synchronize();
        std::int64_t compiled = 0;
        for (int step = 0; step < 8; ++step) {  // RAdam changes its kind of step at the sixth
            for (Tensor& p : params)
                p.set_grad(
                    tensor(Doubles(static_cast<std::size_t>(p.numel()), 0.5), p.shape(), float32));
            synchronize();
            const Stats before = stats();
            opt->step();
            synchronize();
            const Stats after = stats();
            EXPECT_EQ(after.flushes - before.flushes, 1);
            const std::int64_t launches = after.launches - before.launches;
            EXPECT_LE(launches, kind == "Lamb"       ? 12
                                : kind == "Adadelta" ? 2
                                                     : 1)
                << "step " << step;
            compiled += after.plans_compiled - before.plans_compiled;
            opt->groups()[0].lr *= 0.9;
        }
        EXPECT_LE(compiled, 1);  // none where an optimizer before had the same plan
    }
}

TEST(Optimizers, RefuseBadArguments) {
    Tensor t = ones({2});
    t.requires_grad_();
    const std::vector<Tensor> p{t};
    using namespace optim;
    EXPECT_ERROR(RMSprop(p, {.alpha = -1}), ValueError, "RMSprop", "alpha");
    EXPECT_ERROR(RMSprop(p, {.eps = -1}), ValueError, "eps");
    EXPECT_ERROR(RMSprop(p, {.momentum = -1}), ValueError, "momentum");
    EXPECT_ERROR(Adagrad(p, {.lr_decay = -1}), ValueError, "lr_decay");
    EXPECT_ERROR(Adagrad(p, {.initial_accumulator_value = -1}), ValueError, "initial_acc");
    EXPECT_ERROR(Adadelta(p, {.rho = 1.5}), ValueError, "rho", "1.5");
    EXPECT_ERROR(Adamax(p, {.beta2 = 1}), ValueError, "Adamax", "beta2");
    EXPECT_ERROR(NAdam(p, {.momentum_decay = -1}), ValueError, "momentum_decay");
    EXPECT_ERROR(RAdam(p, {.beta1 = 1}), ValueError, "RAdam", "beta1");
    EXPECT_ERROR(Lamb(p, {.eps = -1}), ValueError, "Lamb", "eps");
    EXPECT_ERROR(Lamb(p, {.lr = -1}), ValueError, "learning rate");
}

TEST(Ema, FollowsPyTorchAndSwaps) {
    for (const json& c : expected()["ema"]) {
        nn::Linear model(3, 2, false);
        model.to(float64);
        optim::EMA ema(model.named_parameters(), c["decay"]);
        for (std::size_t step = 0; step < c["after"].size(); ++step) {
            {
                const NoGrad no_grad;
                model.weight.assign_(start_of(c, float64) + gradient(step, float64));
            }
            ema.update();
            const auto got = ema.averages()[0].second.to_vector<double>(),
                       want = c["after"][step].get<Doubles>();
            for (std::size_t i = 0; i < want.size(); ++i)
                EXPECT_NEAR(got[i], want[i], 1e-8) << c["decay"] << " step " << step;
        }
        const auto own = model.weight.to_vector<double>();
        const auto average = ema.averages()[0].second.to_vector<double>();
        ema.swap();
        EXPECT_EQ(model.weight.to_vector<double>(), average);
        EXPECT_TRUE(model.weight.requires_grad());
        EXPECT_TRUE(model.weight.is_leaf());
        ema.swap();
        EXPECT_EQ(model.weight.to_vector<double>(), own);
        EXPECT_EQ(ema.averages()[0].second.to_vector<double>(), average);
    }
}

TEST(Ema, BuffersLoadingAndErrors) {
    nn::BatchNorm2d bn(2);
    optim::EMA ema(bn.state_dict(), 0.5);
    bn(tensor(Doubles{1, 2, 3, 4}, {1, 2, 1, 2}, float32)).eval();
    ema.update();
    bn(tensor(Doubles{9, 9, 9, 8}, {1, 2, 1, 2}, float32)).eval();
    const Stats before = stats();
    ema.update();
    synchronize();
    EXPECT_LE(stats().launches - before.launches, 2);
    const auto find = [](const optim::EMA::Named& all, const std::string& name) {
        for (const auto& [n, t] : all)
            if (n == name) return t;
        return Tensor();
    };
    EXPECT_EQ(find(ema.averages(), "num_batches_tracked").item<std::int64_t>(), 2);
    EXPECT_NEAR(find(ema.averages(), "running_mean").to_vector<double>()[0],
                (0.15 + 0.9 * 0.15 + 0.9) / 2, 1e-5);
    EXPECT_EQ(ema.updates(), 2);

    nn::BatchNorm2d other(2);
    optim::EMA copy(other.state_dict(), 0.5);
    copy.load(ema.averages(), ema.updates());
    EXPECT_TRUE(equal(find(copy.averages(), "running_var"), find(ema.averages(), "running_var")));
    other.load_state_dict(copy.averages());
    EXPECT_TRUE(equal(other.running_mean, find(ema.averages(), "running_mean")));

    EXPECT_ERROR(optim::EMA(bn.state_dict(), 1.5), ValueError, "decay");
    EXPECT_ERROR(optim::EMA({}, 0.5), ValueError, "no tensors");
    EXPECT_ERROR(copy.load({{"weight", ones({2})}}, 1), ValueError, "1 averages", "5");
    auto wrong = ema.averages();
    wrong[0].second = ones({3});
    EXPECT_ERROR(copy.load(wrong, 1), ValueError, "\"weight\"", "[3]", "[2]");
    wrong[0].first = "else";
    EXPECT_ERROR(copy.load(wrong, 1), ValueError, "\"weight\" is missing");
}

}  // namespace
}  // namespace pippin
