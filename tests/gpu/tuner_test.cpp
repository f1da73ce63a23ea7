// The tuner's decisions, with a bench whose clock is a script, and the file that keeps them.
#include "backends/gpu/tuner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "common/temp_folder.h"
#include "graph/ops/records.h"
#include "pippin/error.h"

namespace pippin::gpu_test {
namespace {

namespace ops = graph::ops;
using gpu::Algorithm;
using gpu::LaunchChoice;
using gpu::Taken;

class ScriptedBench : public gpu::Bench {
  public:
    std::function<double(const Taken&)> seconds = [](const Taken&) { return 1e-3; };
    std::function<bool(const Taken&)> wrong, broken, refused;
    bool room = true;
    double patience = 0;  // seconds that a call of prepare() takes
    std::vector<gpu::ProductShape> order;
    int runs = 0;

    std::int64_t most_bytes() const override { return std::int64_t{1} << 40; }
    bool is_brief(double operations, double) const override { return operations < 1e12; }
    bool reserve(std::int64_t) override { return room; }
    std::vector<std::string> prepare(std::span<const gpu::Work* const> works) override {
        std::this_thread::sleep_for(std::chrono::duration<double>(patience));
        std::vector<std::string> errors(works.size());
        for (std::size_t k = 0; k < works.size(); ++k)
            if (refused && refused(works[k]->steps[0].taken)) errors[k] = "it does not compile";
        return errors;
    }
    double run(const gpu::Work& work, std::span<const std::int64_t>, std::int64_t,
               int times) override {
        ++runs;
        const Taken& taken = work.steps[0].taken;
        if (taken.products.empty() && taken.algorithm == Algorithm::Default) return 1e-6;
        last_ = taken;
        if (broken && broken(taken)) throw DeviceError("a fault");
        if (!taken.products.empty() && (order.empty() || order.back() != taken.products[0].shape))
            order.push_back(taken.products[0].shape);
        return seconds(taken) * times;
    }
    void read(void* to, std::int64_t, std::int64_t bytes) override {
        auto* sums = static_cast<float*>(to);
        for (std::int64_t k = 0; k < bytes / 4; k += 3)
            sums[k] = wrong && wrong(last_) ? 0.5f : 0.0f, sums[k + 1] = 1, sums[k + 2] = 0;
    }
    void keep(const gpu::Work&) override {}
    void forget() override {}
    void release() override {}

  private:
    Taken last_;
};

gpu::Features features() {
    gpu::Features f;
    f.large_tiles = true;
    f.parallel_groups = 512;
    f.shared_bytes = 49152;
    return f;
}

void add_launch(plan::Plan& plan, const graph::OpRecord& op,
                std::initializer_list<std::int64_t> attrs, const std::vector<Shape>& shapes,
                const Shape& result, plan::Order order, std::int64_t flops) {
    plan::Launch l;
    l.name = op.name;
    l.flops = flops;
    l.heavy = std::make_unique<plan::HeavyLaunch>();
    l.heavy->op = &op;
    for (const auto a : attrs)
        l.heavy->attrs.i.push_back(a);
    const auto operand = [&](const Shape& shape) {
        plan::Operand o;
        o.slot = static_cast<std::int32_t>(plan.slots.size());
        o.shape = shape;
        o.strides = plan::dense_strides(shape, order);
        plan.slots.push_back({plan::Slot::Where::Input, o.slot, 0, shape.numel() * 4});
        return o;
    };
    for (const Shape& s : shapes)
        l.heavy->operands.push_back(operand(s));
    l.heavy->output = operand(result);
    plan.launches.push_back(std::move(l));
}
void add_product(plan::Plan& plan, std::int64_t m, std::int64_t n, std::int64_t k) {
    add_launch(plan, ops::kMatmul, {0, 0}, {{m, k}, {k, n}}, {m, n}, plan::Order::RowMajor,
               2 * m * n * k);
}
plan::Plan one_product() {
    plan::Plan plan;
    add_product(plan, 2048, 2048, 2048);
    return plan;
}

class TunerTest : public ::testing::Test {
  protected:
    gpu::Tuner::Settings settings() {
        gpu::Tuner::Settings s;
        s.device = "a device, driver 1";
        s.features = features();
        s.file = folder / "cache" / "tuning.txt";
        return s;
    }
    gpu::ProductForm form(const LaunchChoice& c) {
        return c.products.empty() ? gpu::ProductForm{} : c.products[0].second;
    }
    // A tile that the rule would not take, where the rule's takes longer.
    static double eight_is_faster(const Taken& t) {
        return !t.products.empty() && t.products[0].form.tile == 8 ? 1e-3 : 2e-3;
    }

