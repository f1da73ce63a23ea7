// Profiles of small programs: what they count, and the traces they write.
#include "pippin/profiler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "cli/process.h"
#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "pippin/accelerator.h"
#include "pippin/data.h"
#include "pippin/pippin.h"
#include "profile/trace_file.h"

namespace pippin {
namespace {

const ProfileRow* row(const ProfileTable& t, const std::string& name) {
    for (const ProfileRow& r : t.rows)
        if (r.name == name) return &r;
    return nullptr;
}

// Before anything asks for devices.
[[maybe_unused]] const bool allowed = [] {
    setenv("PIPPIN_ALLOW_SOFTWARE_GPU", "1", 1);
    setenv("PIPPIN_DEVICE", "cpu", 1);  // a real GPU would be the default
    setenv("PIPPIN_CACHE_DIR", "", 1);
    return true;
}();

struct Net {
    nn::Sequential model{{nn::make<nn::Conv2d>(3, 8, nn::Conv2d::Args{.kernel = 3}),
                          nn::make<nn::ReLU>(), nn::make<nn::Flatten>(),
                          nn::make<nn::Linear>(8 * 6 * 6, 4)}};
    optim::SGD optimizer{model.parameters(), {.lr = 0.1}};
    Tensor x = ones({2, 3, 8, 8}), y = zeros({2}, int64);

