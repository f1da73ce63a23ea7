// What a device must do: memory, compiling a plan, running it. A backend knows nothing of users'
// tensors and autograd.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "pippin/device.h"
#include "plan/plan.h"

namespace pippin::runtime {

struct Capabilities {
    std::string name;            ///< for people
    bool unified_memory = true;  ///< buffers can be read and written by the processor in place
    bool float64 = true;
    std::int64_t memory_bytes = 0;
};

/// Everything a run needs: addresses of slots' buffers and the run-time arguments.
struct Bindings {
    std::span<void* const> inputs;
    std::span<void* const> outputs;
    void* arena = nullptr;
    std::span<const std::uint64_t> scalars;
};

/// A plan made ready for one device. Run by one thread at a time.
class Executable {
  public:
    virtual ~Executable() = default;
    /// Runs all launches in order; throws (IndexError, DeviceError) when one fails.
    virtual void run(const Bindings& bindings) = 0;
};

class Backend {
  public:
    virtual ~Backend() = default;
    virtual const Capabilities& capabilities() const = 0;
    virtual void* allocate(std::size_t bytes) = 0;  ///< null when there is no room
    virtual void free(void* data, std::size_t bytes) = 0;
    virtual bool supports(const plan::HeavyLaunch& launch) const = 0;
    virtual std::unique_ptr<Executable> compile(const plan::Plan& plan) = 0;
};

/// DeviceError when this build or machine has no such device.
Backend& backend(Device device);

}  // namespace pippin::runtime
