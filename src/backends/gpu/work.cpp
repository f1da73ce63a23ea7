#include "backends/gpu/work.h"

#include <bit>

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

Work make_work(const plan::Plan& plan, const Features& features) {
    Work w;
    for (std::size_t n = 0; n < plan.launches.size(); ++n) {
        const plan::Launch& launch = plan.launches[n];
        Step step;
        step.launch = static_cast<std::int32_t>(n);
        w.scratch_bytes = 0;
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
        w.steps.push_back(std::move(step));
    }
    spread_scratch(w);
    find_waits(w, plan);
    return w;
}

}  // namespace pippin::gpu
