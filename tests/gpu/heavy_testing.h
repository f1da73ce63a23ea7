// Trials of tests/heavy on the GPU.
#pragma once

#include "gpu/gpu_testing.h"
#include "heavy/launch.h"

namespace pippin::gpu_test {

/// A trial's launch as a plan of its own; the last buffer is the result's, garbage so far.
struct TrialPlan {
    plan::Plan plan;
    std::vector<programs::Buffer> buffers;
    heavy_test::Data output;  ///< to copy the result into
};
inline TrialPlan trial_plan(const heavy_test::Trial& t) {
    TrialPlan r;
    plan::Launch launch;
    launch.name = t.op->name;
    launch.heavy = std::make_unique<plan::HeavyLaunch>(t.launch());
    plan::HeavyLaunch& h = *launch.heavy;
    r.output = heavy_test::Data(h.output.dtype, h.output.shape, t.order);
    const auto add = [&](const heavy_test::Data& d, plan::Operand& o, bool garbage) {
        o.slot = static_cast<std::int32_t>(r.buffers.size());
        const std::size_t bytes = d.memory.size() * 8;
        r.plan.slots.push_back(
            {plan::Slot::Where::Input, o.slot, 0, static_cast<std::int64_t>(bytes)});
        programs::Buffer b(bytes, std::byte{0xff});
        if (!garbage && bytes) std::memcpy(b.data(), d.bytes(), bytes);
        r.buffers.push_back(std::move(b));
    };
    std::size_t k = 0;
    for (const auto& d : t.inputs)
        add(d, h.operands[k++], false);
    if (t.bias) add(*t.bias, h.operands[k++], false);
    if (t.residual) add(*t.residual, h.operands[k++], false);
    add(r.output, h.output, true);
    r.plan.num_inputs = static_cast<std::int64_t>(r.buffers.size());
    r.plan.launches.push_back(std::move(launch));
    return r;
}

inline heavy_test::Data run_trial(heavy_test::Trial& t) {
    TrialPlan p = trial_plan(t);
    run_plan(p.plan, p.buffers, {});
    if (!p.output.memory.empty())
        std::memcpy(p.output.bytes(), p.buffers.back().data(), p.output.memory.size() * 8);
    return std::move(p.output);
}

/// A product of m x k and k x n matrices, either lying transposed.
inline heavy_test::Trial product(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype,
                                 bool ta, bool tb) {
    heavy_test::Trial t;
    t.op = &graph::ops::kMatmul;
    t.attrs.i = {ta, tb};
    t.order = plan::Order::RowMajor;
    t.inputs = {
        heavy_test::random_data(dtype, ta ? Shape{k, m} : Shape{m, k}, plan::Order::RowMajor, 1),
        heavy_test::random_data(dtype, tb ? Shape{n, k} : Shape{k, n}, plan::Order::RowMajor, 2)};
    return t;
}

/// Trials run on the GPU while this lives.
class TrialsOnGpu {
  public:
    TrialsOnGpu() { heavy_test::Trial::runner = run_trial; }
    ~TrialsOnGpu() { heavy_test::Trial::runner = nullptr; }
    TrialsOnGpu(const TrialsOnGpu&) = delete;
    TrialsOnGpu& operator=(const TrialsOnGpu&) = delete;
};

}  // namespace pippin::gpu_test
