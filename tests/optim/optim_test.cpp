// Optimizers and schedules against PyTorch's numbers (expected.json, made by make_fixtures.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "pippin/nn.h"
#include "pippin/ops.h"
#include "pippin/optim.h"
#include "pippin/stats.h"

namespace pippin {
namespace {

using nlohmann::json;
using Floats = std::vector<float>;

const json& expected() {
    static const json all =
        json::parse(std::ifstream(PIPPIN_SOURCE_DIR "/tests/optim/expected.json"));
    return all;
}

std::unique_ptr<optim::Optimizer> make(const std::string& kind, const json& o,
                                       std::vector<Tensor> params) {
    if (kind == "SGD")
        return std::make_unique<optim::SGD>(
            params, optim::SGDOptions{.lr = o.at("lr"),
                                      .momentum = o.value("momentum", 0.0),
                                      .dampening = o.value("dampening", 0.0),
                                      .weight_decay = o.value("weight_decay", 0.0),
                                      .nesterov = o.value("nesterov", false)});
    const optim::AdamOptions a{.lr = o.at("lr"),
                               .beta1 = o.value("beta1", 0.9),
                               .beta2 = o.value("beta2", 0.999),
                               .eps = o.value("eps", 1e-8),
                               .weight_decay = o.value("weight_decay", optim::kFromOptions)};
    if (kind == "Adam") return std::make_unique<optim::Adam>(params, a);
    return std::make_unique<optim::AdamW>(params, a);
}

std::unique_ptr<optim::Scheduler> make_schedule(const std::string& kind, const json& o,
                                                optim::Optimizer& opt) {
    if (kind == "StepLR")
        return std::make_unique<optim::StepLR>(opt, o.at("step_size"), o.at("gamma"));
    if (kind == "CosineAnnealingLR")
        return std::make_unique<optim::CosineAnnealingLR>(opt, o.at("T_max"), o.at("eta_min"));
    optim::OneCycleOptions c;
    c.max_lr = o.at("max_lr");
    c.total_steps = o.at("total_steps");
    c.pct_start = o.value("pct_start", c.pct_start);
    c.div_factor = o.value("div_factor", c.div_factor);
    c.final_div_factor = o.value("final_div_factor", c.final_div_factor);
    c.base_momentum = o.value("base_momentum", c.base_momentum);
    c.max_momentum = o.value("max_momentum", c.max_momentum);
    c.cycle_momentum = o.value("cycle_momentum", true);
    return std::make_unique<optim::OneCycleLR>(opt, c);
}

TEST(Optim, StepsAsPyTorch) {
    for (const json& c : expected()["optimizers"]) {
        SCOPED_TRACE(c["kind"].get<std::string>() + " " + c["options"].dump() + " " +
                     c["one_cycle"].dump());
        Tensor p = tensor(expected()["start"].get<Floats>(), {2, 3});
        p.requires_grad_();
        const auto opt = make(c["kind"], c["options"], {p});
        std::unique_ptr<optim::Scheduler> schedule;
        if (!c["one_cycle"].is_null()) schedule = make_schedule("OneCycleLR", c["one_cycle"], *opt);
        for (std::size_t step = 0; step < c["after"].size(); ++step) {
            p.set_grad(tensor(expected()["gradients"][step].get<Floats>(), {2, 3}));
            opt->step();
            if (schedule) schedule->step();
            const auto got = p.to_vector<double>(),
                       want = c["after"][step].get<std::vector<double>>();
            for (std::size_t i = 0; i < want.size(); ++i)
                EXPECT_NEAR(got[i], want[i], 2e-6) << "step " << step << " element " << i;
        }
    }
}

TEST(Optim, SchedulesAsPyTorch) {
    for (const json& c : expected()["schedules"]) {
        SCOPED_TRACE(c["kind"].get<std::string>() + " " + c["options"].dump());
        Tensor p = zeros({1});
        p.requires_grad_();
        optim::SGD opt({p}, {.lr = c["lr"], .momentum = c["momentum"]});
        const auto schedule = make_schedule(c["kind"], c["options"], opt);
        for (std::size_t step = 0; step < c["lrs"].size(); ++step) {
            EXPECT_NEAR(schedule->last_lr(), c["lrs"][step].get<double>(), 1e-12)
                << "step " << step;
            EXPECT_NEAR(opt.groups()[0].momentum, c["momenta"][step].get<double>(), 1e-12)
                << "step " << step;
            schedule->step();
        }
        schedule->load(3);  // resuming needs no replay
        EXPECT_NEAR(schedule->last_lr(), c["lrs"][3].get<double>(), 1e-12);
        EXPECT_EQ(schedule->steps(), 3);
    }
}

TEST(Optim, OneCycleEnds) {
    Tensor p = zeros({1});
    p.requires_grad_();
    optim::Adam opt({p});
    optim::OneCycleLR schedule(opt, {.max_lr = 1, .total_steps = 2});
    schedule.step();
    schedule.step();
    const double lr = schedule.last_lr();
    EXPECT_THROW(schedule.step(), ValueError);
    EXPECT_EQ(schedule.steps(), 2);  // the failed step changed nothing
    EXPECT_EQ(schedule.last_lr(), lr);
}

TEST(Optim, GroupsHaveTheirOwnSettings) {
    Tensor a = ones({2}), b = ones({2}), frozen = ones({2});
    for (Tensor* t : {&a, &b, &frozen})
        t->requires_grad_();
    std::vector<optim::ParamGroup> groups{{.params = {a, frozen}},
                                          {.params = {b}, .lr = 0.5, .weight_decay = 1}};
    optim::SGD opt(groups, {.lr = 0.25});
    EXPECT_EQ(opt.groups()[0].lr, 0.25);
    a.set_grad(ones({2}));
    b.set_grad(ones({2}));
    opt.step();
    EXPECT_EQ(a.to_vector<float>(), (Floats{0.75f, 0.75f}));
    EXPECT_EQ(b.to_vector<float>(), (Floats{0, 0}));
    EXPECT_EQ(frozen.to_vector<float>(), (Floats{1, 1}));  // it has no gradient
    opt.groups()[0].lr = 1;
    opt.step();
    EXPECT_EQ(a.to_vector<float>(), (Floats{-0.25f, -0.25f}));
    opt.zero_grad();
    EXPECT_FALSE(a.grad().defined());
}

TEST(Optim, LateParametersCountTheirOwnSteps) {
    // Adam's first step moves by the learning rate, whenever it comes.
    Tensor a = zeros({1}), b = zeros({1});
    a.requires_grad_(), b.requires_grad_();
    optim::Adam opt({a, b}, {.lr = 0.1});
    a.set_grad(ones({1}));
    for (int i = 0; i < 3; ++i)
        opt.step();
    b.set_grad(full({1}, 5));
    opt.step();
    EXPECT_NEAR(b.item<double>(), -0.1, 1e-6);
    EXPECT_NEAR(a.item<double>(), -0.4, 1e-5);
}

TEST(Optim, HalfParametersStayHalf) {
    Tensor p = ones({4}, bfloat16);
    p.requires_grad_();
    optim::AdamW opt({p}, {.lr = 0.5});
    p.set_grad(ones({4}, bfloat16));
    opt.step();
    EXPECT_EQ(p.dtype(), bfloat16);
    EXPECT_NEAR(p.to_vector<float>()[0], 1 - 0.5 * 0.01 - 0.5, 1e-2);
    EXPECT_TRUE(p.is_leaf());
    EXPECT_TRUE(p.requires_grad());
}

TEST(Optim, StateDictResumesExactly) {
    const auto run = [](optim::Optimizer& opt, Tensor& p, int from, int to) {
        for (int s = from; s < to; ++s) {
            p.set_grad(
                tensor(expected()["gradients"][static_cast<std::size_t>(s)].get<Floats>(), {2, 3}));
            opt.step();
        }
    };
    const auto fresh = [] {
        Tensor p = tensor(expected()["start"].get<Floats>(), {2, 3});
        p.requires_grad_();
        return p;
    };
    Tensor whole = fresh();
    optim::Adam a({whole}, {.lr = 0.05});
    optim::OneCycleLR sa(a, {.max_lr = 0.1, .total_steps = 10});
    run(a, whole, 0, 3);
    sa.load(3);
    const auto state = a.state_dict();
    std::vector<std::string> names;
    for (const auto& entry : state)
        names.push_back(entry.first);
    EXPECT_EQ(names, (std::vector<std::string>{"exp_avg.0", "exp_avg_sq.0", "group.0", "steps"}));

    Tensor resumed = tensor(whole.to_vector<float>(), {2, 3});
    resumed.requires_grad_();
    optim::Adam b({resumed}, {.lr = 123});
    b.load_state_dict(state);
    EXPECT_EQ(b.steps(), 3);
    EXPECT_EQ(b.groups()[0].lr, a.groups()[0].lr);
    run(a, whole, 3, 6);
    run(b, resumed, 3, 6);
    EXPECT_EQ(whole.to_vector<float>(), resumed.to_vector<float>());
}

TEST(Optim, StateDictFaultsAreListedAndChangeNothing) {
    Tensor p = ones({2});
    p.requires_grad_();
    optim::Adam opt({p});
    p.set_grad(ones({2}));
    opt.step();
    auto state = opt.state_dict();
    state[0].second = ones({3});
    state[1].first = "other";
    const auto before = opt.state_dict()[0].second.to_vector<float>();
    try {
        opt.load_state_dict(state);
        FAIL() << "no error";
    } catch (const ValueError& e) {
        const std::string what = e.what();
        EXPECT_NE(what.find("\"exp_avg.0\" has shape [3], expected [2]"), std::string::npos)
            << what;
        EXPECT_NE(what.find("\"exp_avg_sq.0\" is missing"), std::string::npos) << what;
        EXPECT_NE(what.find("\"other\" is unexpected"), std::string::npos) << what;
    }
    EXPECT_EQ(opt.state_dict()[0].second.to_vector<float>(), before);
}

TEST(Optim, RefusesBadArguments) {
    Tensor p = ones({2});
    p.requires_grad_();
    using optim::Adam, optim::SGD;
    EXPECT_THROW(SGD(std::vector<Tensor>{}), ValueError);
    EXPECT_THROW(SGD({p, p}), ValueError);
    EXPECT_THROW(SGD({Tensor()}), ValueError);
    EXPECT_THROW(SGD({p * 2}), ValueError);
    EXPECT_THROW(SGD({zeros({2}, int64)}), ValueError);
    EXPECT_THROW(SGD({p}, {.lr = -1}), ValueError);
    EXPECT_THROW(SGD({p}, {.lr = NAN}), ValueError);
    EXPECT_THROW(SGD({p}, {.momentum = -0.1}), ValueError);
    EXPECT_THROW(SGD({p}, {.weight_decay = -0.1}), ValueError);
    EXPECT_THROW(SGD({p}, {.nesterov = true}), ValueError);
    EXPECT_THROW(SGD({p}, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), ValueError);
    EXPECT_THROW(Adam({p}, {.beta1 = 1}), ValueError);
    EXPECT_THROW(Adam({p}, {.beta2 = -0.1}), ValueError);
    EXPECT_THROW(Adam({p}, {.eps = -1}), ValueError);
    SGD ok({p});
    EXPECT_THROW(optim::StepLR(ok, 0), ValueError);
    EXPECT_THROW(optim::CosineAnnealingLR(ok, 0), ValueError);
    EXPECT_THROW(optim::OneCycleLR(ok, {.max_lr = 1}), ValueError);
    EXPECT_THROW(optim::OneCycleLR(ok, {.max_lr = 1, .total_steps = 5, .pct_start = 2}),
                 ValueError);
}

// The promises on plans: settings that change compile nothing, and all updates are one launch.
TEST(Optim, SchedulesCompileNothingNewAndUpdatesAreBatched) {
    nn::Linear small(3, 5), large(40, 30);
    std::vector<Tensor> params = small.parameters();
    for (const Tensor& p : large.parameters())
        params.push_back(p);
    optim::Adam opt(params, {.lr = 0.1});
    optim::OneCycleLR schedule(opt, {.max_lr = 0.1, .total_steps = 20});
    synchronize();  // the parameters' first values
    std::int64_t compiled = 0;
    for (int step = 0; step < 6; ++step) {
        for (Tensor& p : params)
            p.set_grad(tensor(Floats(static_cast<std::size_t>(p.numel()), 1.f), p.shape()));
        const Stats before = stats();
        opt.step();
        synchronize();
        const Stats after = stats();
        EXPECT_EQ(after.flushes - before.flushes, 1);
        EXPECT_EQ(after.launches - before.launches, 1) << "step " << step;
        compiled += after.plans_compiled - before.plans_compiled;
        schedule.step();
    }
    EXPECT_EQ(compiled, 1);
}

}  // namespace
}  // namespace pippin
