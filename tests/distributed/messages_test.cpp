// What processes tell each other beside gradients.
#include <algorithm>
#include <list>

#include "distributed/processes.h"
#include "pippin/accelerator.h"
#include "pippin/pippin.h"

namespace pippin {
namespace {

using test::ran_in_processes;

class Messages : public test::Processes {};

TEST_F(Messages, GatherReduceBroadcastPadAndSplit) {
    if (ran_in_processes(3)) return;
    Accelerator a({.quiet = true});
    const int k = a.process_index();
    EXPECT_EQ(a.num_processes(), 3);
    EXPECT_EQ(a.local_process_index(), k);
    EXPECT_EQ(a.is_main_process(), k == 0);
    EXPECT_EQ(a.is_last_process(), k == 2);

    const Tensor own = tensor(std::vector<std::int64_t>{k, 10 + k}, {1, 2});
    EXPECT_EQ(a.gather(own).to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 10, 1, 11, 2, 12}));
    EXPECT_EQ(a.gather(own).shape(), Shape({3, 2}));
    EXPECT_EQ(a.gather(tensor(std::vector<float>{1.5f * static_cast<float>(k)}, Shape()))
                  .to_vector<float>(),
              (std::vector<float>{0, 1.5f, 3}));
    EXPECT_EQ(a.gather(own == 11).to_vector<bool>(),
              (std::vector<bool>{false, false, false, true, false, false}));

    EXPECT_EQ(a.reduce(own).to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 33}));
    EXPECT_EQ(a.reduce(own.to(float32), "mean", 2).to_vector<float>(), (std::vector<float>{2, 22}));
    EXPECT_EQ(a.reduce(own.to(bfloat16)).dtype(), bfloat16);
    EXPECT_THROW(a.reduce(own, "product"), ValueError);
    EXPECT_THROW(a.reduce(own, "mean"), TypeError);

    EXPECT_EQ(a.broadcast(own, 2).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 12}));
    EXPECT_THROW(a.broadcast(own, 3), ValueError);

    const Tensor row = ones({2, k + 1});
    EXPECT_THROW(a.gather(row), ValueError);  // in all of them
    const Tensor padded = a.pad_across_processes(row, 1, -1);
    EXPECT_EQ(padded.shape(), Shape({2, 3}));
    EXPECT_EQ(padded.sum().item<float>(), static_cast<float>(2 * (k + 1) - 2 * (2 - k)));
    if (k == 0) {
        EXPECT_EQ(a.pad_across_processes(row, -1, 7, true).to_vector<float>(),
                  (std::vector<float>{7, 7, 1, 7, 7, 1}));
    } else {
        a.pad_across_processes(row, -1, 7, true);
    }

    const std::vector<std::string> names{"a", "b", "c", "d", "e", "f", "g", "h"};
    const std::vector<std::vector<std::string>> parts{{"a", "b", "c"}, {"d", "e", "f"}, {"g", "h"}};
    EXPECT_EQ(a.split_between_processes(names), parts[static_cast<std::size_t>(k)]);
    EXPECT_EQ(a.split_between_processes(names, true).size(), 3u);
    EXPECT_EQ(a.split_between_processes(names, true).back(),
              k == 2 ? "h" : parts[std::size_t(k)][2]);
    EXPECT_EQ(
        a.split_between_processes(arange(8), true).to_vector<std::int64_t>(),
        (std::vector<std::vector<std::int64_t>>{{0, 1, 2}, {3, 4, 5}, {6, 7, 7}})[std::size_t(k)]);

    EXPECT_EQ(a.gather_object(std::string(static_cast<std::size_t>(5 * k), 'x')),
              (std::vector<std::string>{"", "xxxxx", "xxxxxxxxxx"}));
    a.wait_for_everyone();
}

