#include "backends/cpu/executable.h"

#include <algorithm>
#include <chrono>

#include "backends/cpu/contention.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/system.h"
#include "backends/cpu/threads.h"
#include "pippin/error.h"
#include "profile/launches.h"

namespace pippin::cpu {

namespace {

// Scratch of whatever runs on this thread: one block for all executables, as large as the largest
// wish so far.
class Scratch {
  public:
    ~Scratch() { drop(); }
    void* at_least(std::size_t bytes) {
        if (bytes <= bytes_) return data_;
        drop();
        data_ = allocate_pages(bytes);
        if (!data_) throw OutOfMemoryError("no room for the scratch memory of a kernel");
        bytes_ = bytes;
        return data_;
    }

  private:
    void drop() {
        if (data_) free_pages(data_, bytes_);
        data_ = nullptr;
        bytes_ = 0;
    }
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

thread_local Scratch scratch_of_thread;

// OpenMP keeps the number of threads per thread that asks.
void use_threads() {
#ifndef PIPPIN_NO_OPENMP
    const int n = num_threads();
    if (omp_get_max_threads() != n) omp_set_num_threads(n);
#endif
}

}  // namespace

CpuExecutable::CpuExecutable(const plan::Plan& plan) : slots_(plan.slots) {
    use_threads();
    const auto add = [this](std::int32_t slot, std::int64_t offset) {
        if (slot < 0 || static_cast<std::size_t>(slot) >= slots_.size())
            throw Error("a launch names a slot that the plan does not have");
        sources_.push_back({slot, offset});
    };
    const auto add_operand = [&add](const plan::Operand& o) {
        add(o.slot, o.offset * static_cast<std::int64_t>(size_of(o.dtype)));
    };
    std::vector<std::size_t> firsts;
    std::vector<recording::WorkPtr> records = recording::describe(plan);
    for (const plan::Launch& launch : plan.launches) {
        Step step;
        step.record = std::move(records[firsts.size()]);
        firsts.push_back(sources_.size());
        if (launch.heavy) {
            step.heavy = make_heavy(*launch.heavy);
            scratch_bytes_ = std::max(scratch_bytes_, step.heavy->scratch_bytes);
            for (const plan::Operand& o : launch.heavy->operands) {
                add_operand(o);
                step.reads.push_back(o.slot);
            }
            add_operand(launch.heavy->output);
            step.writes.push_back(launch.heavy->output.slot);
        } else {
            step.program = std::make_unique<ProgramKernel>(launch.program->program);
            const auto& accesses = launch.program->program.accesses;
            for (const plan::Segment& s : launch.program->segments)
                for (std::size_t k = 0; k < s.slots.size(); ++k) {
                    add(s.slots[k], 0);
                    (accesses[k].writes ? step.writes : step.reads).push_back(s.slots[k]);
                }
        }
        steps_.push_back(std::move(step));
    }
    addresses_.resize(sources_.size());
    slot_addresses_.resize(slots_.size());
    for (std::size_t i = 0; i < steps_.size(); ++i) {
        Step& step = steps_[i];
        void* const* at = addresses_.data() + firsts[i];
        step.operands = at;
        if (step.heavy) {
            step.count = plan.launches[i].heavy->operands.size();
            continue;
        }
        for (const plan::Segment& s : plan.launches[i].program->segments) {
            step.runs.push_back({s.extent, at});
            at += s.slots.size();
        }
    }
}

std::unique_ptr<runtime::Completion> CpuExecutable::run(const runtime::Bindings& bindings) {
    use_threads();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        const plan::Slot& s = slots_[i];
        const auto k = static_cast<std::size_t>(s.index);
        switch (s.where) {
            case plan::Slot::Where::Input:
                slot_addresses_[i] = static_cast<char*>(bindings.inputs[k].host);
                break;
            case plan::Slot::Where::Output:
                slot_addresses_[i] = static_cast<char*>(bindings.outputs[k].host);
                break;
            case plan::Slot::Where::Arena:
                slot_addresses_[i] = static_cast<char*>(bindings.arena.host) + s.offset;
                break;
        }
    }
    for (std::size_t i = 0; i < sources_.size(); ++i)
        addresses_[i] =
            slot_addresses_[static_cast<std::size_t>(sources_[i].slot)] + sources_[i].offset;
    if (void* scratch = scratch_of_thread.at_least(scratch_bytes_); scratch != scratch_) {
        scratch_ = scratch;
        for (Step& step : steps_)
            if (step.heavy) step.heavy->scratch = scratch;
    }
    using Clock = std::chrono::steady_clock;
    const Clock::time_point started = Clock::now();
    if (bindings.lost_inputs.empty()) {
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            try {
                run_step(steps_[i], bindings);
                if (bindings.progress)
                    bindings.progress->store(static_cast<std::int32_t>(i) + 1,
                                             std::memory_order_release);
            } catch (...) {
                if (!bindings.failure) throw;
                bindings.failure->error = std::current_exception();
                run_what_is_left(bindings, i);
                break;
            }
        }
    } else {
        run_what_is_left(bindings, -1);
    }
    const std::chrono::duration<double> took = Clock::now() - started;
    mind_contention(took.count(), times_);
    return nullptr;
}

void CpuExecutable::run_step(Step& step, const runtime::Bindings& bindings) {
    const recording::Range range(step.record);
    try {
        if (step.heavy)
            step.heavy->run(step.operands, step.operands[step.count]);
        else
            step.program->run(step.runs, bindings.scalars);
    } catch (const dnnl::error& e) {
        throw DeviceError(std::string("oneDNN on the cpu: ") + e.what());
    }
}

// After a failure: runs what does not depend on it. `failed`: the launch that threw, all before it
// being done; -1: none, but inputs are lost.
void CpuExecutable::run_what_is_left(const runtime::Bindings& bindings, std::ptrdiff_t failed) {
    using runtime::LaunchState;
    std::vector<char> lost(slots_.size(), 0);
    for (std::size_t s = 0; s < slots_.size(); ++s)
        lost[s] = slots_[s].where == plan::Slot::Where::Input &&
                  std::find(bindings.lost_inputs.begin(), bindings.lost_inputs.end(),
                            slots_[s].index) != bindings.lost_inputs.end();
    std::vector<LaunchState> states(steps_.size(), LaunchState::Done);
    for (std::size_t i = failed < 0 ? 0 : static_cast<std::size_t>(failed); i < steps_.size();
         ++i) {
        const Step& step = steps_[i];
        const bool skip = std::any_of(step.reads.begin(), step.reads.end(), [&](std::int32_t s) {
            return lost[static_cast<std::size_t>(s)];
        });
        if (static_cast<std::ptrdiff_t>(i) == failed) {
            states[i] = LaunchState::Failed;
        } else if (skip) {
            states[i] = LaunchState::Skipped;
        } else {
            try {
                run_step(steps_[i], bindings);
            } catch (...) {
                states[i] = LaunchState::Failed;
                if (!bindings.failure->error) bindings.failure->error = std::current_exception();
            }
        }
        for (const std::int32_t s : step.writes)
            lost[static_cast<std::size_t>(s)] = states[i] != LaunchState::Done;
    }
    bindings.failure->launches = std::move(states);
}

}  // namespace pippin::cpu
