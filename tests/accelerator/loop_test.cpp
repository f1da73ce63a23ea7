// Accumulation, precision, scaling, stopping.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <limits>

#include "accelerator/run.h"
#include "common/expect_error.h"

namespace pippin {
namespace {

using test::TestRun;

// One accumulated window is one step on the batches together.
TEST(Accumulation, FourBatchesAreOneLargeOne) {
    TestRun small({.gradient_accumulation_steps = 4}, 8, 0), large({}, 32, 0);
    small.model->load_state_dict(large.model->state_dict());
    const auto x = randn({32, 6}).eval(), y = randint(0, 3, {32}).eval();
    for (int step = 0; step < 3; ++step) {
        for (std::int64_t k = 0; k < 4; ++k) {
            const auto window = small.accelerator.accumulate();
            EXPECT_EQ(small.accelerator.sync_gradients(), k == 3);
            small.train(
                {x.index({Slice(8 * k, 8 * k + 8)}), y.index({Slice(8 * k, 8 * k + 8)}), k});
        }
        large.train({x, y, step});
    }
    EXPECT_EQ(small.optimizer.steps(), 3);
    EXPECT_EQ(small.schedule.steps(), 3);
    const auto a = small.weights(), b = large.weights();
    for (std::size_t i = 0; i < a.size(); ++i)
        EXPECT_NEAR(a[i], b[i], 2e-6) << i;
}

// K39: five batches in windows of two; the last window is divided by what it holds.
TEST(Accumulation, K39LastShortWindowIsDividedByWhatItHolds) {
    TestRun run({.gradient_accumulation_steps = 2}, 8, 0);
    ASSERT_EQ(run.loader.size(), 5);
    std::vector<bool> synced;
    Tensor last_gradient, expected;
    for (const auto& batch : run.loader) {
        const auto window = run.accelerator.accumulate();
        synced.push_back(run.accelerator.sync_gradients());
        const Tensor loss = cross_entropy((*run.model)(batch.data), batch.target);
        if (batch.index == 4) {
            expected = grad(cross_entropy((*run.model)(batch.data), batch.target),
                            std::vector{run.model->parameters()[0]})[0];
        }
        run.accelerator.backward(loss);
        if (batch.index == 4) last_gradient = run.model->parameters()[0].grad();
        run.optimizer.step();
        run.optimizer.zero_grad();
    }
    EXPECT_EQ(synced, (std::vector<bool>{false, true, false, true, true}));
    EXPECT_EQ(run.optimizer.steps(), 3);
    EXPECT_TRUE(allclose(last_gradient, expected, 1e-5, 1e-7));
}

TEST(Accumulation, ZeroGradBeforeBackwardKeepsWhatAddsUp) {
    TestRun run({.gradient_accumulation_steps = 2}, 8, 0);
    const Tensor x = randn({8, 6}), y = randint(0, 3, {8});
    Tensor first;
    for (int k = 0; k < 2; ++k) {
        const auto window = run.accelerator.accumulate();
        run.optimizer.zero_grad();  // the order of many PyTorch loops
        run.accelerator.backward(cross_entropy((*run.model)(x), y));
        if (k == 0)
            first = run.model->parameters()[0].grad().detach();
        else
            EXPECT_TRUE(allclose(run.model->parameters()[0].grad(), first * 2, 1e-5, 1e-7));
        run.optimizer.step();
    }
}

TEST(Accumulation, ClippingSeesTheWholeWindow) {
    TestRun run({.gradient_accumulation_steps = 2}, 8, 0);
    const Tensor x = randn({8, 6}), y = randint(0, 3, {8});
    for (int k = 0; k < 2; ++k) {
        const auto window = run.accelerator.accumulate();
        run.accelerator.backward(cross_entropy((*run.model)(x), y) * 100);
        const Tensor before = run.accelerator.clip_grad_norm_(run.model->parameters(), 0.5);
        if (k == 1) {
            EXPECT_GT(before.item<float>(), 0.5f);
            EXPECT_NEAR(nn::clip_grad_norm_(run.model->parameters(), 1e9).item<float>(), 0.5f,
                        1e-4);
        }
        run.optimizer.step();
        run.optimizer.zero_grad();
    }
}

// K31: an infinity in one gradient.
TEST(Scaler, K31InfinityLeavesEveryParameterAndHalvesTheScale) {
    for (const float bad : {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(), std::nanf("")}) {
        TestRun run({.mixed_precision = "fp16"});
        const auto before = run.weights();
        run.accelerator.backward(cross_entropy((*run.model)(randn({8, 6})), randint(0, 3, {8})));
        Tensor parameter = run.model->parameters()[1];
        std::vector<float> g = parameter.grad().to_vector<float>();
        g[3] = bad;
        parameter.set_grad(tensor(g, parameter.shape()));
        const double rate = run.optimizer.groups()[0].lr;
        run.optimizer.step();
        run.schedule.step();
        EXPECT_TRUE(run.accelerator.optimizer_step_was_skipped());
        EXPECT_EQ(run.weights(), before);
        EXPECT_EQ(run.optimizer.steps(), 0);
        EXPECT_EQ(run.schedule.steps(), 0);
        EXPECT_EQ(run.optimizer.groups()[0].lr, rate);
        EXPECT_EQ(run.accelerator.scaler().get_scale(), 32768);
        run.optimizer.zero_grad();
        run.train({randn({8, 6}), randint(0, 3, {8}), 0});
        EXPECT_FALSE(run.accelerator.optimizer_step_was_skipped());
        EXPECT_EQ(run.optimizer.steps(), 1);
    }
}

TEST(Scaler, GrowsAfterGoodSteps) {
    const Tensor p = randn({4}).eval();
    Tensor parameter = p;
    parameter.requires_grad_();
    optim::SGD optimizer({parameter}, {.lr = 0.1});
    amp::GradScaler scaler({.init_scale = 8, .growth_interval = 3});
    for (int k = 0; k < 3; ++k) {
        optimizer.zero_grad();
        scaler.scale((parameter * 2).sum()).backward();
        EXPECT_EQ(parameter.grad().to_vector<float>(), std::vector<float>(4, 16.f));
        scaler.unscale_(optimizer);
        EXPECT_EQ(parameter.grad().to_vector<float>(), std::vector<float>(4, 2.f));
        EXPECT_ERROR(scaler.unscale_(optimizer), ValueError, "unscaled already");
        EXPECT_TRUE(scaler.step(optimizer));
        EXPECT_ERROR(scaler.step(optimizer), ValueError, "since the last update");
        scaler.update();
    }
    EXPECT_EQ(scaler.get_scale(), 16);
    EXPECT_ERROR(scaler.update(), ValueError, "no optimizer has stepped");
    EXPECT_ERROR(amp::GradScaler({.init_scale = -1}), ValueError, "init_scale", "-1");
}

TEST(Precision, EveryOneLearns) {
    for (const char* precision : {"no", "bf16", "fp16"}) {
        TestRun run({.mixed_precision = precision}, 40, 0);
        const auto batch = *run.loader.begin();
        const float first = run.train(batch).item<float>();
        float last = 0;
        for (int k = 0; k < 60; ++k) {
            run.optimizer.groups()[0].lr = 1e-2;
            last = run.train(batch).item<float>();
        }
        EXPECT_LT(last, first * 0.9f) << precision;
    }
    EXPECT_ERROR(Accelerator({.mixed_precision = "fp8"}), ValueError, "fp8", "bf16");
}

TEST(Stopping, SignalsAskAndAreRestored) {
    {
        Accelerator accelerator;
        EXPECT_FALSE(accelerator.stop_requested());
        std::raise(SIGTERM);
        EXPECT_TRUE(accelerator.stop_requested());
        EXPECT_EQ(accelerator.exit_code(), 143);
    }
    struct sigaction now {};
    sigaction(SIGTERM, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_DFL);
    Accelerator next;
    EXPECT_FALSE(next.stop_requested());
}

TEST(BatchSize, ShrinksUntilItFits) {
    std::vector<std::int64_t> tried;
    const auto found = find_executable_batch_size(100, [&](std::int64_t n) {
        tried.push_back(n);
        if (n > 75) throw OutOfMemoryError("no room");
    });
    EXPECT_EQ(found, 72);
    EXPECT_EQ(tried, (std::vector<std::int64_t>{100, 90, 81, 72}));
    EXPECT_ERROR(
        find_executable_batch_size(2, [](std::int64_t) { throw OutOfMemoryError("full"); }),
        OutOfMemoryError, "not even a batch of 1", "full");
}

TEST(Prepare, TwiceIsAnError) {
    TestRun run;
    EXPECT_ERROR(run.accelerator.prepare(*run.model), ValueError, "prepared already");
    EXPECT_ERROR(Accelerator({.gradient_accumulation_steps = 0}), ValueError, "at least 1");
    EXPECT_ERROR(Accelerator({.automatic_checkpoint_naming = true}), ValueError, "project_dir");
}

// K40: every run says which device it uses, and why.
TEST(KnownFaults, K40TheRunSaysWhichAndWhy) {
    ::testing::internal::CaptureStderr();
    {
        Accelerator a({.cpu = true});
        EXPECT_EQ(a.device(), Device(Device::Type::CPU));
    }
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("training on cpu"), std::string::npos) << said;
    EXPECT_NE(said.find("precision no"), std::string::npos) << said;
    EXPECT_NE(said.find("; " + default_device_reason()), std::string::npos) << said;
    EXPECT_FALSE(default_device_reason().empty());
}

TEST(Prepare, AnOptimizerOutlivesItsAccelerator) {
    const auto model = nn::make<nn::Linear>(2, 1);
    optim::SGD optimizer(model->parameters(), {.lr = 0.1});
    {
        Accelerator accelerator({.gradient_accumulation_steps = 2});
        accelerator.prepare(*model, optimizer);
        const auto window = accelerator.accumulate();
        accelerator.backward((*model)(ones({1, 2})).sum());
        optimizer.step();
        EXPECT_EQ(optimizer.steps(), 0) << "held back";
    }
    optimizer.step();
    EXPECT_EQ(optimizer.steps(), 1) << "nobody holds it back";
    optimizer.zero_grad();
    EXPECT_FALSE(model->weight.grad().defined());
}

}  // namespace
}  // namespace pippin