TEST_F(Messages, MetricsSeeEachSampleOnce) {
    if (ran_in_processes(3)) return;
    Accelerator a({.quiet = true});
    std::list<data::DataLoader> loaders;  // what is prepared stays where it is
    for (const std::int64_t n : {20, 24, 3, 1}) {
        std::vector<float> x(static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < x.size(); ++i)
            x[i] = static_cast<float>(i);
        const Tensor all = tensor(x, {n, 1});
        data::DataLoader& loader = loaders.emplace_back(data::TensorDataset(all, all),
                                                        data::LoaderOptions{.batch_size = 4});
        a.prepare(loader);
        EXPECT_EQ(loader.size(), (n + 11) / 12);
        std::vector<float> seen;
        for (const auto& b : loader) {
            EXPECT_EQ(b.data.size(0), 4);  // equally many everywhere
            for (const float v : a.gather_for_metrics(b.data).to_vector<float>())
                seen.push_back(v);
        }
        EXPECT_EQ(seen, x) << n << " samples";                // in order too
        EXPECT_EQ(a.gather_for_metrics(all).size(0), 3 * n);  // no loop is under way
    }
    // Without the last batches that are not full everywhere.
    const Tensor all = arange(20).reshape({20, 1});
    data::DataLoader loader(data::TensorDataset(all, all), {.batch_size = 4, .drop_last = true});
    a.prepare(loader);
    EXPECT_EQ(loader.size(), 1);
    for (const auto& b : loader)
        EXPECT_EQ(a.gather_for_metrics(b.target).size(0), 12);
}

TEST_F(Messages, ProcessesShuffleAlikeAndDrawApart) {
    if (ran_in_processes(2)) return;
    Accelerator a({.quiet = true});
    set_seed(7, true);
    const Tensor noise = rand({4});
    const auto both = a.gather(noise).to_vector<float>();
    EXPECT_FALSE(std::equal(both.begin(), both.begin() + 4, both.begin() + 4));
    set_seed(7);
    const auto same = a.gather(rand({4})).to_vector<float>();
    EXPECT_TRUE(std::equal(same.begin(), same.begin() + 4, same.begin() + 4));

    set_seed(7, true);
    const Tensor all = arange(16).reshape({16, 1});
    data::DataLoader loader(data::TensorDataset(all, all), {.batch_size = 2, .shuffle = true});
    a.prepare(loader);
    std::vector<std::int64_t> seen;
    for (const auto& b : loader)
        for (const auto v : a.gather(b.data).to_vector<std::int64_t>())
            seen.push_back(v);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, all.to_vector<std::int64_t>());
}

TEST_F(Messages, OneStepOfAScheduleIsOneOfEachProcess) {
    if (ran_in_processes(2)) return;
    Accelerator a({.quiet = true});
    const auto model = nn::make<nn::Linear>(1, 1);
    optim::SGD optimizer(model->parameters(), {.lr = 1});
    optim::OneCycleLR schedule(optimizer, {.max_lr = 1, .total_steps = 5});
    a.prepare(*model, optimizer, schedule);
    for (const std::int64_t steps : {2, 4, 5, 5}) {
        schedule.step();
        EXPECT_EQ(schedule.steps(), steps);
    }
}

TEST_F(Messages, TheMainProcessGoesFirst) {
    if (ran_in_processes(2)) return;
    Accelerator a({.quiet = true});
    const auto file =
        std::filesystem::temp_directory_path() / ("pippin-first-" + std::to_string(getppid()));
    {
        const auto first = a.main_process_first();
        if (a.is_main_process()) {
            EXPECT_FALSE(std::filesystem::exists(file));
            std::filesystem::create_directory(file);
        } else {
            EXPECT_TRUE(std::filesystem::exists(file));
        }
    }
    a.wait_for_everyone();
    if (a.is_main_process()) std::filesystem::remove(file);
}

TEST_F(Messages, DifferentModelsAreRefused) {
    if (ran_in_processes(2)) return;
    Accelerator a({.quiet = true});
    const auto model = nn::make<nn::Linear>(2, 3 + a.process_index());
    EXPECT_THROW(a.prepare(*model), ValueError);
    const auto same = nn::make<nn::Linear>(2, 3);
    optim::SGD optimizer(same->parameters(), {.lr = 1});
    a.prepare(*same, optimizer);
    (*same)(ones({1, 2})).sum().backward();
    EXPECT_THROW(optimizer.step(), ValueError);  // gradients were not averaged
}

}  // namespace
}  // namespace pippin
