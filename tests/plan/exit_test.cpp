// Programs that end while the queue still runs what nobody waited for.
#include <gtest/gtest.h>

#include <cstdlib>

#include <pippin/models.h>
#include <pippin/pippin.h>

namespace pippin {
namespace {

// Small images and few go by other implementations of convolutions than larger ones.
void leave_in_the_middle(std::int64_t batch, std::int64_t size) {
    const auto model = models::create("resnet18", 10);
    optim::SGD optimizer(model->parameters(), {.lr = 0.01});
    const Tensor x = randn({batch, 3, size, size}), y = zeros({batch}, int64);
    for (int step = 0; step < 4; ++step) {
        const Tensor loss = cross_entropy((*model)(x), y);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        // A library has made what it makes with the first run of a kernel.
        if (step == 1) synchronize();
    }
    std::exit(7);
}

TEST(ExitDeathTest, WorkInFlightIsNoCrash) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (int turn = 0; turn < 3; ++turn)
        EXPECT_EXIT(leave_in_the_middle(4, 32), testing::ExitedWithCode(7), "");
    EXPECT_EXIT(leave_in_the_middle(32, 64), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace pippin
