// What goes wrong on a GPU, and what is left afterwards.
#include <pippin/pippin.h>

#include "common/expect_error.h"
#include "gpu/gpu_testing.h"
#include "gpu/self.h"

#ifdef PIPPIN_HAS_VULKAN
#include <volk.h>
#endif

namespace pippin::gpu_test {
namespace {

class Failures : public GpuTest {};

// A classifier for which some labels are out of range.
struct Classifier {
    explicit Classifier(Device d) : device(d) {
        manual_seed(3);
        net = nn::sequential(nn::make<nn::Linear>(4, 8), nn::make<nn::BatchNorm1d>(8),
                             nn::make<nn::Tanh>(), nn::make<nn::Linear>(8, 3));
        net->to(d);
        optimizer = std::make_unique<optim::SGD>(net->parameters(),
                                                 optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    }
    Tensor step(std::int64_t label) {
        const Tensor x = reshape(arange(0, 8, 1, {DType::Float32, device}), {2, 4});
        const Tensor loss = cross_entropy((*net)(x), full({2}, label, {int64, device}));
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
    Device device;
    std::shared_ptr<nn::Sequential> net;
    std::unique_ptr<optim::SGD> optimizer;
};

TEST_F(Failures, ABadLabelLeavesModelAndOptimizerAsTheyWere) {
    Classifier t(kGpu), same(kGpu);
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

TEST_F(Failures, EachOfSeveralBadIndicesIsAnError) {
    const Tensor x = arange(0, 6, 1, {DType::Float32, kGpu}).reshape({2, 3}).eval();
    const auto at = [&](std::int64_t i) { return full({1, 3}, i, {int64, kGpu}); };
    const Tensor bad = gather(x, 0, at(5)), good = gather(x, 0, at(1)),
                 worse = gather(x, 0, at(-9)), of_bad = bad + 1.0;
    EXPECT_ERROR(bad.to_vector<float>(), IndexError, "5");
    EXPECT_EQ(good.to_vector<float>(), (std::vector<float>{3, 4, 5}));
    EXPECT_ERROR(worse.to_vector<float>(), IndexError, "index");
    EXPECT_ERROR(of_bad.to_vector<float>(), IndexError, "5");
}

TEST_F(Failures, SeenLateItHasHarmedNoLaterStep) {
    Classifier t(kGpu), same(kGpu);
    t.step(1);
    same.step(1);
    const Tensor bad = t.step(-1);
    for (const std::int64_t label : {2, 0, 1, 1, 2}) {
        t.step(label);
        same.step(label);
    }
    EXPECT_EQ(t.weights(), same.weights());
    EXPECT_ERROR(bad.item<float>(), IndexError, "-1");
    EXPECT_NO_THROW(synchronize()) << "it was told once";
}

TEST_F(Failures, WhatDependsOnALostResultIsLost) {
    const Tensor good = randn({300}, {DType::Float32, kGpu}) * 2;
    const Tensor bad =
        embedding(full({2}, 9, {int64, kGpu}), randn({5, 2}, {DType::Float32, kGpu}));
    try {
        synchronize();
    } catch (const IndexError&) {  // it may be told here
    }
    const Tensor later = (bad + 1).sum();
    EXPECT_ERROR(later.item<float>(), IndexError, "9");
    EXPECT_ERROR(bad.eval(), IndexError, "9");
    EXPECT_NO_THROW(good.sum().item<float>());
}

TEST_F(Failures, MemoryIsCountedAndBounded) {
    empty_cache();
    const std::int64_t before = memory_allocated(kGpu);
    EXPECT_EQ(memory_cached(kGpu), 0);
    EXPECT_GT(memory_total(kGpu), std::int64_t{1} << 28);
    reset_peak_memory();
    {
        const Tensor x = zeros({1 << 20}, {DType::Float32, kGpu}).eval();
        synchronize();
        EXPECT_GE(memory_allocated(kGpu), before + (4 << 20));
    }
    EXPECT_LT(memory_allocated(kGpu), before + (4 << 20));
    EXPECT_GE(memory_cached(kGpu), 4 << 20);
    EXPECT_GE(max_memory_allocated(kGpu), before + (4 << 20));
    empty_cache();
    EXPECT_EQ(memory_cached(kGpu), 0);

    EXPECT_ERROR(set_memory_fraction(0, kGpu), ValueError, "above 0");
    EXPECT_ERROR(set_memory_fraction(1.5, kGpu), ValueError, "1.5");
    const double allowed = static_cast<double>(memory_allocated(kGpu) + (24 << 20));
    set_memory_fraction(allowed / static_cast<double>(memory_total(kGpu)), kGpu);
    const Tensor kept = zeros({3 << 20}, {DType::Float32, kGpu}).eval();  // 12 MiB
    EXPECT_ERROR(zeros({4 << 20}, {DType::Float32, kGpu}).eval(), OutOfMemoryError, "gpu",
                 "asked for 16.0 MiB", "1 of 12.0 MiB", "set_memory_fraction allows");
    // What is cached goes first.
    { zeros({2 << 20}, {DType::Float32, kGpu}).eval(); }
    EXPECT_NO_THROW(zeros({5 << 19}, {DType::Float32, kGpu}).eval());  // 10 MiB, after 8
    set_memory_fraction(1, kGpu);
    EXPECT_NO_THROW(zeros({4 << 20}, {DType::Float32, kGpu}).eval());
}

#ifdef PIPPIN_HAS_VULKAN
VKAPI_ATTR VkResult VKAPI_CALL lost(VkQueue, std::uint32_t, const VkSubmitInfo*, VkFence) {
    return VK_ERROR_DEVICE_LOST;
}

// In a process of its own: a lost device stays lost.
TEST_F(Failures, DISABLED_LostDevice) {
    const Tensor x = ones({4}, {DType::Float32, kGpu}).eval();
    EXPECT_EQ(x.sum().item<float>(), 4);
    const PFN_vkQueueSubmit real = vkQueueSubmit;
    vkQueueSubmit = lost;
    EXPECT_ERROR((x + 1).sum().item<float>(), DeviceError, "the device was lost");
    vkQueueSubmit = real;
    EXPECT_ERROR((x + 2).sum().item<float>(), DeviceError, "lost earlier");
    EXPECT_EQ(ones({3}).sum().item<float>(), 3) << "the processor goes on";
}

PFN_vkQueueSubmit real_submit = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL submit_badly(VkQueue queue, std::uint32_t n, const VkSubmitInfo* s,
                                            VkFence fence) {
    VkSubmitInfo bad = *s;
    bad.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    return real_submit(queue, n, &bad, fence);
}
TEST_F(Failures, DISABLED_MisuseOfVulkan) {
    real_submit = vkQueueSubmit;
    vkQueueSubmit = submit_badly;
    (void)ones({4}, {DType::Float32, kGpu}).sum().item<float>();
}

TEST_F(Failures, ALostDeviceIsAnError) {
    EXPECT_TRUE(passes_again("Failures.DISABLED_LostDevice", {}));
}
#endif

}  // namespace
}  // namespace pippin::gpu_test