    void step() {
        const Tensor loss = cross_entropy(model(x), y);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
    }
};

TEST(Profile, CountsLaunchesWithTheirBytesAndFlops) {
    const Tensor a = ones({64, 32}), b = ones({32, 16});
    synchronize();
    const std::int64_t before = stats().launches;
    Profile p;
    for (int i = 0; i < 3; ++i) {
        const Tensor c = matmul(a, b);
        flush();
    }
    p.stop();
    const ProfileTable t = p.key_averages();
    const ProfileRow* r = row(t, "matmul");
    ASSERT_NE(r, nullptr) << t.str();
    EXPECT_TRUE(r->launch);
    EXPECT_EQ(r->kind, "matmul");
    EXPECT_EQ(r->count, 3);
    EXPECT_EQ(r->flops, 3 * 2 * 64 * 32 * 16);
    EXPECT_EQ(r->bytes, 3 * 4 * (64 * 32 + 32 * 16 + 64 * 16));
    EXPECT_GT(r->total_ms, 0);
    EXPECT_LE(r->total_ms, t.launch_ms);
    EXPECT_LE(t.launch_ms, t.wall_ms);
    EXPECT_NEAR(r->gflop_per_s(), static_cast<double>(r->flops) / (r->total_ms * 1e6), 1e-9);
    EXPECT_NEAR(r->gb_per_s(), static_cast<double>(r->bytes) / (r->total_ms * 1e6), 1e-9);
    std::int64_t launches = 0;
    double share = 0;
    for (const ProfileRow& x : t.rows)
        if (x.launch) launches += x.count, share += x.share;
    EXPECT_EQ(launches, stats().launches - before);
    EXPECT_NEAR(share, 1, 1e-9);
    EXPECT_NE(t.str().find("matmul"), std::string::npos);
}

TEST(Profile, CountsNothingAfterStopNorBeforeStart) {
    const Tensor a = ones({16, 16});
    Tensor c = matmul(a, a);
    flush();
    Profile p;
    p.stop();
    c = matmul(a, a);
    synchronize();
    EXPECT_EQ(p.key_averages().launch_ms, 0);
    EXPECT_EQ(row(p.key_averages(), "matmul"), nullptr);
}

TEST(Profile, GroupsByShapes) {
    const Tensor a = ones({8, 8}), b = ones({8, 4});
    flush();
    Profile p;
    const Tensor c = matmul(a, a), d = matmul(a, b);
    flush();
    p.stop();
    EXPECT_EQ(row(p.key_averages(), "matmul")->count, 2);
    std::vector<std::string> shapes;
    const ProfileTable by_shape = p.key_averages(true);
    for (const ProfileRow& r : by_shape.rows)
        if (r.name == "matmul") shapes.push_back(r.shapes);
    std::sort(shapes.begin(), shapes.end());
    EXPECT_EQ(shapes,
              (std::vector<std::string>{"[8, 8] [8, 4] -> [8, 4]", "[8, 8] [8, 8] -> [8, 8]"}));
}

TEST(Profile, SeveralRecordAtTheSameTime) {
    const Tensor a = ones({8, 8});
    flush();
    Profile outer;
    Tensor c = matmul(a, a);
    flush();
    Profile inner;
    c = matmul(a, a);
    flush();
    inner.stop();
    outer.stop();
    EXPECT_EQ(row(inner.key_averages(), "matmul")->count, 1);
    EXPECT_EQ(row(outer.key_averages(), "matmul")->count, 2);
}

TEST(Profile, TraceOfATrainingStep) {
    const test::TempFolder folder;
    const auto file = folder.path() / "trace.json";
    Net net;
    Profile p({.trace = file});
    for (int i = 0; i < 2; ++i) {
        const auto range = record_function("my \"step\"");
        net.step();
    }
    p.stop();
    const test::TraceFile t(file);
    EXPECT_EQ(t.all.at("otherData").at("dropped_events"), 0);
    std::set<std::string> kinds;
    for (const auto& e : t.of_category("launch")) {
        EXPECT_EQ(t.thread_of(e), "cpu queue");
        const auto& args = e.at("args");
        kinds.insert(args.at("kind"));
        EXPECT_FALSE(args.at("shapes").get<std::string>().empty());
        EXPECT_GT(args.at("bytes").get<double>(), 0) << e;
        // GB/s from the same bytes and time, to the two digits that are written.
        const double ns = std::max(1.0, e.at("dur").get<double>() * 1e3);
        EXPECT_NEAR(args.at("GB/s").get<double>(), args.at("bytes").get<double>() / ns, 0.006) << e;
        EXPECT_NEAR(args.at("GFLOP/s").get<double>(), args.at("flops").get<double>() / ns, 0.006);
        bool in_a_run = false;
        for (const auto& run : t.named("run plan"))
            in_a_run |= test::TraceFile::encloses(run, e);
        EXPECT_TRUE(in_a_run) << e;
    }
    EXPECT_TRUE(kinds.contains("conv") && kinds.contains("matmul") && kinds.contains("map"));
    // Where launches come from: the module that made the op, the line that called the model.
    std::set<std::string> sites;
    for (const auto& e : t.of_category("launch"))
        sites.insert(e.at("args").value("site", ""));
    const auto from = [&](const std::string& part) {
        return std::any_of(sites.begin(), sites.end(),
                           [&](auto& s) { return s.find(part) != std::string::npos; });
    };
    EXPECT_TRUE(from("0 at profile_test.cpp:") && from("3 at profile_test.cpp:"));
    EXPECT_TRUE(from("optimizer.step"));
    const auto steps = t.named("my \"step\"");
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_EQ(steps[0].at("cat"), "user");
    for (const char* name : {"backward", "optimizer.step", "flush", "trace", "submit", "Conv2d"}) {
        const auto found = t.named(name);
        ASSERT_GE(found.size(), 2u) << name;
        EXPECT_TRUE(test::TraceFile::encloses(steps[0], found[0])) << name;
    }
    for (const auto& c : t.named("compile"))
        EXPECT_EQ(t.thread_of(c), t.thread_of(steps[0]));
    ASSERT_FALSE(t.named("make plan").empty());
    EXPECT_TRUE(test::TraceFile::encloses(t.named("compile")[0], t.named("make plan")[0]));
}

TEST(Profile, OfAnAcceleratorEndsWithItsLife) {
    const test::TempFolder folder;
    const auto file = folder.path() / "trace.json";
    const Accelerator accelerator({.cpu = true, .quiet = true, .handle_signals = false});
    Net net;
    {
        const Profile p = accelerator.profile({.trace = file});
        net.step();
    }
    EXPECT_FALSE(test::TraceFile(file).of_category("launch").empty());
}

TEST(Profile, MovesAndIsReplaced) {
    const test::TempFolder folder;
    Profile p({.trace = folder.path() / "first.json"});
    { const auto range = record_function("one"); }
    p = profile({.trace = folder.path() / "second.json"});  // stops and writes the first
    { const auto range = record_function("two"); }
    const Profile q = std::move(p);
    EXPECT_EQ(test::TraceFile(folder.path() / "first.json").of_category("user").size(), 1u);
    EXPECT_EQ(row(q.key_averages(), "one"), nullptr);
    EXPECT_EQ(row(q.key_averages(), "two")->count, 1);
}

TEST(Profile, ShowsTheLoaderBesideTheStep) {
    class Numbers : public data::Dataset {
      public:
        std::int64_t size() const override { return 16; }
        data::Example load(std::int64_t i, data::Draws) const override {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            data::Array x(float32, {4});
            for (int k = 0; k < 4; ++k)
                x.data<float>()[k] = static_cast<float>(i);
            return {std::move(x), data::Array::scalar(i)};
        }
    };
    const test::TempFolder folder;
    const auto file = folder.path() / "trace.json";
    {
        data::DataLoader loader(std::make_shared<Numbers>(), {.batch_size = 4, .workers = 1});
        Profile p({.trace = file});
        for (const auto& batch : loader)
            (void)batch.data.sum().item<float>();
    }
    const test::TraceFile t(file);
    const auto loads = t.named("load a batch"), waits = t.named("wait for a batch");
    EXPECT_EQ(loads.size(), 4u);
    EXPECT_EQ(waits.size(), 4u);
    EXPECT_EQ(t.named("batch to tensors").size(), 4u);
    EXPECT_EQ(t.thread_of(loads[0]), "loader worker");
    EXPECT_NE(t.thread_of(waits[0]), "loader worker");
    // 4 samples of a millisecond each, and the program waits for the first batch at least.
    EXPECT_GE(loads[0].at("dur").get<double>(), 4000);
    EXPECT_GE(waits[0].at("dur").get<double>(), 1000);
}

TEST(Profile, KeepsGoingWhenALaunchFails) {
    const Tensor table = ones({4, 2}), index = full({1}, 9, int64);
    flush();
    Profile p;
    const Tensor bad = index_select(table, 0, index);
    flush();
    p.stop();  // leaves the error to whoever reads the result
    EXPECT_ERROR(bad.to_vector<float>(), IndexError, "9");
    EXPECT_FALSE(p.key_averages().rows.empty());
}

TEST(Profile, NamesThatAreNotTextAreWrittenAllTheSame) {
    const test::TempFolder folder;
    Profile p;
    { const auto range = record_function("\xff\n\\"); }
    p.export_chrome_trace(folder.path() / "t.json");
    const test::TraceFile t(folder.path() / "t.json");
    EXPECT_EQ(t.of_category("user").size(), 1u);
}

TEST(Profile, SaysWhereItCannotWrite) {
    EXPECT_ERROR(Profile({.trace = "/no/folder/t.json"}), FileError, "/no/folder");
    const test::TempFolder folder;
    Profile p({.trace = folder.path()});  // a folder, not a file
    EXPECT_ERROR(p.stop(), FileError, "is a folder");
    p.stop();  // it has stopped nevertheless
}

TEST(Profile, ThreadsRecordAtOnce) {
    Profile p;
    std::vector<std::thread> threads;
    for (int k = 0; k < 4; ++k)
        threads.emplace_back([] {
            for (int i = 0; i < 100; ++i)
                const auto range = record_function("tick");
        });
    for (int i = 0; i < 50; ++i)
        (void)p.key_averages();
    for (auto& t : threads)
        t.join();
    EXPECT_EQ(row(p.key_averages(), "tick")->count, 400);
}

// The same step on a GPU, whose launches the device times itself.
TEST(Profile, TakesADevicesTimestamps) {
    const Device gpu(Device::Type::GPU);
    try {
        set_default_device(gpu);
    } catch (const DeviceError& e) {
        GTEST_SKIP() << e.what();
    }
    const test::TempFolder folder;
    const auto file = folder.path() / "trace.json";
    {
        const Tensor a = ones({32, 32});
        const auto step = [&] {
            const Tensor sums = (matmul(a, a) * 2).sum({1});
            flush();
        };
        step();  // its commands are recorded without timestamps
        synchronize();
        Profile p({.trace = file});
        const std::int64_t before = stats().launches;
        for (int i = 0; i < 2; ++i)
            step();
        p.stop();
        std::int64_t launches = 0;
        const ProfileTable t = p.key_averages();
        for (const ProfileRow& r : t.rows)
            if (r.launch) launches += r.count;
        EXPECT_EQ(launches, stats().launches - before) << t.str();
        EXPECT_LE(t.launch_ms, t.wall_ms);
        step();  // and once more without
    }
    set_default_device(Device::Type::CPU);
    const test::TraceFile t(file);
    const auto runs = t.named("run plan");
    const auto launches = t.of_category("launch");
    ASSERT_GE(runs.size(), 2u);
    std::size_t on_device = 0;
    for (const auto& e : launches) {
        if (t.thread_of(e) != "launches") continue;
        ++on_device;
        EXPECT_NE(t.processes.at(e.at("pid")), "host");
        // On the host's clock: not before the run was begun, nor after the profile's end.
        EXPECT_GE(test::TraceFile::begin(e), test::TraceFile::begin(runs[0]) - 1) << e;
    }
    EXPECT_GE(on_device, 4u);
    EXPECT_GE(test::TraceFile::end(launches.back()), test::TraceFile::begin(runs.back()));
}

// Launches that the processor runs for a GPU, first, last and one behind another: there is nothing
// of the device's to time between them.
TEST(Profile, LaunchesThatTheProcessorRunsForAGpu) {
    try {
        set_default_device(Device(Device::Type::GPU));
    } catch (const DeviceError& e) {
        GTEST_SKIP() << e.what();
    }
    {
        const Tensor a = ones({4}), b = ones({4, 4}).to(float64);
        synchronize();
        Profile p;
        const Tensor first = matmul(b, b), second = matmul(first, b);
        const Tensor last = matmul((second.to(float32) + a).to(float64), b);
        EXPECT_EQ(last.to_vector<double>(), std::vector<double>(16, 68));
        p.stop();
        EXPECT_GE(stats().fallbacks, 2);
    }
    set_default_device(Device::Type::CPU);
}

// --- PIPPIN_PROFILE, by running a test of this very program ---

test::Outcome run_self(const std::string& environment, const std::string& one_test) {
    return test::shell(environment + " " + PIPPIN_BUILD_DIR +
                       "/tests/test_profile --gtest_filter=" + one_test);
}

TEST(ProfileOfAProgram, IsWrittenWhenItEnds) {
    const test::TempFolder folder;
    const auto file = folder.path() / "trace.json";
    const auto out =
        run_self("PIPPIN_PROFILE=" + file.string(), "Profile.CountsLaunchesWithTheirBytesAndFlops");
    ASSERT_EQ(out.code, 0) << out.output;
    const test::TraceFile t(file);
    EXPECT_EQ(t.named("matmul").size(), 3u);
    bool main = false;
    for (const auto& [key, name] : t.threads)
        main |= name == "main";
    EXPECT_TRUE(main);
}

TEST(ProfileOfAProgram, NamesTheProcess) {
    const test::TempFolder folder;
    const auto out = run_self("PIPPIN_PROFILE=" + (folder.path() / "t-%p.json").string(),
                              "Profile.GroupsByShapes");
    ASSERT_EQ(out.code, 0) << out.output;
    const std::filesystem::directory_iterator found(folder.path());
    const std::string name = found->path().filename().string();
    EXPECT_EQ(name.find('%'), std::string::npos) << name;
    EXPECT_FALSE(test::TraceFile(found->path()).of_category("launch").empty());
}

TEST(ProfileOfAProgram, IsNotWrittenWhereNothingRan) {
    const test::TempFolder folder;
    const auto file = folder.path() / "trace.json";
    ASSERT_EQ(run_self("PIPPIN_PROFILE=" + file.string(), "None").code, 0);
    EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(ProfileOfAProgram, SaysAtOnceWhereItCannotWrite) {
    const auto out = run_self("PIPPIN_PROFILE=/no/folder/t.json", "Profile.GroupsByShapes");
    EXPECT_EQ(out.code, 0) << out.output;  // the program's work is worth more
    EXPECT_EQ(out.output.rfind("pippin: warning: PIPPIN_PROFILE", 0), 0u) << out.output;
}

TEST(FlushProfile, NeedsTheVariable) {
    if (!std::getenv("PIPPIN_PROFILE")) {
        EXPECT_FALSE(flush_profile());
    }
}

}  // namespace
}  // namespace pippin
