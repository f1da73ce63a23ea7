// The other schedules against PyTorch's rates (expected_more.json).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/expect_error.h"
#include "pippin/ops.h"
#include "pippin/optim_schedules.h"

namespace pippin {
namespace {

using nlohmann::json;
using namespace optim;

const json& expected() {
    static const json all =
        json::parse(std::ifstream(PIPPIN_SOURCE_DIR "/tests/optim/expected_more.json"));
    return all;
}

struct Fixture {
    Tensor p = zeros({1});
    SGD opt;
    explicit Fixture(double lr = 0.1) : opt({p.requires_grad_()}, {.lr = lr, .momentum = 0.9}) {}
};

std::shared_ptr<Scheduler> make(const std::string& kind, const json& o, optim::Optimizer& opt) {
    using Ints = std::vector<std::int64_t>;
    if (kind == "MultiStepLR")
        return std::make_shared<MultiStepLR>(opt, o.at("milestones").get<Ints>(), o.at("gamma"));
    if (kind == "ExponentialLR") return std::make_shared<ExponentialLR>(opt, o.at("gamma"));
    if (kind == "ConstantLR" && o.empty()) return std::make_shared<ConstantLR>(opt);
    if (kind == "ConstantLR")
        return std::make_shared<ConstantLR>(opt, o.at("factor"), o.at("total_iters"));
    if (kind == "LinearLR" && o.empty()) return std::make_shared<LinearLR>(opt);
    if (kind == "LinearLR")
        return std::make_shared<LinearLR>(opt, o.at("start_factor"), o.at("end_factor"),
                                          o.at("total_iters"));
    if (kind == "PolynomialLR" && o.empty()) return std::make_shared<PolynomialLR>(opt);
    if (kind == "PolynomialLR")
        return std::make_shared<PolynomialLR>(opt, o.at("total_iters"), o.at("power"));
    if (kind == "CosineAnnealingWarmRestarts")
        return std::make_shared<CosineAnnealingWarmRestarts>(opt, o.at("T_0"), o.value("T_mult", 1),
                                                             o.value("eta_min", 0.0));
    if (kind == "CosineAnnealingLR")
        return std::make_shared<CosineAnnealingLR>(opt, o.at("T_max"), o.at("eta_min"));
    if (kind == "StepLR") return std::make_shared<StepLR>(opt, o.at("step_size"));
    EXPECT_EQ(kind, "LinearWarmupLR");
    return std::make_shared<LinearWarmupLR>(opt, o.at("warmup_steps"), o.at("total_steps"));
}

void expect_rates(Scheduler& schedule, const json& lrs) {
    for (std::size_t step = 0; step < lrs.size(); ++step) {
        EXPECT_NEAR(schedule.last_lr(), lrs[step].get<double>(), 1e-12) << "step " << step;
        schedule.step();
    }
    schedule.load(5);  // resuming needs no replay
    EXPECT_NEAR(schedule.last_lr(), lrs[5].get<double>(), 1e-12);
}

TEST(Schedules, AsPyTorch) {
    for (const json& c : expected()["schedules"]) {
        SCOPED_TRACE(c["kind"].get<std::string>() + " " + c["options"].dump());
        Fixture f(c["lr"]);
        expect_rates(*make(c["kind"], c["options"], f.opt), c["lrs"]);
    }
}

TEST(Schedules, SequentialAsPyTorch) {
    Fixture f;
    std::vector<std::shared_ptr<Scheduler>> parts{
        std::make_shared<LinearLR>(f.opt, 0.1, 1, 4),
        std::make_shared<CosineAnnealingWarmRestarts>(f.opt, 5),
        std::make_shared<ExponentialLR>(f.opt, 0.5)};
    SequentialLR schedule(f.opt, parts, {4, 11});
    expect_rates(schedule, expected()["sequential"]);
    EXPECT_EQ(f.opt.groups()[0].momentum, 0.9);
}

TEST(Schedules, LambdaOfEachGroup) {
    Tensor a = zeros({1}), b = zeros({1});
    SGD opt(std::vector<ParamGroup>{{.params = {a.requires_grad_()}, .lr = 1},
                                    {.params = {b.requires_grad_()}, .lr = 2}});
    LambdaLR schedule(opt, {[](std::int64_t step) { return 1.0 / static_cast<double>(step + 1); },
                            [](std::int64_t step) { return static_cast<double>(step); }});
    schedule.step();
    schedule.step();
    EXPECT_NEAR(opt.groups()[0].lr, 1.0 / 3, 1e-12);
    EXPECT_EQ(opt.groups()[1].lr, 4);
    LambdaLR both(opt, [](std::int64_t) { return 0.5; });
    EXPECT_EQ(opt.groups()[0].lr, 0.5);
    EXPECT_EQ(opt.groups()[1].lr, 1);
}

TEST(Schedules, PlateauAsPyTorch) {
    for (const json& c : expected()["plateaus"]) {
        SCOPED_TRACE(c["options"].dump());
        const json& o = c["options"];
        PlateauOptions p;
        p.maximize = o.value("mode", "min") == "max";
        p.factor = o.value("factor", p.factor);
        p.patience = o.value("patience", p.patience);
        p.threshold = o.value("threshold", p.threshold);
        p.threshold_absolute = o.value("threshold_mode", "rel") == "abs";
        p.cooldown = o.value("cooldown", p.cooldown);
        p.min_lr = o.value("min_lr", p.min_lr);
        Fixture f(c["lr"]);
        auto schedule = std::make_unique<ReduceLROnPlateau>(f.opt, p);
        for (std::size_t i = 0; i < c["metrics"].size(); ++i) {
            const json& m = c["metrics"][i];
            if (i == 4) {  // another takes over from its state
                const ReduceLROnPlateau::State state = schedule->state();
                schedule = std::make_unique<ReduceLROnPlateau>(f.opt, p);
                schedule->load(state);
            }
            schedule->step(m.is_string() ? std::nan("") : m.get<double>());
            EXPECT_NEAR(f.opt.groups()[0].lr, c["lrs"][i].get<double>(), 1e-15) << i;
        }
    }
}

TEST(Schedules, RefuseBadArguments) {
    Fixture f, other;
    optim::Optimizer& opt = f.opt;
    EXPECT_ERROR(MultiStepLR(opt, {5, 2}), ValueError, "ascend");
    EXPECT_ERROR(ExponentialLR(opt, -1), ValueError, "gamma");
    EXPECT_ERROR(ConstantLR(opt, 2), ValueError, "factor");
    EXPECT_ERROR(ConstantLR(opt, 1, -1), ValueError, "total_iters");
    EXPECT_ERROR(LinearLR(opt, 0), ValueError, "start_factor");
    EXPECT_ERROR(LinearLR(opt, 1, 2), ValueError, "end_factor");
    EXPECT_ERROR(LinearLR(opt, 1, 1, 0), ValueError, "total_iters");
    EXPECT_ERROR(LinearWarmupLR(opt, 5, 4), ValueError, "warmup_steps", "5", "4");
    EXPECT_ERROR(PolynomialLR(opt, 0), ValueError, "total_iters");
    EXPECT_ERROR(PolynomialLR(opt, 5, -1), ValueError, "power");
    EXPECT_ERROR(CosineAnnealingWarmRestarts(opt, 0), ValueError, "t_0");
    EXPECT_ERROR(CosineAnnealingWarmRestarts(opt, 1, 0), ValueError, "t_mult");
    EXPECT_ERROR(LambdaLR(opt, LambdaLR::Function()), ValueError, "empty");
    EXPECT_ERROR(LambdaLR(opt, std::vector<LambdaLR::Function>{}), ValueError, "0 functions");
    const auto part = std::make_shared<ConstantLR>(opt);
    EXPECT_ERROR(SequentialLR(opt, {part}, {3}), ValueError, "one milestone less");
    EXPECT_ERROR(SequentialLR(opt, {part, part, part}, {3, 2}), ValueError, "ascend");
    EXPECT_ERROR(SequentialLR(opt, {std::make_shared<ConstantLR>(other.opt)}, {}), ValueError,
                 "of this optimizer");
    EXPECT_ERROR(ReduceLROnPlateau(opt, {.factor = 1}), ValueError, "factor");
    EXPECT_ERROR(ReduceLROnPlateau(opt, {.patience = -1}), ValueError, "patience");
}

}  // namespace
}  // namespace pippin
