// Two processes train as one does with the doubled batch.
#include <cmath>

#include "common/temp_folder.h"
#include "distributed/processes.h"
#include "pippin/accelerator.h"
#include "pippin/pippin.h"
#include "train/gradient_sync.h"

namespace pippin {
namespace {

using test::ran_in_processes;

class Training : public test::Processes {};

data::TensorDataset images(std::int64_t n) {
    std::vector<float> x(static_cast<std::size_t>(n * 3 * 8 * 8));
    std::vector<std::int64_t> y;
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<float>(std::sin(static_cast<double>(i * i % 9973)));
    for (std::int64_t i = 0; i < n; ++i) {
        y.push_back(i * 7 % 5);
        // Something to learn: each class has a bright row.
        for (std::int64_t c = 0; c < 8; ++c)
            x[static_cast<std::size_t>(i * 192 + y.back() * 8 + c)] += 4;
    }
    return data::TensorDataset(tensor(x, {n, 3, 8, 8}), tensor(y, {n}));
}

std::shared_ptr<nn::Sequential> small_cnn() {
    return nn::sequential(
        nn::make<nn::Conv2d>(3, 8, nn::Conv2d::Args{.kernel = 3}), nn::make<nn::ReLU>(),
        nn::make<nn::Conv2d>(8, 12, nn::Conv2d::Args{.kernel = 3}), nn::make<nn::ReLU>(),
        nn::make<nn::Flatten>(), nn::make<nn::Linear>(12 * 4 * 4, 5));
}

// Twenty steps by hand, in one process: no accelerator takes part.
template <class Make>
std::vector<float> alone(std::int64_t batch, int accumulate, Make make_optimizer) {
    manual_seed(3);
    const auto model = small_cnn();
    auto optimizer = make_optimizer(*model);
    data::DataLoader loader(images(160), {.batch_size = batch, .shuffle = true, .seed = 9});
    std::vector<float> losses;
    int k = 0;
    while (static_cast<int>(losses.size()) < 20)
        for (const auto& b : loader) {
            const Tensor loss = cross_entropy((*model)(b.data), b.target);
            (loss / accumulate).backward();
            losses.push_back(loss.item<float>());
            if (++k % accumulate != 0) continue;
            optimizer->step();
            optimizer->zero_grad();
        }
    losses.resize(20);
    return losses;
}

template <class Make>
std::vector<float> in_processes(std::int64_t batch, AcceleratorOptions o, Make make_optimizer) {
    o.quiet = true;
    o.bucket_cap_mb = 0.004;  // several buckets even of so small a network
    Accelerator accelerator(o);
    // Other weights in each process: prepare() makes them equal.
    set_seed(3, true);
    const auto model = small_cnn();
    auto optimizer = make_optimizer(*model);
    data::DataLoader loader(images(160), {.batch_size = batch, .shuffle = true, .seed = 9});
    accelerator.prepare(*model, *optimizer, loader);
    EXPECT_EQ(accelerator.num_processes(), 2);
    std::vector<float> losses;
    while (static_cast<int>(losses.size()) < 20)
        for (const auto& b : loader) {
            const auto window = accelerator.accumulate();
            const Tensor loss = cross_entropy((*model)(b.data), b.target);
            accelerator.backward(loss);
            optimizer->step();
            optimizer->zero_grad();
            losses.push_back(accelerator.reduce(loss, "mean").item<float>());
        }
    losses.resize(20);
    for (const auto& [name, p] : model->named_parameters()) {
        const Tensor both = accelerator.gather(p.detach().reshape({1, -1}));
        const std::vector<float> all = both.template to_vector<float>();
        EXPECT_TRUE(std::equal(all.begin(), all.begin() + p.numel(), all.begin() + p.numel()))
            << name << " differs between the processes";
    }
    return losses;
}

void expect_equal(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
        EXPECT_NEAR(a[i], b[i], 1e-5) << "at step " << i;
    EXPECT_LT(b.back(), b.front());
}

TEST_F(Training, TwoProcessesAreOneWithTheDoubledBatch) {
    if (ran_in_processes(2)) return;
    const auto sgd = [](nn::Module& m) {
        return std::make_unique<optim::SGD>(m.parameters(),
                                            optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
    };
    const auto adamw = [](nn::Module& m) {
        return std::make_unique<optim::AdamW>(m.parameters(), optim::AdamOptions{.lr = 3e-3});
    };
    expect_equal(alone(16, 1, sgd), in_processes(8, {}, sgd));
    expect_equal(alone(16, 1, adamw), in_processes(8, {}, adamw));
    expect_equal(alone(16, 2, sgd), in_processes(8, {.gradient_accumulation_steps = 2}, sgd));
}

TEST_F(Training, GradientsTravelWhileOthersAreComputed) {
    if (ran_in_processes(2)) return;
    manual_seed(1);
    Accelerator accelerator({.quiet = true, .bucket_cap_mb = 1});
    const auto model = nn::sequential();
    for (int i = 0; i < 6; ++i) {
        model->append(nn::make<nn::Linear>(512, 512));
        model->append(nn::make<nn::ReLU>());
    }
    optim::SGD optimizer(model->parameters(), {.lr = 1e-3});
    accelerator.prepare(*model, optimizer);
    const Tensor x = randn({256, 512});
    const dist::SyncStats before = dist::sync_stats();
    for (int step = 0; step < 8; ++step) {
        accelerator.backward(square((*model)(x)).mean());
        optimizer.step();
        optimizer.zero_grad();
    }
    dist::SyncStats s = dist::sync_stats();
    s.rounds -= before.rounds, s.buckets -= before.buckets, s.early -= before.early;
    s.bytes -= before.bytes;
    EXPECT_EQ(s.rounds, 8);
    EXPECT_EQ(s.buckets % 8, 0);
    EXPECT_GE(s.buckets, 8 * 6);
    EXPECT_EQ(s.bytes, 8 * 6 * (512 * 512 + 512) * 4);
    // The last bucket of a round waits for the last gradient; most of the others do not.
    EXPECT_GE(s.early, s.buckets / 3)
        << s.early << " of " << s.buckets << " began before the last gradient was computed";
    RecordProperty("early", static_cast<int>(s.early));
    if (accelerator.is_main_process())
        std::printf("%d of %d buckets began while backward was computing\n",
                    static_cast<int>(s.early), static_cast<int>(s.buckets));
}

TEST_F(Training, NoSyncKeepsGradientsApart) {
    if (ran_in_processes(2)) return;
    Accelerator accelerator({.quiet = true});
    const float own = static_cast<float>(accelerator.process_index() + 1);  // 1 and 2
    const auto model = nn::make<nn::Linear>(1, 1, false);
    optim::SGD optimizer(model->parameters(), {.lr = 1});
    accelerator.prepare(*model, optimizer);
    const Tensor x = tensor(std::vector<float>{own}, {1, 1});
    const auto gradient = [&] { return model->weight.grad().item<float>(); };
    {
        const auto apart = accelerator.no_sync();
        accelerator.backward((*model)(x).sum());
        EXPECT_EQ(gradient(), own);
    }
    accelerator.backward((*model)(x).sum());
    EXPECT_EQ(gradient(), 3);  // the mean of 1 + 1 and 2 + 2
}

TEST_F(Training, AParameterThatOneProcessDoesNotUse) {
    if (ran_in_processes(2)) return;
    Accelerator accelerator({.quiet = true});
    const auto used = nn::make<nn::Linear>(1, 1, false),
               sometimes = nn::make<nn::Linear>(1, 1, false),
               never = nn::make<nn::Linear>(1, 1, false);
    const auto model = nn::sequential(used, sometimes, never);
    optim::SGD optimizer(model->parameters(), {.lr = 1});
    accelerator.prepare(*model, optimizer);
    const Tensor x = ones({1, 1});
    Tensor loss = (*used)(x).sum();
    if (accelerator.is_main_process()) loss = loss + (*sometimes)(x).sum();
    accelerator.backward(loss);
    EXPECT_EQ(used->weight.grad().item<float>(), 1);
    ASSERT_TRUE(sometimes->weight.grad().defined());
    EXPECT_EQ(sometimes->weight.grad().item<float>(), 0.5f);
    EXPECT_FALSE(never->weight.grad().defined());
}

TEST_F(Training, HalfPrecisionSkipsTheSameSteps) {
    if (ran_in_processes(2)) return;
    manual_seed(2);
    Accelerator accelerator(
        {.mixed_precision = "fp16", .scaler = {.init_scale = 1024}, .quiet = true});
    const auto model = nn::sequential(nn::make<nn::Linear>(4, 8), nn::make<nn::BatchNorm1d>(8),
                                      nn::make<nn::Linear>(8, 1));
    optim::AdamW optimizer(model->parameters(), {.lr = 1e-2});
    accelerator.prepare(*model, optimizer);
    for (int step = 0; step < 4; ++step) {
        // In step 2, and in process 1 alone, the gradients overflow.
        const double factor = step == 2 && accelerator.process_index() == 1 ? 1e38 : 1;
        manual_seed(static_cast<std::uint64_t>(10 * step + accelerator.process_index()));
        const Tensor x = randn({8, 4});
        Tensor loss;
        {
            const auto autocast = accelerator.autocast();
            loss = square((*model)(x).to(float32)).mean() * factor;
        }
        accelerator.backward(loss);
        accelerator.clip_grad_norm_(model->parameters(), 1);
        optimizer.step();
        optimizer.zero_grad();
        EXPECT_EQ(accelerator.optimizer_step_was_skipped(), step == 2);
    }
    EXPECT_EQ(accelerator.scaler().get_scale(), 512);
    // Weights, and process 0's running statistics, are the same in both.
    for (const auto& [name, t] : model->state_dict()) {
        const auto all =
            accelerator.gather(t.detach().to(float32).reshape({-1})).to_vector<float>();
        for (std::int64_t i = 0; i < t.numel(); ++i)
            EXPECT_EQ(all[static_cast<std::size_t>(i)],
                      all[static_cast<std::size_t>(i + t.numel())])
                << name;
    }
}

TEST_F(Training, ResumesBitForBit) {
    if (ran_in_processes(2)) return;
    const auto folder =
        std::filesystem::temp_directory_path() /
        ("pippin-two-" + std::string(std::getenv("PMIX_NAMESPACE") ? std::getenv("PMIX_NAMESPACE")
                                                                   : std::to_string(getppid())));
    // Random state of its own in each process, and windows of three batches: the state is saved in
    // the middle of an epoch and of a window, once its gradients have been added to.
    const auto losses = [&](bool resume) {
        Accelerator accelerator({.gradient_accumulation_steps = 3, .quiet = true});
        set_seed(4, true);
        const auto model = nn::sequential(nn::make<nn::Flatten>(), nn::make<nn::Linear>(192, 16),
                                          nn::make<nn::Dropout>(0.3), nn::make<nn::Linear>(16, 5));
        optim::AdamW optimizer(model->parameters(), {.lr = 1e-2});
        data::DataLoader loader(images(90), {.batch_size = 4, .shuffle = true, .seed = 1});
        optim::StepLR schedule(optimizer, 4, 0.5);
        accelerator.prepare(*model, optimizer, loader, schedule);
        if (resume) accelerator.load_state(folder);
        std::vector<float> out;
        for (int epoch = 0; epoch < 2 && loader.epoch() < 2; ++epoch)
            for (const auto& b : loader) {
                {
                    const auto window = accelerator.accumulate();
                    const Tensor loss = cross_entropy((*model)(b.data), b.target);
                    accelerator.backward(loss);
                    optimizer.step();
                    schedule.step();
                    optimizer.zero_grad();
                    out.push_back(loss.item<float>());
                }
                if (!resume && loader.epoch() == 1 && b.index == 6) {
                    EXPECT_EQ(accelerator.save_state(folder), folder);
                }
            }
        return out;
    };
    const auto whole = losses(false), rest = losses(true);
    EXPECT_EQ(whole.size(), 24u);
    ASSERT_EQ(rest.size(), whole.size() - 7);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + 7));
    {
        Accelerator accelerator({.quiet = true});
        EXPECT_NE(accelerator.gather_object(std::to_string(whole[0]))[0],
                  accelerator.gather_object(std::to_string(whole[0]))[1]);
        // All processes are told what only the first one finds out.
        EXPECT_THROW(accelerator.save_state(folder), FileError);
        if (accelerator.is_main_process()) std::filesystem::remove_all(folder);
        accelerator.wait_for_everyone();
        EXPECT_THROW(accelerator.load_state(folder), FileError);
    }
}

}  // namespace
}  // namespace pippin