    test::TempFolder folder;
    ScriptedBench bench;
};

TEST_F(TunerTest, TheFastestIsTakenAndRemembered) {
    bench.seconds = eight_is_faster;
    plan::Plan plan = one_product();
    add_product(plan, 2048, 2048, 2048);
    gpu::Tuner tuner(settings(), bench);
    const auto choices = tuner.choose(plan);
    ASSERT_EQ(choices.size(), 2u);
    EXPECT_EQ(form(choices[0]).tile, 8);
    EXPECT_EQ(choices[0], choices[1]);
    EXPECT_EQ(tuner.stats().known, 1);
    const int runs = bench.runs;
    EXPECT_EQ(tuner.choose(plan), choices);
    EXPECT_EQ(bench.runs, runs);
    // What the launch becomes.
    const gpu::Work work = gpu::make_work(plan, features(), choices);
    EXPECT_EQ(work.steps[1].taken.products[0].form.tile, 8);
    EXPECT_NE(gpu::make_work(plan, features()).steps[1].taken.products[0].form.tile, 8);

    // Another process, then another driver, other features, another size.
    ScriptedBench idle;
    gpu::Tuner second(settings(), idle);
    EXPECT_EQ(second.choose(plan), choices);
    EXPECT_EQ(idle.runs, 0);
    EXPECT_EQ(tuner.stats().tried, 1);
    EXPECT_EQ(second.stats().known, 1);
    EXPECT_EQ(second.stats().tried, 0);
    EXPECT_EQ(second.stats().changed, 1);
    const auto asks_again = [&](const gpu::Tuner::Settings& s, const plan::Plan& p) {
        ScriptedBench b;
        gpu::Tuner(s, b).choose(p);
        return b.runs > 0;
    };
    gpu::Tuner::Settings other = settings();
    EXPECT_FALSE(asks_again(other, plan));
    other.device = "a device, driver 2";
    EXPECT_TRUE(asks_again(other, plan));
    other = settings();
    other.features.parallel_groups = 128;
    EXPECT_TRUE(asks_again(other, plan));
    plan::Plan odd;
    add_product(odd, 2048, 2048, 2047);
    EXPECT_TRUE(asks_again(settings(), odd));
    // The first one's lines are still there.
    EXPECT_FALSE(asks_again(settings(), plan));
}

TEST_F(TunerTest, ASmallGainIsNone) {
    bench.seconds = [](const Taken& t) { return t.products[0].form.tile == 8 ? 0.96e-3 : 1e-3; };
    gpu::Tuner tuner(settings(), bench);
    EXPECT_TRUE(tuner.choose(one_product())[0].is_default());
    EXPECT_EQ(tuner.stats().known, 1);  // that it is the default is known, too
}

TEST_F(TunerTest, WhatIsWrongOrFailsIsOut) {
    bench.seconds = eight_is_faster;
    const auto eight = [](const Taken& t) {
        return !t.products.empty() && t.products[0].form.tile == 8;
    };
    int k = 0;
    for (auto* fault : {&bench.wrong, &bench.broken, &bench.refused}) {
        *fault = eight;
        gpu::Tuner::Settings s = settings();
        s.device += std::to_string(k++);
        gpu::Tuner tuner(s, bench);
        EXPECT_TRUE(tuner.choose(one_product())[0].is_default()) << k;
        EXPECT_EQ(tuner.stats().known, 1) << k;
        *fault = nullptr;
    }
    // The next best takes its place.
    bench.wrong = eight;
    bench.seconds = [](const Taken& t) {
        const int tile = t.products[0].form.tile;
        return tile == 8 ? 1e-3 : tile == 9 ? 1.5e-3 : 2e-3;
    };
    gpu::Tuner::Settings s = settings();
    s.device += "last";
    EXPECT_EQ(form(gpu::Tuner(s, bench).choose(one_product())[0]).tile, 9);
}

TEST_F(TunerTest, ADefaultThatCannotBeMeasuredStays) {
    bench.seconds = eight_is_faster;
    bench.room = false;
    EXPECT_TRUE(gpu::Tuner(settings(), bench).choose(one_product())[0].is_default());
    bench.room = true;  // it was not written down
    EXPECT_EQ(form(gpu::Tuner(settings(), bench).choose(one_product())[0]).tile, 8);
}

TEST_F(TunerTest, LongLaunchesAreNotTried) {
    plan::Plan plan;
    add_product(plan, 16384, 16384, 16384);
    gpu::Tuner tuner(settings(), bench);
    EXPECT_TRUE(tuner.choose(plan)[0].is_default());
    EXPECT_EQ(bench.runs, 0);
}

TEST_F(TunerTest, OffIsOff) {
    bench.seconds = eight_is_faster;
    gpu::Tuner::Settings s = settings();
    gpu::Tuner(s, bench).choose(one_product());
    const int runs = bench.runs;
    s.mode = gpu::TuneMode::Off;
    EXPECT_TRUE(gpu::Tuner(s, bench).choose(one_product())[0].is_default());
    EXPECT_EQ(bench.runs, runs);
}

TEST_F(TunerTest, AlgorithmsThenTheirTiles) {
    plan::Plan plan;
    add_launch(plan, ops::kConv2d, {1, 1, 1, 1, 1, 1, 1}, {{8, 128, 32, 32}, {128, 128, 3, 3}},
               {8, 128, 32, 32}, plan::Order::ChannelsLast, 1'000'000);
    ASSERT_EQ(gpu::make_work(plan, features()).steps[0].taken.algorithm, Algorithm::Winograd);
    bench.seconds = [](const Taken& t) {
        if (t.algorithm != Algorithm::Product) return 3e-3;
        return t.products[0].form.tile == 8 ? 1e-3 : 2e-3;
    };
    const auto choices = gpu::Tuner(settings(), bench).choose(plan);
    EXPECT_EQ(choices[0].algorithm, Algorithm::Product);
    EXPECT_EQ(form(choices[0]).tile, 8);
    const Taken taken = gpu::make_work(plan, features(), choices).steps[0].taken;
    EXPECT_EQ(taken.algorithm, Algorithm::Product);
    EXPECT_EQ(taken.products[0].form.tile, 8);
}

TEST_F(TunerTest, WishesThatCannotBeAreNotFollowed) {
    const plan::Plan plan = one_product();
    const Taken rule = gpu::make_work(plan, features()).steps[0].taken;
    for (const char* text : {"winograd", "one-pass,1x2048x2048x2048:77/0", "direct,1x2x3x4:0/2",
                             "default,1x2048x2048x2048:101/0"}) {
        const auto c = LaunchChoice::parse(text);
        ASSERT_TRUE(c) << text;
        const gpu::Work work = gpu::make_work(plan, features(), std::span(&*c, 1));
        ASSERT_FALSE(work.steps[0].on_cpu) << text;
        EXPECT_EQ(work.steps[0].taken.products[0].form, rule.products[0].form) << text;
    }
    // Absurd parts of a sum are as many as it has steps.
    const auto c = LaunchChoice::parse("default,1x2048x2048x2048:0/60000");
    const gpu::Work work = gpu::make_work(plan, features(), std::span(&*c, 1));
    EXPECT_LE(work.scratch_bytes, std::int64_t{2048} / 8 * 2048 * 2048 * 4);
}

TEST_F(TunerTest, TimeIsBoundedAndTheDearestComeFirst) {
    plan::Plan plan;
    for (const std::int64_t n : {64, 1024, 256, 512, 2048, 128})
        add_product(plan, n, n, n);
    bench.seconds = eight_is_faster;
    bench.patience = 0.05;
    gpu::Tuner::Settings s = settings();
    s.kernels_at_once = 1;  // one launch after the other
    s.plan_seconds = 0.07;
    s.least_seconds = 0.01;
    gpu::Tuner tuner(s, bench);
    tuner.choose(plan);
    const std::int64_t known = tuner.stats().known;
    EXPECT_GE(known, 1);
    EXPECT_LT(known, 6);
    ASSERT_FALSE(bench.order.empty());
    EXPECT_EQ(bench.order[0].m, 2048);
    for (std::size_t k = 1; k < bench.order.size(); ++k)
        EXPECT_LT(bench.order[k].m, bench.order[k - 1].m);
    // What little is left of a known plan does not hold it up, but another plan tries it.
    plan::Plan mostly_known;
    for (const std::int64_t n : {2048, 64})
        add_product(mostly_known, n, n, n);
    tuner.choose(mostly_known);
    EXPECT_EQ(tuner.stats().known, known);
    plan::Plan rest;
    add_product(rest, 64, 64, 64);
    tuner.choose(rest);
    EXPECT_EQ(tuner.stats().known, known + 1);
    // All plans together are bounded as well.
    s.device += " 2";
    s.all_seconds = s.share = 0;
    gpu::Tuner none(s, bench);
    none.choose(plan);
    EXPECT_EQ(none.stats().known, 0);
    s.share = 1e6;  // but for a part of the time that goes by
    gpu::Tuner later(s, bench);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    later.choose(plan);
    EXPECT_GT(later.stats().known, 0);
    s.mode = gpu::TuneMode::Full;
    s.share = 0;
    s.device += " 3";
    gpu::Tuner full(s, bench);
    full.choose(plan);
    EXPECT_EQ(full.stats().known, 6);
}

// Trials are an attempt: whatever goes wrong in them, the plan is made.
TEST_F(TunerTest, ADeviceThatFailsKeepsItsDefaults) {
    bench.broken = [](const Taken&) { return true; };
    gpu::Tuner tuner(settings(), bench);
    EXPECT_TRUE(tuner.choose(one_product())[0].is_default());
    EXPECT_EQ(tuner.stats().tried, 0);
    const int runs = bench.runs;
    tuner.choose(one_product());
    EXPECT_EQ(bench.runs, runs);  // it is not tried again and again
}

TEST_F(TunerTest, Modes) {
    const char* before = std::getenv("PIPPIN_GPU_TUNE");
    const std::string kept = before ? before : "";
    unsetenv("PIPPIN_GPU_TUNE");
    EXPECT_EQ(gpu::tune_mode(true), gpu::TuneMode::On);
    EXPECT_EQ(gpu::tune_mode(false), gpu::TuneMode::Off);
    setenv("PIPPIN_GPU_TUNE", "0", 1);
    EXPECT_EQ(gpu::tune_mode(true), gpu::TuneMode::Off);
    setenv("PIPPIN_GPU_TUNE", "1", 1);
    EXPECT_EQ(gpu::tune_mode(false), gpu::TuneMode::On);
    setenv("PIPPIN_GPU_TUNE", "log", 1);
    EXPECT_EQ(gpu::tune_mode(false), gpu::TuneMode::Log);
    setenv("PIPPIN_GPU_TUNE", "full", 1);
    EXPECT_EQ(gpu::tune_mode(false), gpu::TuneMode::Full);
    setenv("PIPPIN_GPU_TUNE", "maybe", 1);
    EXPECT_THROW(gpu::tune_mode(false), ValueError);
    if (before)
        setenv("PIPPIN_GPU_TUNE", kept.c_str(), 1);
    else
        unsetenv("PIPPIN_GPU_TUNE");
}

// --- the file ---

gpu::Tuned some_choice(int k) {
    gpu::Tuned t;
    t.choice.algorithm = static_cast<Algorithm>(k % 6);
    for (int p = 0; p < k % 3; ++p)
        t.choice.set({p + 1, 64 * k, 3, 1'000'000'007}, {k % 13, p});
    t.standard = 1e-3, t.chosen = 5e-4;
    return t;
}
std::map<gpu::TextKey, gpu::Tuned> some_choices(int first, int last) {
    std::map<gpu::TextKey, gpu::Tuned> all;
    for (int k = first; k < last; ++k)
        all[gpu::TextKey::of("launch " + std::to_string(k))] = some_choice(k);
    return all;
}
void expect_equal(const std::map<gpu::TextKey, gpu::Tuned>& a,
                  const std::map<gpu::TextKey, gpu::Tuned>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [key, tuned] : a) {
        ASSERT_TRUE(b.contains(key));
        EXPECT_EQ(tuned.choice, b.at(key).choice);
        EXPECT_NEAR(tuned.standard, b.at(key).standard, 1e-9);
        EXPECT_NEAR(tuned.chosen, b.at(key).chosen, 1e-9);
    }
}

TEST_F(TunerTest, FilesComeBack) {
    const auto path = folder / "new folder" / "tuning.txt";
    const gpu::TuningFile a(path, gpu::TextKey::of("a")), b(path, gpu::TextKey::of("b"));
    EXPECT_TRUE(a.load().empty());
    a.add(some_choices(0, 20));
    expect_equal(a.load(), some_choices(0, 20));
    EXPECT_TRUE(b.load().empty());
    b.add(some_choices(5, 8));
    a.add(some_choices(18, 30));
    expect_equal(a.load(), some_choices(0, 30));
    expect_equal(b.load(), some_choices(5, 8));
    // Nowhere to keep it, or a place that cannot be written to.
    for (const std::filesystem::path nowhere : {"", "/proc/pippin/tuning.txt"}) {
        const gpu::TuningFile none(nowhere, gpu::TextKey::of("a"));
        none.add(some_choices(0, 2));
        EXPECT_TRUE(none.load().empty());
    }
}

TEST_F(TunerTest, DamagedFilesLoseWhatIsDamaged) {
    const auto path = folder / "tuning.txt";
    const gpu::TuningFile file(path, gpu::TextKey::of("a"));
    const auto all = some_choices(0, 12);
    file.add(all);
    const std::string good = test::read_text(path);
    // One letter of one line.
    for (std::size_t at = 30; at < good.size(); at += 37) {
        std::string bad = good;
        bad[at] = bad[at] == 'x' ? 'y' : 'x';
        test::write_text(path, bad);
        const auto left = file.load();
        EXPECT_GE(left.size(), all.size() - 2) << at;  // a line's end may join two
        for (const auto& [key, tuned] : left)
            EXPECT_EQ(tuned.choice, all.at(key).choice) << at;
    }
    // Cut short, of another version, and something else altogether: read as far as it goes, then
    // written anew.
    for (const std::string& bad :
         {good.substr(0, good.size() / 2), "pippin tuning 0\n" + good.substr(16),
          std::string(100000, '\xff'), std::string("pippin tuning 1\n\n \n      \n"),
          std::string()}) {
        test::write_text(path, bad);
        EXPECT_LT(file.load().size(), all.size());
        file.add(all);
        expect_equal(file.load(), all);
    }
}

TEST_F(TunerTest, FilesAreBounded) {
    const auto path = folder / "tuning.txt";
    constexpr int most = static_cast<int>(gpu::TuningFile::kMostLines);
    const gpu::TuningFile old(path, gpu::TextKey::of("old")), file(path, gpu::TextKey::of("new"));
    old.add(some_choices(0, 100));
    file.add(some_choices(0, most - 10));
    EXPECT_EQ(old.load().size(), 10u);
    file.add(some_choices(most - 10, most + 10));
    EXPECT_TRUE(old.load().empty());
    EXPECT_EQ(file.load().size(), gpu::TuningFile::kMostLines);
    EXPECT_LT(std::filesystem::file_size(path), gpu::TuningFile::kMostBytes);
    // The newest stay.
    for (const auto& [key, tuned] : some_choices(most - 10, most + 10))
        EXPECT_TRUE(file.load().contains(key));
}

TEST_F(TunerTest, ManyWritersLoseNothing) {
    const auto path = folder / "tuning.txt";
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            const gpu::TuningFile file(path, gpu::TextKey::of("a"));
            for (int k = 0; k < 5; ++k)
                file.add(some_choices(100 * t + 10 * k, 100 * t + 10 * k + 10));
        });
    for (auto& t : threads)
        t.join();
    auto all = some_choices(0, 50);
    for (int t = 1; t < 4; ++t)
        all.merge(some_choices(100 * t, 100 * t + 50));
    expect_equal(gpu::TuningFile(path, gpu::TextKey::of("a")).load(), all);
}

TEST_F(TunerTest, ChoicesAsText) {
    for (int k = 0; k < 30; ++k) {
        const LaunchChoice c = some_choice(k).choice;
        const auto back = LaunchChoice::parse(c.str());
        ASSERT_TRUE(back) << c.str();
        EXPECT_EQ(*back, c);
    }
    for (const char* bad : {"", "fast", "default,1x2x3:0/0", "default,1x2x3x4:0/", "default,,",
                            "product,1x2x3x4:-2/0", "product,1x2x3x4:0/-1",
                            "product,1x2x3x99999999999999999999:0/0", "default,1x2x3x4:0/0x"})
        EXPECT_FALSE(LaunchChoice::parse(bad)) << bad;
}

}  // namespace
}  // namespace pippin::gpu_test
