// The executor of fused programs (plan/program.h) on the processor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "plan/program.h"

namespace pippin::cpu {

class ProgramKernel {
  public:
    /// Compiles the program; throws Error for instructions or types there is no code for.
    explicit ProgramKernel(const plan::Program& program);
    ~ProgramKernel();
    ProgramKernel(ProgramKernel&&) noexcept;
    ProgramKernel& operator=(ProgramKernel&&) noexcept;

    /// One run over one set of buffers.
    struct Run {
        std::int64_t extent;  ///< of the only dim of a batched program, else -1
        void* const*
            pointers;  ///< one base address per access; the access' offset is still to be added
    };
    /// Runs them all, on all threads where there is enough to do; the result does not depend on the
    /// number of threads. IndexError for a value that CheckIndex refuses, once everything has
    /// ended. By one thread at a time.
    void run(std::span<const Run> runs, std::span<const std::uint64_t> scalars);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace pippin::cpu
