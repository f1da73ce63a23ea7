// Memory over long training with shapes that keep changing.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "pippin/pippin.h"
#include "pippin/stats.h"

namespace pippin {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSteps = 300;
constexpr bool kMeasuresProcess = false;  // the sanitizer keeps what is freed for a while
#else
constexpr int kSteps = 5000;
constexpr bool kMeasuresProcess = true;
#endif

// Bytes of this process in memory; 0 where the system does not tell.
std::int64_t resident_bytes() {
    std::FILE* f = std::fopen("/proc/self/statm", "r");
    if (!f) return 0;
    long total = 0, resident = 0;
    const int read = std::fscanf(f, "%ld %ld", &total, &resident);
    std::fclose(f);
    return read == 2 ? resident * std::int64_t{4096} : 0;
}

// K33: batches of 1..1024 rows. Plans, buffers and the process level off.
TEST(Memory, K33ChangingBatchSizesLevelOff) {
    manual_seed(1);
    empty_cache();
    set_plan_cache_limit(64);
    const auto model = nn::sequential(nn::make<nn::Linear>(32, 32), nn::make<nn::ReLU>(),
                                      nn::make<nn::Linear>(32, 10));
    optim::Adam optimizer(model->parameters(), {.lr = 1e-3});
    std::mt19937 random(7);
    std::int64_t resident = 0, cached = 0, live = 0, plans = 0;
    for (int step = 1; step <= kSteps; ++step) {
        const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 1024);
        const Tensor x = randn({rows, 32}), y = randint(0, 10, {rows});
        const Tensor loss = cross_entropy((*model)(x), y);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        if (step % 100 == 0) {
            ASSERT_TRUE(std::isfinite(loss.item<float>()));
        }
        if (step == kSteps / 2) {
            synchronize();
            const Stats s = stats();
            resident = resident_bytes(), cached = s.bytes_cached, live = s.bytes_live;
            plans = s.plans_cached;
        }
    }
    synchronize();
    const Stats s = stats();
    set_plan_cache_limit(256);
    EXPECT_EQ(s.plans_cached, plans) << "the plan cache is full at half the way, and bounded";
    EXPECT_LE(s.bytes_live + s.bytes_cached, live + cached + (1 << 20));
    EXPECT_LE(s.bytes_live, std::int64_t{4} << 20) << "the model, its state and one batch";
    if (kMeasuresProcess) {
        EXPECT_LE(resident_bytes(), resident + (std::int64_t{4} << 20));
    }
}

// What a step made is given back: the live bytes after a thousand steps are those after ten.
TEST(Memory, LiveBuffersStayTheSame) {
    manual_seed(1);
    const auto model = nn::sequential(nn::make<nn::Linear>(16, 64), nn::make<nn::Tanh>(),
                                      nn::make<nn::Linear>(64, 4));
    optim::SGD optimizer(model->parameters(), {.lr = 1e-2, .momentum = 0.9});
    std::int64_t after_ten = 0;
    for (int step = 1; step <= 1000; ++step) {
        {
            const Tensor loss = mse_loss((*model)(randn({8, 16})), zeros({8, 4}));
            optimizer.zero_grad();
            loss.backward();
            optimizer.step();
        }
        synchronize();
        if (step == 10) after_ten = stats().bytes_live;
    }
    EXPECT_EQ(stats().bytes_live, after_ten);
}

}  // namespace
}  // namespace pippin
