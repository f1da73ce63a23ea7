// What a device must do: memory, compiling a plan, running it. A backend knows nothing of users'
// tensors and autograd.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pippin/device.h"
#include "pippin/tuning.h"
#include "plan/plan.h"
#include "runtime/memory.h"

namespace pippin::runtime {

struct Capabilities {
    std::string name;            ///< for people
    std::string details;         ///< for people: threads, driver
    bool unified_memory = true;  ///< buffers can be read and written by the processor in place
    bool float64 = true;
    std::int64_t memory_bytes = 0;
};

enum class LaunchState : std::uint8_t { Done, Failed, Skipped };
/// What went wrong in a run. Launches that depend on a failed one or on a lost input are skipped; a
/// skipped launch has written nothing. Without launches: nothing is known to be good.
struct Failure {
    std::exception_ptr error;
    std::vector<LaunchState> launches;
    /// What became of each launch, if these inputs were lost to an error of an earlier run that the
    /// device did not know of. Empty: nothing is known to be good.
    virtual std::vector<LaunchState> without(const std::vector<std::int32_t>&) const { return {}; }
};

/// Everything a run needs: the memory of slots' buffers and the run-time arguments.
struct Bindings {
    std::span<const Memory> inputs;
    std::span<const Memory> outputs;
    Memory arena;
    std::span<const std::uint64_t> scalars;
    std::span<const std::int32_t> lost_inputs = {};  ///< have no value, for an error before
    Failure* failure = nullptr;                      ///< is told what fails; null: run() throws
    /// Counts the launches that have ended well, in order; left alone by devices that cannot tell.
    std::atomic<std::int32_t>* progress = nullptr;
};

/// Work that a device may still be doing.
class Completion {
  public:
    virtual ~Completion() = default;
    /// Blocks until the work has ended; throws what went wrong in it (IndexError, DeviceError).
    virtual void wait() = 0;
    /// Once wait() has thrown: what became of each launch (Failure::launches).
    std::vector<LaunchState> launches;
    /// What became of each launch, if these inputs were lost to an error of an earlier run that the
    /// device did not know of. Empty: nothing is known to be good.
    virtual std::vector<LaunchState> without(const std::vector<std::int32_t>&) const { return {}; }
};

/// A plan made ready for one device. Run by one thread at a time.
class Executable {
  public:
    virtual ~Executable() = default;
    /// Runs all launches in order, after everything that the device was given before. Null: they
    /// have ended. Throws when one fails at once.
    virtual std::unique_ptr<Completion> run(const Bindings& bindings) = 0;
    /// Bytes of Bindings::arena that it needs behind the plan's own.
    virtual std::int64_t scratch_bytes() const { return 0; }
};

class Backend {
  public:
    virtual ~Backend() = default;
    virtual const Capabilities& capabilities() const = 0;
    virtual Memory allocate(std::size_t bytes) = 0;  ///< none when there is no room
    virtual void free(const Memory& memory, std::size_t bytes) = 0;
    /// Copies from the processor's memory, which is free again on return. Nothing on the device
    /// uses `to` yet; what is run afterwards sees the bytes.
    virtual void upload(const Memory& to, const void* from, std::size_t bytes) = 0;
    /// Copies to the processor's memory once all that was run before has ended.
    virtual void download(void* to, const Memory& from, std::size_t bytes) = 0;
    virtual bool supports(const plan::HeavyLaunch& launch) const = 0;
    virtual std::unique_ptr<Executable> compile(const plan::Plan& plan) = 0;
    virtual TuningStats tuning() const { return {}; }
};

/// DeviceError when this build or machine has no such device.
Backend& backend(Device device);

/// The processor, and the devices that have been used so far.
std::vector<Device> devices_in_use();

/// A small number for each device, from 0 on.
constexpr std::size_t device_number(Device d) {
    return d.type() == Device::Type::CPU ? 0 : 1 + static_cast<std::size_t>(d.index());
}
inline constexpr std::size_t kMaxDevices = 1 + 100;  ///< device names have two digits

}  // namespace pippin::runtime
