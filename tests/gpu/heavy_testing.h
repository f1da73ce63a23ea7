// Trials of tests/heavy on the GPU.
#pragma once

#include "gpu/gpu_testing.h"
#include "heavy/launch.h"

namespace pippin::gpu_test {

/// Runs a trial's launch as a plan of its own, over results that were garbage before.
inline heavy_test::Data run_trial(heavy_test::Trial& t) {
    plan::Plan p;
    plan::Launch launch;
    launch.name = t.op->name;
    launch.heavy = std::make_unique<plan::HeavyLaunch>(t.launch());
    plan::HeavyLaunch& h = *launch.heavy;
    heavy_test::Data out(h.output.dtype, h.output.shape, t.order);
    std::vector<programs::Buffer> buffers;
    const auto add = [&](const heavy_test::Data& d, plan::Operand& o, bool garbage) {
        o.slot = static_cast<std::int32_t>(buffers.size());
        const std::size_t bytes = d.memory.size() * 8;
        p.slots.push_back({plan::Slot::Where::Input, o.slot, 0, static_cast<std::int64_t>(bytes)});
        programs::Buffer b(bytes, std::byte{0xff});
        if (!garbage && bytes) std::memcpy(b.data(), d.bytes(), bytes);
        buffers.push_back(std::move(b));
    };
    std::size_t k = 0;
    for (const auto& d : t.inputs)
        add(d, h.operands[k++], false);
    if (t.bias) add(*t.bias, h.operands[k++], false);
    if (t.residual) add(*t.residual, h.operands[k++], false);
    add(out, h.output, true);
    p.num_inputs = static_cast<std::int64_t>(buffers.size());
    p.launches.push_back(std::move(launch));
    run_plan(p, buffers, {});
    if (!out.memory.empty()) std::memcpy(out.bytes(), buffers.back().data(), out.memory.size() * 8);
    return out;
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
