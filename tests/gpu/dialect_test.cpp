// Every kind of kernel through a second dialect: plain C++, run by the processor with a fiber for
// each thread of a group. What passes here owes nothing to GLSL or Vulkan.
#include <gtest/gtest.h>

#include <cstring>

#include "backends/gpu/work.h"
#ifdef PIPPIN_HAS_VULKAN
#include "backends/vulkan/compiler.h"
#endif
#include "gpu/attention_testing.h"
#include "gpu/heavy_testing.h"
#include "gpu/machine.h"
#include "graph/ops/records_order.h"
#include "programs/random_program.h"

namespace pippin::gpu_test {
namespace {

using namespace programs;
namespace ops = graph::ops;

struct Job {
    gpu::Work work;
    std::vector<Buffer> buffers;
    std::vector<std::uint64_t> scalars;
    std::size_t first_kernel = 0;

    void run(Machine& machine) {
        std::vector<std::byte> scratch(static_cast<std::size_t>(work.scratch_bytes) + 64);
        std::vector<std::uint64_t> error(
            static_cast<std::size_t>(gpu::error_bytes(work.checks.size()) / 8));
        const auto address = [](const void* p) {
            return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(p));
        };
        const auto run_one = [&](const gpu::Dispatch& d) {
            std::vector<std::uint64_t> args;
            for (const gpu::Arg& a : d.args) {
                auto v = static_cast<std::uint64_t>(a.value);
                if (a.kind == gpu::Arg::Kind::Slot)
                    v += address(buffers[static_cast<std::size_t>(a.index)].data());
                else if (a.kind == gpu::Arg::Kind::Scratch)
                    v += address(scratch.data());
                else if (a.kind == gpu::Arg::Kind::Error)
                    v = address(error.data());
                else if (a.kind == gpu::Arg::Kind::Scalar)
                    v = gpu::scalar_bits(scalars[static_cast<std::size_t>(a.index)], a.dtype);
                args.push_back(v);
            }
            const auto& kernel = work.kernels[static_cast<std::size_t>(d.kernel)];
            machine.run(static_cast<std::int32_t>(first_kernel) + d.kernel, kernel.threads,
                        d.groups, args.data());
        };
        // What need not wait may come in any order: the last comes first here.
        std::vector<const gpu::Dispatch*> side_by_side;
        const auto run_all = [&] {
            for (; !side_by_side.empty(); side_by_side.pop_back())
                run_one(*side_by_side.back());
        };
        for (const gpu::Work::Turn& turn : work.order) {
            const gpu::Step& s = work.steps[static_cast<std::size_t>(turn.step)];
            ASSERT_FALSE(s.on_cpu) << s.why;
            const gpu::Dispatch& d = s.dispatches[static_cast<std::size_t>(turn.dispatch)];
            if (d.waits) run_all();
            side_by_side.push_back(&d);
        }
        run_all();
        EXPECT_EQ(error[0], 0u);
    }
};

TEST(Dialects, PlainCppGivesTheSameNumbers) {
    gpu::Features features;
    features.large_tiles = features.matrices = true;
    features.shared_bytes = 49152;
    features.parallel_groups = 4;
    features.winograd_tiles = features.winograd_channels = 8;
    features.tile_bytes = 100000;  // batches in parts, sequences of both kinds
    std::vector<gpu::KernelSource> kernels;
    std::vector<Job> jobs;
    std::vector<plan::Program> programs;
    std::vector<std::vector<Buffer>> before;
    std::vector<std::vector<std::size_t>> places;
    const auto add = [&](const plan::Plan& plan, std::vector<Buffer> buffers,
                         std::vector<std::uint64_t> scalars) {
        Job j;
        j.work = gpu::make_work(plan, features);
        j.buffers = std::move(buffers);
        j.scalars = std::move(scalars);
        j.first_kernel = kernels.size();
        kernels.insert(kernels.end(), j.work.kernels.begin(), j.work.kernels.end());
        jobs.push_back(std::move(j));
    };
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
        Generator g(seed, false);
        programs.push_back(g.program());
        const plan::Program& p = programs.back();
        before.push_back(g.buffers(p));
        places.emplace_back(p.accesses.size());
        for (std::size_t a = 0; a < p.accesses.size(); ++a)
            places.back()[a] =
                p.accesses[a].alias_of >= 0 ? static_cast<std::size_t>(p.accesses[a].alias_of) : a;
        add(program_plan(p, before.back(), places.back()), before.back(), g.scalars());
    }
    std::vector<heavy_test::Trial> trials;
    using heavy_test::random_data;
    const auto conv = [&](const graph::OpRecord& op, std::initializer_list<std::int64_t> attrs,
                          const Shape& a, const Shape& b, DType dtype = DType::Float32) {
        heavy_test::Trial t;
        t.op = &op;
        for (const auto v : attrs)
            t.attrs.i.push_back(v);
        t.inputs = {random_data(dtype, a, plan::Order::ChannelsLast, 1),
                    random_data(dtype, b,
                                &op == &ops::kConv2dGradWeight ? plan::Order::ChannelsLast
                                                               : plan::Order::RowMajor,
                                2)};
        t.order =
            &op == &ops::kConv2dGradWeight ? plan::Order::RowMajor : plan::Order::ChannelsLast;
        trials.push_back(std::move(t));
    };
    conv(ops::kConv2d, {2, 2, 1, 1, 1, 1, 1}, {2, 3, 9, 8}, {70, 3, 3, 3});
    conv(ops::kConv2d, {1, 1, 1, 1, 1, 1, 4}, {2, 4, 9, 8}, {4, 1, 3, 3});
    conv(ops::kConv2dGradInput, {2, 2, 1, 1, 1, 1, 1, 9, 8}, {2, 70, 5, 4}, {70, 3, 3, 3});
    conv(ops::kConv2dGradWeight, {2, 2, 1, 1, 1, 1, 1, 3, 3}, {2, 3, 33, 32}, {2, 6, 17, 16});
    // Gradients through strides, phase by phase: with fewer taps than strides, of odd sizes, with
    // channels that make no quads, with paddings; on matrix units.
    conv(ops::kConv2dGradInput, {2, 3, 1, 2, 1, 1, 1, 11, 13}, {2, 20, 6, 5}, {20, 36, 3, 4});
    conv(ops::kConv2dGradInput, {2, 2, 0, 0, 1, 1, 1, 9, 8}, {2, 40, 5, 4}, {40, 24, 1, 1});
    conv(ops::kConv2dGradInput, {4, 1, 0, 1, 1, 1, 1, 10, 8}, {2, 33, 3, 8}, {33, 19, 2, 3});
    conv(ops::kConv2dGradInput, {2, 2, 3, 3, 1, 1, 1, 14, 14}, {1, 48, 7, 7}, {48, 18, 7, 7},
         DType::Float16);
    // Few pixels: stores of whole rows of weights.
    conv(ops::kConv2dGradWeight, {1, 1, 1, 1, 1, 1, 1, 3, 3}, {1, 40, 5, 4}, {1, 70, 5, 4});
    conv(ops::kConv2dGradWeight, {2, 2, 1, 1, 1, 1, 2, 3, 3}, {2, 6, 9, 9}, {2, 10, 5, 5});
    // By Winograd's algorithm: maps of odd sizes, an epilogue, parts of a batch.
    conv(ops::kConv2d, {1, 1, 1, 1, 1, 1, 1}, {3, 20, 9, 8}, {24, 20, 3, 3});
    trials.back().bias = random_data(DType::Float32, {24}, plan::Order::RowMajor, 3);
    trials.back().residual =
        random_data(DType::Float32, {3, 24, 9, 8}, plan::Order::ChannelsLast, 4);
    trials.back().activation = plan::Activation::Relu;
    conv(ops::kConv2dGradInput, {1, 1, 0, 0, 1, 1, 1, 9, 8}, {3, 24, 7, 6}, {24, 20, 3, 3});
    conv(ops::kConv2dGradWeight, {1, 1, 1, 1, 1, 1, 1, 3, 3}, {3, 20, 9, 7}, {3, 24, 9, 7});
    // On matrix units: octets of channels and single elements, with an epilogue.
    conv(ops::kConv2d, {2, 2, 1, 1, 1, 1, 1}, {2, 16, 9, 8}, {72, 16, 3, 3}, DType::Float16);
    trials.back().bias = random_data(DType::Float16, {72}, plan::Order::RowMajor, 3);
    trials.back().residual =
        random_data(DType::Float16, {2, 72, 5, 4}, plan::Order::ChannelsLast, 4);
    trials.back().activation = plan::Activation::Relu;
    conv(ops::kConv2d, {1, 1, 0, 0, 1, 1, 2}, {2, 16, 9, 8}, {32, 8, 1, 1}, DType::Float16);
    conv(ops::kConv2d, {2, 2, 1, 1, 1, 1, 1}, {1, 3, 9, 8}, {12, 3, 3, 3}, DType::Float16);
    conv(ops::kConv2dGradInput, {2, 2, 1, 1, 1, 1, 1, 9, 8}, {2, 72, 5, 4}, {72, 16, 3, 3},
         DType::Float16);
    conv(ops::kConv2dGradWeight, {2, 2, 1, 1, 1, 1, 1, 3, 3}, {2, 16, 33, 32}, {2, 8, 17, 16},
         DType::Float16);
    const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, int ta,
                             int tb) {
        trials.push_back(gpu_test::product(m, n, k, dtype, ta != 0, tb != 0));
    };
    for (const auto& [m, n, k] : {std::tuple{130, 260, 20},
                                  {5, 7, 1000},
                                  {64, 64, 64},
                                  {300, 6, 25},
                                  {70, 14, 70},
                                  {14, 60, 9},
                                  {6, 25, 9000}})
        product(m, n, k, DType::Float32, 0, 1);
    // Few tiles: their sums in slices.
    for (int transposed = 0; transposed < 4; ++transposed)
        for (const auto& [m, n, k] : {std::tuple{36, 45, 150}, {12, 8, 600}, {8, 130, 40}})
            product(m, n, k, DType::Float32, transposed & 1, transposed / 2);
    product(30, 1000, 300, DType::Float32, 0, 1);
    product(1000, 30, 300, DType::Float32, 1, 0);
    product(36, 1000, 300, DType::Float32, 0, 0);
    // Large, narrow and small tiles, a split sum, and sizes that end within a tile.
    for (const auto& [m, n, k] :
         {std::tuple{256, 136, 64}, {264, 64, 40}, {5, 7, 1000}, {72, 88, 48}})
        for (int transposed = 0; transposed < 4; ++transposed)
            product(m, n, k, DType::Float16, transposed & 1, transposed / 2);
    for (const bool gradient : {false, true})
        for (AttentionCase c :
             {AttentionCase{1, 2, 70, 90, 64, 64, true, 'a', 0.2},
              {1, 1, 9, 30, 20, 33, false, 'b', 0.3},
              {1, 1, 35, 70, 100, 100, false, 0, 0, false, DType::Float16},
              {1, 1, 3, 5, 30, 300, false, 'B'},
              // scores of a batch in parts; those that are never kept
              {5, 2, 40, 33, 16, 24, false, 'a', 0.2, false, DType::Float32, true},
              {5, 1, 33, 40, 16, 24, true, 'b', 0.3, false, DType::Float16},
              {1, 2, 100, 130, 16, 20, true, 'B', 0.2}}) {
            c.gradient = gradient;
            trials.push_back(attention_trial(c));
        }
    const auto order = [&](const graph::OpRecord& op, std::vector<heavy_test::Data> inputs,
                           std::initializer_list<std::int64_t> attrs) {
        heavy_test::Trial t;
        t.op = &op;
        t.order = plan::Order::RowMajor;
        t.inputs = std::move(inputs);
        for (const auto a : attrs)
            t.attrs.i.push_back(a);
        trials.push_back(std::move(t));
    };
    using heavy_test::index_data;
    order(ops::kArgSort, {index_data(DType::Float32, {5000}, 900, 1)}, {0, 0, 5000});
    order(ops::kArgSort, {index_data(DType::Int64, {3, 40}, 20, 1)}, {1, 1, 7});
    order(ops::kCumSum, {random_data(DType::Float32, {1300, 2}, plan::Order::RowMajor, 1)}, {0, 1});
    order(ops::kIndexAdd,
          {index_data(DType::Int64, {300}, 9, 1),
           random_data(DType::Float32, {300, 4}, plan::Order::RowMajor, 2)},
          {0, 9});
    order(ops::kScatter,
          {index_data(DType::Int32, {5, 7}, 9, 1), index_data(DType::Int64, {4, 7}, 7, 2),
           index_data(DType::Int32, {4, 7}, 9, 3)},
          {1});
    std::vector<heavy_test::Data> results;
    for (auto& t : trials) {
        TrialPlan p = trial_plan(t);
        add(p.plan, std::move(p.buffers), {});
        results.push_back(std::move(p.output));
    }
    std::size_t on_matrix_units = 0, in_slices = 0;
    for (const auto& k : kernels) {
        on_matrix_units += k.body.find("MAT_MUL") != k.body.npos;
        in_slices += k.body.find("int slice = ") != k.body.npos;
    }
    EXPECT_GE(on_matrix_units, 20u);
    EXPECT_GE(in_slices, 10u);
