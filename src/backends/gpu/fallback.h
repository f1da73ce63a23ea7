// Launches of a GPU's plan that the processor runs, for want of a kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "runtime/backend.h"

namespace pippin::gpu {

class Fallback {
  public:
    /// Says on stderr, once for each op and reason, that the processor has to step in; where
    /// PIPPIN_STRICT_GPU is set, throws instead.
    Fallback(const plan::Plan& plan, std::size_t launch, const std::string& why);

    /// Slots that the launch reads or writes, and those of them that it writes.
    const std::vector<std::int32_t>& slots() const { return slots_; }
    const std::vector<char>& written() const { return written_; }

    /// Runs it over the processor's memory: one address per slot of slots().
    void run(const std::vector<void*>& memory, std::span<const std::uint64_t> scalars);

  private:
    std::vector<std::int32_t> slots_;
    std::vector<char> written_;
    std::unique_ptr<runtime::Executable> executable_;
};

}  // namespace pippin::gpu
