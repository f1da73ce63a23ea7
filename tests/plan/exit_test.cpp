// Programs that end while the queue still runs what nobody waited for.
#include <gtest/gtest.h>

#include <cstdlib>

#include <pippin/models.h>
#include <pippin/pippin.h>

namespace pippin {
namespace {

void leave_in_the_middle() {
    const auto model = models::create("resnet18", 10);
    optim::SGD optimizer(model->parameters(), {.lr = 0.01});
    const Tensor x = randn({4, 3, 32, 32}), y = zeros({4}, int64);
    for (int step = 0; step < 3; ++step) {
        const Tensor loss = cross_entropy((*model)(x), y);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
    }
    std::exit(7);
}

TEST(ExitDeathTest, WorkInFlightIsNoCrash) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (int turn = 0; turn < 3; ++turn)
        EXPECT_EXIT(leave_in_the_middle(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace pippin