#ifdef PIPPIN_HAS_VULKAN
    // Devices with matrix units are rare where tests run; that GLSL has them right can be seen
    // here.
    for (const auto& k : kernels)
        EXPECT_FALSE(vulkan::compile_glsl(gpu::render_glsl(k, {.native_half = true})).empty())
            << k.name;
#endif
    Machine machine(kernels);
    for (std::size_t n = 0; n < jobs.size(); ++n) {
        jobs[n].run(machine);
        if (n < programs.size()) {
            for (const auto& e : interpret(programs[n], before[n], jobs[n].scalars)) {
                const std::string difference = compare(e, jobs[n].buffers[places[n][e.access]]);
                ASSERT_TRUE(difference.empty()) << "seed " << n << ": " << difference << '\n'
                                                << programs[n].str();
            }
            continue;
        }
        heavy_test::Data& out = results[n - programs.size()];
        std::memcpy(out.bytes(), jobs[n].buffers.back().data(), out.memory.size() * 8);
        const heavy_test::Trial& t = trials[n - programs.size()];
        const bool drawn = ops::is_attention(t.op);
        EXPECT_TRUE(close(out, drawn ? attention_expected(t) : t.expected()))
            << t.op->name << " " << n;
    }
}

#ifdef PIPPIN_HAS_VULKAN
// More elements than 32 bits count: no device here has the memory, but their kernels compile.
TEST(Dialects, ElementsMayHave64BitNumbers) {
    plan::Program p;
    p.form = plan::Form::Map;
    p.rank = 1;
    p.extents[0] = std::int64_t{1} << 33;
    plan::Access a;
    a.strides[0] = 1;
    std::vector<Buffer> none(2);
    for (const DType t : {DType::Float32, DType::UInt8}) {
        a.dtype = t;
        a.writes = false;
        p.accesses = {a, a};
        p.accesses[1].writes = true;
        p.body.clear();
        plan::Instr load, store;
        load.op = plan::Opcode::Load;
        load.type = store.type = t == DType::UInt8 ? DType::Int32 : t;
        load.aux = 0;
        store.op = plan::Opcode::Store;
        store.a = 0;
        store.aux = 1;
        p.body = {load, store};
        const gpu::Work w = gpu::make_work(program_plan(p, none, {0, 1}), gpu::Features{});
        ASSERT_EQ(w.kernels.size(), 1u);
        EXPECT_TRUE(w.kernels[0].wide);
        EXPECT_FALSE(vulkan::compile_glsl(gpu::render_glsl(w.kernels[0], {})).empty());
    }
}
#endif

}  // namespace
}  // namespace pippin::gpu_test
