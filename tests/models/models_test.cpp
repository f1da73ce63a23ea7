// How the networks start, that they run and learn, and what they refuse.
#include <gtest/gtest.h>

#include <cmath>

#include "pippin/models.h"
#include "pippin/optim.h"
#include "pippin/random.h"

namespace pippin {
namespace {

TEST(Models, ClassesChangeTheLastLayerAlone) {
    EXPECT_EQ(models::create("resnet50", 37)->num_parameters(), 25557032 - 963 * 2049);
}

TEST(Models, LeNetNames) {
    std::vector<std::string> names;
    for (const auto& entry : models::lenet5()->state_dict())
        names.push_back(entry.first);
    EXPECT_EQ(names,
              (std::vector<std::string>{"0.weight", "0.bias", "3.weight", "3.bias", "7.weight",
                                        "7.bias", "9.weight", "9.bias", "11.weight", "11.bias"}));
}

TEST(Models, ResNetStartsAsTorchvisions) {
    manual_seed(1);
    for (const auto& [name, t] : models::resnet18(10)->state_dict()) {
        if (t.dim() != 4) continue;
        // kaiming_normal, fan out
        const double want = std::sqrt(2.0 / static_cast<double>(t.size(0) * t.size(2) * t.size(3)));
        const double n = static_cast<double>(t.numel());
        EXPECT_NEAR(std(t).item<double>(), want, 5 * want / std::sqrt(2 * n)) << name;
        EXPECT_NEAR(t.mean().item<double>(), 0, 5 * want / std::sqrt(n)) << name;
    }
}

TEST(Models, UnknownNameNamesTheNearestOrListsAll) {
    const auto message = [](const char* name) -> std::string {
        try {
            models::create(name, 10);
        } catch (const ValueError& e) {
            return e.what();
        }
        return "no error";
    };
    EXPECT_NE(message("resnet19").find("\"resnet19\"; did you mean resnet18?"), std::string::npos);
    EXPECT_NE(message("mystery").find("lenet5, alexnet, vgg11"), std::string::npos);
    EXPECT_THROW(models::create("resnet18", 0), ValueError);
    EXPECT_THROW(models::info("resnet"), ValueError);
}

TEST(Models, LeNetLearns) {
    manual_seed(5);
    const auto model = models::lenet5();
    const Tensor x = randn({16, 1, 28, 28}).eval(), y = randint(0, 10, {16}).eval();
    optim::SGD opt(model->parameters(), {.lr = 0.05, .momentum = 0.9});
    double first = 0, last = 0;
    for (int step = 0; step < 30; ++step) {
        const Tensor loss = cross_entropy((*model)(x), y);
        opt.zero_grad();
        loss.backward();
        opt.step();
        last = loss.item<double>();
        if (step == 0) first = last;
    }
    EXPECT_NEAR(first, std::log(10.0), 0.5);
    EXPECT_LT(last, 0.3 * first);
}

TEST(Models, ResNetsRunAtSmallSize) {
    manual_seed(6);
    for (const std::string name : {"resnet18", "resnet50"}) {
        const auto model = models::create(name, 7);
        const Tensor logits = (*model)(randn({2, 3, 64, 64}));
        EXPECT_EQ(logits.shape(), (Shape{2, 7}));
        logits.sum().backward();
        for (const auto& [parameter, t] : model->named_parameters())
            ASSERT_TRUE(t.grad().defined()) << parameter;
        EXPECT_TRUE(std::isfinite(model->parameters()[0].grad().sum().item<double>())) << name;
        model->eval();
        const NoGrad no_grad;
        EXPECT_EQ((*model)(randn({1, 3, 40, 56})).shape(), (Shape{1, 7}));
    }
}

}  // namespace
}  // namespace pippin
