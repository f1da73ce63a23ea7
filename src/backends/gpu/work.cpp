#include "backends/gpu/work.h"

#include <bit>

#include <fmt/format.h>

#include "backends/gpu/failure.h"
#include "backends/gpu/hazards.h"
#include "pippin/error.h"

namespace pippin::gpu {

std::int32_t Work::add(KernelSource kernel) {
    for (std::size_t k = 0; k < kernels.size(); ++k)
        if (kernels[k].body == kernel.body && kernels[k].functions == kernel.functions &&
            kernels[k].threads == kernel.threads && kernels[k].shared == kernel.shared)
            return static_cast<std::int32_t>(k);
    kernels.push_back(std::move(kernel));
    return static_cast<std::int32_t>(kernels.size() - 1);
}

std::uint64_t scalar_bits(std::uint64_t argument, DType t) {
    if (t != DType::Float32) return argument;
    return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(argument)));
}

namespace {

// The step's kernels look at the error record first.
void guard(Work& w, Step& s) {
    for (Dispatch& d : s.dispatches) {
        KernelSource k = w.kernels[static_cast<std::size_t>(d.kernel)];
        k.body = fmt::format("if (LD_U32(ADDRESS({}), 0) != 0u) return;\n", d.args.size()) + k.body;
        d.args.push_back(error_arg());
        d.guarded = true;
        d.kernel = w.add(std::move(k));
    }
}

// Kernels that have only guarded copies in use go.
void drop_unused(Work& w) {
    std::vector<std::int32_t> place(w.kernels.size(), -1);
    std::vector<KernelSource> used;
    for (Step& s : w.steps)
        for (Dispatch& d : s.dispatches) {
            std::int32_t& p = place[static_cast<std::size_t>(d.kernel)];
            if (p < 0) {
                p = static_cast<std::int32_t>(used.size());
                used.push_back(std::move(w.kernels[static_cast<std::size_t>(d.kernel)]));
            }
            d.kernel = p;
        }
    w.kernels = std::move(used);
}

}  // namespace

Work make_work(const plan::Plan& plan, const Features& features,
               std::span<const LaunchChoice> choices) {
    Work w;
    const Aftermath aftermath(plan);
    bool can_fail = false;  // a launch so far
    for (std::size_t n = 0; n < plan.launches.size(); ++n) {
        const plan::Launch& launch = plan.launches[n];
        Step step;
        step.launch = static_cast<std::int32_t>(n);
        if (n < choices.size()) step.choice = choices[n];
        w.scratch_bytes = 0;
        const std::size_t checks = w.checks.size();
        try {
            if (launch.program) {
                if (launch.program->program.form == plan::Form::Map)
                    write_map(w, step, *launch.program, features);
                else
                    write_reduce(w, step, *launch.program, features);
            } else if (!write_heavy(w, step, *launch.heavy, features)) {
                step.on_cpu = true;
                step.why = "there is no gpu kernel for it";
            }
        } catch (const Error& e) {
            step.dispatches.clear();
            step.on_cpu = true;
            step.why = e.what();
        }
        if (!step.on_cpu) step.scratch_bytes = w.scratch_bytes;
        std::erase_if(step.dispatches, [](const Dispatch& d) { return d.groups == 0; });
        if (step.on_cpu) w.checks.resize(checks);
        for (std::size_t c = checks; c < w.checks.size(); ++c)
            w.checks[c].launch = step.launch;
        if (can_fail && aftermath.lasting(step.launch)) guard(w, step);
        can_fail = can_fail || w.checks.size() > checks;
        for (Dispatch& d : step.dispatches) {
            d.launch = step.launch;
            d.operations = static_cast<double>(launch.flops);
            d.bytes = static_cast<double>(launch.bytes_moved);
        }
        w.steps.push_back(std::move(step));
    }
    drop_unused(w);
    spread_scratch(w);
    order_dispatches(w, plan);
    return w;
}

}  // namespace pippin::gpu
