// A plan made ready for the processor.
#pragma once

#include <memory>
#include <vector>

#include "backends/cpu/contention.h"
#include "backends/cpu/heavy.h"
#include "backends/cpu/program_kernel.h"
#include "profile/recorder.h"
#include "runtime/backend.h"

namespace pippin::cpu {

class CpuExecutable : public runtime::Executable {
  public:
    explicit CpuExecutable(const plan::Plan& plan);
    std::unique_ptr<runtime::Completion> run(const runtime::Bindings& bindings) override;

  private:
    struct Step {
        std::unique_ptr<HeavyKernel> heavy;  // one of the two
        std::unique_ptr<ProgramKernel> program;
        std::vector<ProgramKernel::Run> runs;
        std::vector<std::int32_t> reads, writes;  // slots
        void* const* operands = nullptr;  // into addresses_; a heavy launch's output is the last
        std::size_t count = 0;
        recording::WorkPtr record;  // for profiles
    };
    void run_step(Step& step, const runtime::Bindings& bindings);
    void run_what_is_left(const runtime::Bindings& bindings, std::ptrdiff_t failed);
    // Where an address that a launch wants comes from.
    struct Source {
        std::int32_t slot;
        std::int64_t offset;  // bytes
    };

    std::vector<plan::Slot> slots_;
    std::vector<Step> steps_;
    std::vector<Source> sources_;
    std::vector<void*> addresses_;  // one per source; never grows after construction
    std::vector<char*> slot_addresses_;
    std::size_t scratch_bytes_ = 0;
    void* scratch_ = nullptr;  // what the kernels have been given
    RunTimes times_;
};

}  // namespace pippin::cpu
