// What an error in a run destroys: what depends on the failed op, and nothing else.
#include <gtest/gtest.h>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "pippin/io.h"
#include "pippin/pippin.h"

namespace pippin {
namespace {

// A classifier for which some labels are out of range.
struct Training {
    Training() {
        manual_seed(3);
        net = nn::sequential(nn::make<nn::Linear>(4, 8), nn::make<nn::Tanh>(),
                             nn::make<nn::Linear>(8, 3));
        optimizer = std::make_unique<optim::SGD>(net->parameters(),
                                                 optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    }
    Tensor step(std::int64_t label) {
        const Tensor loss = cross_entropy((*net)(ones({2, 4})), full({2}, label, int64));
        optimizer->zero_grad();
        loss.backward();
        optimizer->step();
        return loss;
    }
    std::vector<float> weights() const {
        std::vector<float> out;
        for (const Tensor& p : net->parameters())
            for (const float v : p.to_vector<float>())
                out.push_back(v);
        return out;
    }
    std::shared_ptr<nn::Sequential> net;
    std::unique_ptr<optim::SGD> optimizer;
};

TEST(Failure, ABadLabelLeavesModelAndOptimizerAsTheyWere) {
    Training t, same;
    t.step(1);
    same.step(1);
    const auto before = t.weights();
    EXPECT_ERROR(t.step(7).item<float>(), IndexError, "7", "[0, 3)");
    EXPECT_EQ(t.weights(), before);
    for (int k = 0; k < 3; ++k) {
        const float a = t.step(2).item<float>(), b = same.step(2).item<float>();
        EXPECT_EQ(a, b) << "momentum is what it was, too";
    }
    EXPECT_EQ(t.weights(), same.weights());
}

TEST(Failure, SeenLateItHasHarmedNoLaterStep) {
    Training t, same;
    t.step(1);
    const Tensor bad = t.step(-1);
    t.step(2);
    t.step(0);
    same.step(1);
    same.step(2);
    same.step(0);
    EXPECT_EQ(t.weights(), same.weights());
    EXPECT_ERROR(bad.item<float>(), IndexError, "-1");
    EXPECT_NO_THROW(synchronize()) << "it was told once";
}

TEST(Failure, NobodyReadItSoSynchronizeTells) {
    Training t;
    t.step(1);
    { t.step(9); }
    EXPECT_ERROR(synchronize(), IndexError, "9");
    EXPECT_NO_THROW(synchronize());
    EXPECT_NO_THROW(t.step(1).item<float>());
}

TEST(Failure, WeightsCanBeSavedAfterIt) {
    test::TempFolder folder;
    Training t;
    t.step(1);
    EXPECT_ERROR(t.step(7).item<float>(), IndexError, "7");
    io::save_safetensors(folder.path() / "w.safetensors", t.net->state_dict());
}

TEST(Failure, UnrelatedTensorsOfTheSameFlushLive) {
    for (int order = 0; order < 2; ++order) {
        Tensor good = order ? randn({300}) * 2 : Tensor();
        const Tensor bad = embedding(full({2}, 9, int64), randn({5, 2}));
        const Tensor user = (bad * 2).sum();
        if (!order) good = randn({300}) * 2;
        EXPECT_ERROR(user.item<float>(), IndexError, "9");
        EXPECT_ERROR(bad.eval(), IndexError, "9");
        EXPECT_NO_THROW(good.sum().item<float>());
        EXPECT_ERROR((bad + 1).sum().item<float>(), IndexError, "9");
    }
}

TEST(Failure, RunningStatisticsLive) {
    manual_seed(1);
    nn::BatchNorm2d norm(3);
    const Tensor loss = cross_entropy(norm(randn({4, 3, 2, 2})).mean({2, 3}), full({4}, 5, int64));
    EXPECT_ERROR(loss.item<float>(), IndexError, "5");
    EXPECT_EQ(norm.running_var.to_vector<float>().size(), 3u);
    EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), 1);
}

// No memory for a step: the parameters stay, and a smaller batch trains.
TEST(Failure, K34AStepThatDoesNotFitIsForgotten) {
    Training t, same;
    t.step(1);
    same.step(1);
    const auto before = t.weights();
    const auto too_large = [&] {
        const Tensor x = ones({std::int64_t{1} << 46, 4});
        const Tensor loss = cross_entropy((*t.net)(x), zeros({x.size(0)}, int64));
        t.optimizer->zero_grad();
        loss.backward();
        t.optimizer->step();
        loss.item<float>();
    };
    EXPECT_ERROR(too_large(), OutOfMemoryError, "MiB");
    EXPECT_EQ(t.weights(), before);
    EXPECT_EQ(t.step(2).item<float>(), same.step(2).item<float>());
    EXPECT_EQ(t.weights(), same.weights());
}

}  // namespace
}  // namespace pippin
