// Ways of launches on a GPU made of fibers: all ways of many launches agree, and those that are
// made to be wrong are found out.
#include "backends/gpu/trial.h"

#include <algorithm>
#include <map>

#include "gpu/attention_testing.h"
#include "gpu/heavy_testing.h"
#include "gpu/machine.h"
#ifdef PIPPIN_HAS_VULKAN
#include "backends/vulkan/compiler.h"
#endif

namespace pippin::gpu_test {
namespace {

namespace ops = graph::ops;
using gpu::LaunchChoice;
using gpu::Trial;
using heavy_test::random_data;

class FiberBench : public gpu::Bench {
  public:
    const gpu::Work* standard = nullptr;

    std::int64_t most_bytes() const override { return std::int64_t{1} << 30; }
    bool is_brief(double, double) const override { return true; }
    bool reserve(std::int64_t bytes) override {
        memory_.resize(static_cast<std::size_t>(bytes) / 8 + 8);
        return true;
    }
    std::vector<std::string> prepare(std::span<const gpu::Work* const> works) override {
        std::vector<gpu::KernelSource> kernels;
        for (const gpu::Work* w : works) {
            first_[w] = static_cast<std::int32_t>(kernels.size());
            kernels.insert(kernels.end(), w->kernels.begin(), w->kernels.end());
        }
#ifdef PIPPIN_HAS_VULKAN
        for (const auto& k : kernels)
            EXPECT_FALSE(vulkan::compile_glsl(gpu::render_glsl(k, {.native_half = true})).empty());
#endif
        machine_ = std::make_unique<Machine>(kernels);
        return std::vector<std::string>(works.size());
    }
    double run(const gpu::Work& work, std::span<const std::int64_t> slots, std::int64_t scratch,
               int times) override {
        const auto base =
            static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(memory_.data()));
        for (int t = 0; t < times; ++t)
            for (const gpu::Dispatch& d : work.steps[0].dispatches) {
                std::vector<std::uint64_t> args;
                for (const gpu::Arg& a : d.args) {
                    auto v = static_cast<std::uint64_t>(a.value);
                    if (a.kind == gpu::Arg::Kind::Slot)
                        v += base +
                             static_cast<std::uint64_t>(slots[static_cast<std::size_t>(a.index)]);
                    if (a.kind == gpu::Arg::Kind::Scratch)
                        v += base + static_cast<std::uint64_t>(scratch);
                    args.push_back(v);
                }
                machine_->run(first_.at(&work) + d.kernel,
                              work.kernels[static_cast<std::size_t>(d.kernel)].threads, d.groups,
                              args.data());
            }
        // Ways are checked, and then so far behind the default that they are not run again.
        return (&work == standard ? 0.01 : 1.0) * times;
    }
    void read(void* to, std::int64_t from, std::int64_t bytes) override {
        std::memcpy(to, reinterpret_cast<const std::byte*>(memory_.data()) + from,
                    static_cast<std::size_t>(bytes));
    }
    void keep(const gpu::Work&) override {}
    void forget() override {}
    void release() override {}

