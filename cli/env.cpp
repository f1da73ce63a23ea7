// pippin env: what a report of a fault should say of the machine.
#include <fmt/format.h>

#include <cstdlib>

#include "commands.h"
#include "pippin/device.h"
#include "system.h"

namespace pippin::cli {
namespace {

const char* compiler() {
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "gcc " __VERSION__;
#else
    return "unknown";
#endif
}

int print() {
    const Device device = default_device();
    fmt::print("Copy this into your report:\n\n");
    fmt::print("- Pippin: {}\n", PIPPIN_VERSION);
    fmt::print("- system: {}\n", platform());
    fmt::print("- compiler: {}\n", compiler());
    fmt::print("- processor: {}\n", Device(Device::Type::CPU).description());
    fmt::print("- threads: {}\n", num_threads());
    fmt::print("- default device: {}, {} ({})\n", device.str(), device.description(),
               default_device_reason());
    for (const char* name : {"PIPPIN_DEVICE", "PIPPIN_MIXED_PRECISION", "OMP_NUM_THREADS"})
        if (const char* value = std::getenv(name)) fmt::print("- {}={}\n", name, value);
    return 0;
}

const Register command{{"env", "print what a report of a fault should say of this machine",
                        [](CLI::App&) -> std::function<int()> { return print; }}};

}  // namespace
}  // namespace pippin::cli
