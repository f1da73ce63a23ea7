// How cost grows: a plan with the depth, a step's launches and time with the batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "pippin/bert.h"
#include "pippin/models.h"
#include "pippin/pippin.h"

namespace pippin {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSecond = 20;  // of a program that is watched
#else
constexpr double kSecond = 1;
#endif

double seconds_of(const std::function<void()>& f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The best of a few, since other programs only ever add.
double least_seconds_of(int times, const std::function<void()>& f) {
    double least = seconds_of(f);
    for (int i = 1; i < times; ++i)
        least = std::min(least, seconds_of(f));
    return least;
}

struct Planned {
    double nodes, launches, seconds;
};

// Forward and backward as one plan; computes nothing.
Planned planned(const std::function<Tensor()>& loss_of) {
    const Tensor loss = loss_of();
    loss.backward();
    std::string text;
    const double seconds = least_seconds_of(3, [&] { text = explain(loss); });
    return {std::stod(text.substr(text.find(':') + 1)),
            std::stod(text.substr(text.find(" in ") + 4)), seconds};
}

// A plan does not depend on widths: layers and nodes are BERT-large's, numbers are few.
Planned planned_bert(std::int64_t layers) {
    models::BertConfig c;
    c.vocab_size = 100, c.hidden_size = 64, c.layers = layers, c.heads = 4;
    c.intermediate_size = 128;
    models::BertForSequenceClassification model(c, 2);
    const Tensor ids = randint(0, 100, {2, 8}).eval(), y = randint(0, 2, {2}).eval();
    for (const Tensor& p : model.parameters())
        (void)p.eval();
    return planned([&] { return cross_entropy(model(ids), y); });
}

TEST(Growth, PlansOfLargeNetworksTakeLessThanASecond) {
    const Planned bert = planned_bert(24);
    EXPECT_GT(bert.nodes, 1500);
    EXPECT_LT(bert.seconds, kSecond);
    const auto resnet = models::create("resnet152", 10);
    for (const Tensor& p : resnet->parameters())
        (void)p.eval();
    const Tensor x = randn({2, 3, 32, 32}).eval(), y = randint(0, 10, {2}).eval();
    resnet->train();
    const Planned p = planned([&] { return cross_entropy((*resnet)(x), y); });
    EXPECT_GT(p.nodes, 2000);
    EXPECT_LT(p.seconds, kSecond);
}

TEST(Growth, PlansGrowWithTheDepth) {
    (void)planned_bert(2);  // what is made once
    const Planned small = planned_bert(8), large = planned_bert(48);
    const double layers = 6, nodes = large.nodes / small.nodes;
    EXPECT_GT(nodes, layers * 0.8);
    EXPECT_LT(nodes, layers * 1.01);
    EXPECT_LT(large.launches / small.launches, layers * 1.01);
}

struct Step {
    nn::ModulePtr model = models::create("lenet5", 10);
    optim::SGD optimizer{model->parameters(), {.lr = 1e-3}};
    Tensor x, y;
    explicit Step(std::int64_t batch)
        : x(randn({batch, 1, 28, 28}).eval()), y(randint(0, 10, {batch}).eval()) {}
    void operator()() {
        const Tensor loss = cross_entropy((*model)(x), y);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        synchronize();
    }
};

TEST(Growth, StepsGrowWithTheBatch) {
    std::vector<std::int64_t> launches;
    for (const std::int64_t batch : {1, 32, 64, 128, 512}) {
        Step step(batch);
        step();
        const std::int64_t before = stats().launches;
        step();
        launches.push_back(stats().launches - before);
    }
    EXPECT_EQ(std::count(launches.begin(), launches.end(), launches[0]), 5);
    // The best of twenty steps, half as much again and some tries, for a machine that does other
    // things.
    double ratio = 0;
    for (int attempt = 0; attempt < 5; ++attempt) {
        Step small(128), large(512);
        ratio = least_seconds_of(20, [&] { large(); }) / least_seconds_of(20, [&] { small(); });
        if (ratio < 4 * 1.5) break;
    }
    EXPECT_LT(ratio, 4 * 1.5);
}

}  // namespace
}  // namespace pippin
