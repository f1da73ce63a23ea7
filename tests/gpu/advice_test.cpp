// K35: a network so small that a GPU is slower than the processor. The device is the user's choice,
// so Pippin says why it may be slow, once.
#include <gtest/gtest.h>

#include <pippin/pippin.h>

#include "backends/gpu/advice.h"
#include "gpu/gpu_testing.h"

namespace pippin::gpu_test {
namespace {

plan::Plan plan_of(int launches, std::int64_t operations, std::int64_t bytes) {
    plan::Plan p;
    for (int n = 0; n < launches; ++n) {
        p.launches.emplace_back();
        p.launches.back().flops = operations / launches;
        p.launches.back().bytes_moved = bytes / launches;
    }
    return p;
}

TEST(Advice, K35OnlyWhereTheProcessorIsMuchFaster) {
    // An MLP of a few thousand weights; LeNet-5 at batch 64; ResNet-18 at batch 1.
    const auto tiny = plan_of(15, 400'000, 200'000), lenet = plan_of(28, 145'000'000, 20'000'000),
               resnet = plan_of(140, 10'900'000'000, 300'000'000);
    const std::string text = gpu::advice(tiny, 2);
    EXPECT_NE(text.find("15 launches"), std::string::npos) << text;
    EXPECT_NE(text.find("PIPPIN_DEVICE=cpu"), std::string::npos) << text;
    EXPECT_EQ(gpu::advice(lenet, 2), "");
    EXPECT_EQ(gpu::advice(resnet, 16), "");
    EXPECT_EQ(gpu::advice(plan::Plan{}, 2), "");
    EXPECT_LT(gpu::seconds_on_processor(tiny, 2), gpu::seconds_on_gpu(tiny));
    EXPECT_GT(gpu::seconds_on_processor(resnet, 2), 10 * gpu::seconds_on_gpu(resnet));
}

class TinyNetwork : public GpuTest {};

TEST_F(TinyNetwork, K35IsToldOnce) {
    nn::Sequential model{std::make_shared<nn::Linear>(4, 8), std::make_shared<nn::ReLU>(),
                         std::make_shared<nn::Linear>(8, 2)};
    model.to(kGpu);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    const Tensor x = randn({4, 4}).to(kGpu), y = zeros({4}, int64).to(kGpu);
    ::testing::internal::CaptureStderr();
    for (int step = 0; step < 450; ++step) {
        const Tensor loss = cross_entropy(model(x), y);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
    }
    synchronize();
    const std::string said = ::testing::internal::GetCapturedStderr();
    const std::size_t at = said.find("is over before a GPU has started");
    EXPECT_NE(at, std::string::npos) << said;
    EXPECT_EQ(said.find("is over before a GPU has started", at + 1), std::string::npos) << said;
}

}  // namespace
}  // namespace pippin::gpu_test