  private:
    std::vector<std::uint64_t> memory_;
    std::unique_ptr<Machine> machine_;
    std::map<const gpu::Work*, std::int32_t> first_;
};

gpu::Features features() {
    gpu::Features f;
    f.large_tiles = f.matrices = true;
    f.shared_bytes = 49152;
    f.parallel_groups = 4;
    f.winograd_tiles = f.winograd_channels = 8;
    f.tile_bytes = 1 << 19;
    return f;
}

heavy_test::Trial conv(const graph::OpRecord& op, std::initializer_list<std::int64_t> attrs,
                       const Shape& a, const Shape& b) {
    heavy_test::Trial t;
    t.op = &op;
    for (const auto v : attrs)
        t.attrs.i.push_back(v);
    const bool weight = &op == &ops::kConv2dGradWeight;
    t.inputs = {random_data(DType::Float32, a, plan::Order::ChannelsLast, 1),
                random_data(DType::Float32, b,
                            weight ? plan::Order::ChannelsLast : plan::Order::RowMajor, 2)};
    t.order = weight ? plan::Order::RowMajor : plan::Order::ChannelsLast;
    return t;
}

TEST(Trials, AllWaysAgree) {
    std::vector<heavy_test::Trial> launches;
    // Sizes that end within tiles.
    launches.push_back(product(61, 132, 25, DType::Float32, true, false));
    launches.push_back(product(72, 136, 40, DType::Float16, false, false));
    launches.back().bias = random_data(DType::Float16, {136}, plan::Order::RowMajor, 3);
    launches.push_back(conv(ops::kConv2d, {1, 1, 1, 1, 1, 1, 1}, {2, 12, 9, 8}, {14, 12, 3, 3}));
    launches.back().residual =
        random_data(DType::Float32, {2, 14, 9, 8}, plan::Order::ChannelsLast, 4);
    launches.push_back(
        conv(ops::kConv2dGradInput, {1, 1, 0, 0, 1, 1, 1, 9, 8}, {2, 12, 7, 6}, {12, 10, 3, 3}));
    launches.push_back(
        conv(ops::kConv2dGradWeight, {1, 1, 1, 1, 1, 1, 1, 3, 3}, {2, 10, 9, 7}, {2, 12, 9, 7}));
    launches.push_back(attention_trial({3, 1, 33, 40, 16, 24, true, 'b', 0.2, true}));

    FiberBench bench;
    std::deque<Trial> trials;
    std::vector<const gpu::Work*> works;
    std::size_t tiles = 0;
    for (const auto& l : launches) {
        Trial& t = trials.emplace_back(trial_plan(l).plan, 0, features());
        EXPECT_GT(t.branch(0), 0u) << l.op->name;
        EXPECT_EQ(t.branch(0), 0u) << l.op->name;  // all of them are there
        if (l.op == &ops::kMatmul) {               // any tile, some with split sums
            const gpu::ProductShape shape = t.ways()[0].work.steps[0].taken.products[0].shape;
            for (int tile = 0; tile < 120; ++tile) {
                LaunchChoice c;
                c.set(shape, {tile, tile % 3});
                tiles += t.add(c);
            }
        }
        const auto own = t.works(0);
        works.insert(works.end(), own.begin(), own.end());
    }
    EXPECT_GE(tiles, 15u);
    for (const std::string& error : bench.prepare(works))
        EXPECT_EQ(error, "");
    for (std::size_t n = 0; n < trials.size(); ++n) {
        bench.standard = &trials[n].ways()[0].work;
        EXPECT_TRUE(trials[n].measure(bench, 1)) << launches[n].op->name << n;
        for (const Trial::Way& w : trials[n].ways())
            EXPECT_EQ(w.fault, "") << launches[n].op->name << n << " " << w.choice.str();
    }
}

TEST(Trials, WrongResultsAreFound) {
    const heavy_test::Trial launch = product(70, 64, 44, DType::Float32, false, true);
    Trial t(trial_plan(launch).plan, 0, features());
    for (const int tile : {0, 1, 4, 5, 8}) {
        LaunchChoice c;
        c.set({1, 70, 64, 44}, {tile, 1});
        ASSERT_TRUE(t.add(c)) << tile;
    }
    const auto spoil = [&](std::size_t way, const std::string& what) {
        for (gpu::KernelSource& k : t.ways()[way].work.kernels) {
            const std::string head = "int m, int n, float x) {\n";
            const std::size_t at = k.functions.find(head);
            ASSERT_NE(at, std::string::npos);
            // Both stores: of one element, and of four.
            k.functions.insert(at + head.size(), what);
            const std::string four = "int m, int n, F4 x) {\n";
            if (const std::size_t q = k.functions.find(four); q != std::string::npos)
                k.functions.insert(q + four.size(), what);
        }
    };
    spoil(1, "if (m == 69) return;\n");                     // a row is left out
    spoil(2, "if (m == 3) b = 1;\nm = m == 3 ? 4 : m;\n");  // two rows mixed up
    for (gpu::KernelSource& k : t.ways()[5].work.kernels) {
        const std::size_t at = k.body.find("bias0 = bias_at");
        ASSERT_NE(at, std::string::npos);
        k.body.insert(at, "c0_0 = AS_FLOAT(0x7fc00000u);\n");
    }
    for (gpu::KernelSource& k : t.ways()[4].work.kernels)  // a sum that ends too early
        if (const std::size_t at = k.body.find("int k_end = 44"); at != std::string::npos)
            k.body.replace(at, 14, "int k_end = 39");
    FiberBench bench;
    const auto works = t.works(0);
    bench.prepare(works);
    ASSERT_TRUE(t.measure(bench, 1));
    EXPECT_NE(t.ways()[1].fault.find("off by"), std::string::npos) << t.ways()[1].fault;
    EXPECT_NE(t.ways()[2].fault.find("off by"), std::string::npos) << t.ways()[2].fault;
    EXPECT_EQ(t.ways()[3].fault, "");
    EXPECT_NE(t.ways()[5].fault.find("not finite"), std::string::npos) << t.ways()[5].fault;
    EXPECT_NE(t.ways()[4].fault.find("off by"), std::string::npos) << t.ways()[4].fault;
    EXPECT_EQ(t.best(0.05), 0u);

    // A default that is not finite can judge nothing.
    Trial odd(trial_plan(launch).plan, 0, features());
    for (gpu::KernelSource& k : odd.ways()[0].work.kernels)
        k.body.insert(k.body.find("bias0 = bias_at"), "c0_0 = AS_FLOAT(0x7f800000u);\n");
    bench.prepare(odd.works(0));
    EXPECT_FALSE(odd.measure(bench, 1));
}

// A residual that the result is written over is there again for each way.
TEST(Trials, ResultsInPlace) {
    heavy_test::Trial launch = product(60, 64, 40, DType::Float32, false, false);
    launch.residual = random_data(DType::Float32, {60, 64}, plan::Order::RowMajor, 3);
    plan::Plan plan = trial_plan(launch).plan;
    plan::HeavyLaunch& h = *plan.launches[0].heavy;
    h.output.slot = h.operands[static_cast<std::size_t>(h.epilogue.residual)].slot;
    Trial t(plan, 0, features());
    ASSERT_GE(t.branch(0), 1u);
    FiberBench bench;
    const auto works = t.works(0);
    bench.prepare(works);
    ASSERT_TRUE(t.measure(bench, 1));
    for (const Trial::Way& w : t.ways())
        EXPECT_EQ(w.fault, "") << w.choice.str();
}

}  // namespace
}  // namespace pippin::gpu_test
