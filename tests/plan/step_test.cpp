// What a training step costs: launches, plans, memory; what flushing computes and what it keeps.
#include <gtest/gtest.h>

#include <set>

#include "common/expect_error.h"
#include "pippin/pippin.h"

namespace pippin {
namespace {

struct Mlp {
    Tensor w1 = randn({16, 8}), b1 = zeros({16}), w2 = randn({4, 16}), b2 = zeros({4});
    Mlp() {
        for (Tensor* p : {&w1, &b1, &w2, &b2})
            p->requires_grad_();
    }
    std::vector<Tensor> parameters() { return {w1, b1, w2, b2}; }
    Tensor loss(const Tensor& x, const Tensor& y) {
        return cross_entropy(linear(relu(linear(x, w1, b1)), w2, b2), y);
    }
};

std::int64_t launches_of(auto f) {
    synchronize();
    const auto before = stats().launches;
    f();
    synchronize();
    return stats().launches - before;
}

TEST(Step, LossReadAfterTheStepIsComputedOnce) {
    Mlp net;
    const Tensor x = randn({32, 8}).eval(), y = randint(0, 4, {32}).eval();
    optim::SGD opt(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    auto step = [&](bool read) {
        const Tensor loss = net.loss(x, y);
        opt.zero_grad();
        loss.backward();
        opt.step();
        if (read) {
            EXPECT_GT(loss.item<float>(), 0);
        }
    };
    step(false);
    const auto without = launches_of([&] { step(false); });
    const auto with = launches_of([&] { step(true); });
    EXPECT_GT(without, 4);
    EXPECT_EQ(with, without);
}

TEST(Step, AllUpdatesAreOneLaunch) {
    for (int which = 0; which < 3; ++which) {
        Mlp net;
        const Tensor x = randn({32, 8}).eval(), y = randint(0, 4, {32}).eval();
        std::unique_ptr<optim::Optimizer> opt;
        if (which == 0)
            opt = std::make_unique<optim::SGD>(net.parameters(),
                                               optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
        if (which == 1)
            opt = std::make_unique<optim::Adam>(net.parameters(), optim::AdamOptions{.lr = 0.1});
        if (which == 2)
            opt = std::make_unique<optim::AdamW>(net.parameters(), optim::AdamOptions{.lr = 0.1});
        auto gradients = [&] {
            const Tensor loss = net.loss(x, y);
            opt->zero_grad();
            loss.backward();
        };
        gradients();
        opt->step();
        const auto backward_only = launches_of([&] {
            gradients();
            flush();
        });
        const auto whole = launches_of([&] {
            gradients();
            opt->step();
        });
        EXPECT_EQ(whole, backward_only + 1) << which;
    }
}

TEST(Step, ParametersAreUpdatedInPlace) {
    Mlp net;
    const Tensor x = randn({32, 8}).eval(), y = randint(0, 4, {32}).eval();
    optim::SGD opt(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    auto step = [&] {
        const Tensor loss = net.loss(x, y);
        opt.zero_grad();
        loss.backward();
        opt.step();
    };
    step();
    step();  // the first step's momentum is the gradient itself
    // A parameter and its momentum may trade places, but no new memory comes in.
    auto places = [&] {
        std::set<const void*> out;
        for (auto& p : net.parameters())
            out.insert(p.raw_data());
        for (auto& [name, t] : opt.state_dict())
            if (name.find("momentum") != std::string::npos) out.insert(t.raw_data());
        return out;
    };
    const auto before = places();
    const auto first = net.w1.to_vector<float>();
    step();
    step();
    EXPECT_EQ(places(), before);
    EXPECT_NE(net.w1.to_vector<float>(), first);
}

TEST(Step, LearningRateAndSeedAreNotPartOfThePlan) {
    Mlp net;
    const Tensor x = randn({32, 8}).eval(), y = randint(0, 4, {32}).eval();
    optim::Adam opt(net.parameters(), {.lr = 0.1});
    auto step = [&](double lr) {
        opt.groups()[0].lr = lr;
        const Tensor loss =
            cross_entropy(linear(dropout(relu(linear(x, net.w1, net.b1)), 0.5), net.w2, net.b2), y);
        opt.zero_grad();
        loss.backward();
        opt.step();
    };
    step(0.1);
    step(0.2);
    const auto before = stats().plans_compiled;
    for (int i = 0; i < 5; ++i)
        step(0.01 * i);
    EXPECT_EQ(stats().plans_compiled, before);
}

TEST(Step, EverySizeOfBatchIsAPlanAndTheCacheIsBounded) {
    set_plan_cache_limit(8);
    const Tensor w = randn({3, 3}).eval();
    for (int n = 1; n <= 40; ++n)
        matmul(ones({n, 3}), w).sum().item<float>();
    EXPECT_LE(stats().plans_cached, 8);
    const auto before = stats().plans_compiled;
    matmul(ones({40, 3}), w).sum().item<float>();
    EXPECT_EQ(stats().plans_compiled, before);
    set_plan_cache_limit(256);
    EXPECT_ERROR(set_plan_cache_limit(0), ValueError, "at least 1");
}

TEST(Step, ADetachedValueSurvivesAnUpdateInPlace) {
    Tensor a = randn({1000}).eval();
    const auto before = a.to_vector<float>();
    const Tensor kept = a.detach(), doubled = a * 2;
    a += 1;
    a.eval();
    EXPECT_EQ(kept.to_vector<float>(), before);
    for (std::size_t i = 0; i < before.size(); i += 97) {
        EXPECT_FLOAT_EQ(doubled.to_vector<float>()[i], before[i] * 2);
        EXPECT_FLOAT_EQ(a.to_vector<float>()[i], before[i] + 1);
    }
}

TEST(Step, EqualConstantsThatShareAValueAreUpdatedApart) {
    Tensor a = ones({4}), b = ones({4}), c = ones({4});
    flush();  // one buffer for all three
    a += 1;
    flush();
    EXPECT_EQ(b.to_vector<float>(), (std::vector<float>(4, 1)));
    b += 2;
    flush();
    EXPECT_EQ(a.to_vector<float>(), (std::vector<float>(4, 2)));
    EXPECT_EQ(b.to_vector<float>(), (std::vector<float>(4, 3)));
    EXPECT_EQ(c.to_vector<float>(), (std::vector<float>(4, 1)));
}

TEST(Step, BackwardAfterTheLossWasReadIsRight) {
    const Tensor w = tensor<float>({1, -2, 3}).requires_grad_();
    const Tensor loss = square(w * 3).sum();
    EXPECT_FLOAT_EQ(loss.item<float>(), 126);
    loss.backward();
    EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{18, -36, 54}));
    EXPECT_ERROR(loss.backward(), ValueError, "retain_graph");
}

TEST(Step, AFailedRunLeavesTheDeviceUsable) {
    const Tensor table = randn({5, 3}).eval();
    const Tensor bad = embedding(tensor<std::int64_t>({1, 7}), table);
    EXPECT_ERROR(bad.eval(), IndexError, "7", "5");
    EXPECT_ERROR((bad + 1).eval(), IndexError, "7");
    EXPECT_FLOAT_EQ(ones({4}).sum().item<float>(), 4);
    synchronize();
    const Tensor logits = randn({3, 2}).eval();
    EXPECT_ERROR(cross_entropy(logits, tensor<std::int64_t>({1, 0, 5})).item<float>(), IndexError,
                 "cross_entropy", "5");
    EXPECT_GT(cross_entropy(logits, tensor<std::int64_t>({1, 0, -100})).item<float>(), 0);
}

TEST(Plan, SoftmaxIsOneLaunch) {
    const Tensor x = randn({64, 10}).eval();
    EXPECT_EQ(launches_of([&] { softmax(x, 1).eval(); }), 1) << explain(softmax(x, 1));
}

TEST(Plan, CrossEntropyForwardIsTwoLaunches) {
    const Tensor x = randn({64, 10}).eval(), y = randint(0, 10, {64}).eval();
    EXPECT_LE(launches_of([&] { cross_entropy(x, y).eval(); }), 3) << explain(cross_entropy(x, y));
}

TEST(Plan, BatchNormTrainingIsTwoLaunchesEachWay) {
    const Tensor x = randn({8, 16, 6, 6}).eval(), dy = randn({8, 16, 6, 6}).eval();
    Tensor w = ones({16}), b = zeros({16}), mean = zeros({16}), var = ones({16}), leaf = x.detach();
    for (Tensor* t : {&w, &b, &leaf})
        t->requires_grad_();
    for (Tensor* t : {&w, &b, &leaf, &mean, &var})
        t->eval();
    EXPECT_LE(launches_of([&] { relu(batch_norm(x, mean, var, w, b, true)).eval(); }), 2)
        << explain(relu(batch_norm(x, mean, var, w, b, true)));
    EXPECT_LE(launches_of([&] {
                  batch_norm(leaf, mean, var, w, b, true).backward(dy);
                  flush();
              }),
              4);
}

TEST(Plan, EqualExpressionsAreComputedOnce) {
    const Tensor x = randn({100}).eval();
    const Tensor a = exp(x) + 1, b = exp(x) + 1;
    const std::string text = explain(a);
    EXPECT_NE(text.find("1 launches"), std::string::npos) << text;
    EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
}

TEST(Plan, ExplainComputesNothing) {
    const Tensor x = ones({3}) + 1;
    const auto before = stats().flushes;
    EXPECT_NE(explain(x).find("arena"), std::string::npos);
    EXPECT_EQ(stats().flushes, before);
    x.eval();
    EXPECT_NE(explain(x).find("nothing is pending"), std::string::npos);
}

TEST(Plan, ALongChainOfOpsNeitherOverflowsNorCrawls) {
    Tensor x = zeros({4});
    for (int i = 0; i < 20000; ++i)
        x = x + 1;
    EXPECT_FLOAT_EQ(x.sum().item<float>(), 80000);
}

}  // namespace
}  // namespace pippin
