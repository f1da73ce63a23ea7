#include "backends/gpu/fallback.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "backends/cpu/backend.h"
#include "pippin/error.h"
#include "runtime/queue.h"

namespace pippin::gpu {
namespace {

void report(const std::string& what, const std::string& why) {
    const char* strict = std::getenv("PIPPIN_STRICT_GPU");
    if (strict && *strict && std::string(strict) != "0")
        throw DeviceError(fmt::format(
            "{} cannot run on the gpu: {} (PIPPIN_STRICT_GPU forbids the processor)", what, why));
    static std::mutex mutex;
    static std::set<std::string> told;
    std::lock_guard lock(mutex);
    if (told.insert(what + why).second)
        fmt::print(stderr, "pippin: warning: {} runs on the processor: {}\n", what, why);
}

}  // namespace

Fallback::Fallback(const plan::Plan& plan, std::size_t n, const std::string& why) {
    const plan::Launch& launch = plan.launches[n];
    report(launch.name, why);
    plan::Plan own;
    own.num_scalars = plan.num_scalars;
    plan::Launch copy;
    copy.name = launch.name;
    copy.bytes_moved = launch.bytes_moved;
    copy.flops = launch.flops;
    // The launch alone, over inputs that are whatever its slots are.
    const auto use = [&](std::int32_t slot, bool writes) {
        auto it = std::find(slots_.begin(), slots_.end(), slot);
        const auto k = static_cast<std::size_t>(it - slots_.begin());
        if (it == slots_.end()) {
            slots_.push_back(slot);
            written_.push_back(0);
            plan::Slot s = plan.slots[static_cast<std::size_t>(slot)];
            s.where = plan::Slot::Where::Input;
            s.index = static_cast<std::int32_t>(k);
            s.offset = 0;
            own.slots.push_back(s);
        }
        written_[k] |= static_cast<char>(writes);
        return static_cast<std::int32_t>(k);
    };
    if (launch.heavy) {
        copy.heavy = std::make_unique<plan::HeavyLaunch>(*launch.heavy);
        for (plan::Operand& o : copy.heavy->operands)
            o.slot = use(o.slot, false);
        copy.heavy->output.slot = use(copy.heavy->output.slot, true);
    } else {
        copy.program = std::make_unique<plan::ProgramLaunch>(*launch.program);
        for (plan::Segment& s : copy.program->segments)
            for (std::size_t a = 0; a < s.slots.size(); ++a)
                s.slots[a] = use(s.slots[a], launch.program->program.accesses[a].writes);
    }
    own.num_inputs = static_cast<std::int64_t>(slots_.size());
    own.launches.push_back(std::move(copy));
    executable_ = cpu_backend().compile(own);
}

void Fallback::run(const std::vector<void*>& memory, std::span<const std::uint64_t> scalars) {
    std::vector<runtime::Memory> inputs;
    for (void* m : memory)
        inputs.push_back(runtime::host_memory(m));
    executable_->run({inputs, {}, {}, scalars});
    runtime::count_fallback();
}

}  // namespace pippin::gpu
