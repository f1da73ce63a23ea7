// pippin env: what a report of a fault should say of the machine.
#include <fmt/format.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <fstream>
#include <oneapi/dnnl/dnnl.hpp>

#include "backends/gpu/devices.h"
#include "commands.h"
#include "config_file.h"
#include "pippin/device.h"
#include "pippin/error.h"
#include "runtime/backend.h"
#include "system.h"

namespace pippin::cli {
namespace {

namespace fs = std::filesystem;

const char* compiler() {
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "gcc " __VERSION__;
#else
    return "unknown";
#endif
}

std::string build() {
    std::string out = fmt::format("{}, {}", PIPPIN_BUILD_TYPE, compiler());
#ifdef PIPPIN_NO_OPENMP
    out += ", without OpenMP";
#endif
#ifndef PIPPIN_HAS_VULKAN
    out += ", without the GPU backend";
#endif
#ifndef PIPPIN_HAS_CAIRO
    out += ", without cairo";
#endif
    const dnnl_version_t* v = dnnl_version();
    return out + fmt::format(", oneDNN {}.{}.{}", v->major, v->minor, v->patch);
}

// The instruction sets that kernels are there for and this processor has, best first.
std::string instruction_sets() {
    std::string out;
    const std::int64_t supported = hwy::SupportedTargets();
    for (std::int64_t bit = 1; bit > 0 && bit <= supported; bit <<= 1)
        if (supported & bit) out += (out.empty() ? "" : ", ") + std::string(hwy::TargetName(bit));
    return out;
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

void print_gpus() {
    int n = 0;
    for (;; ++n) {
        try {
            const auto& c = runtime::backend(Device(Device::Type::GPU, n)).capabilities();
            fmt::print("- gpu:{}: {}; driver {}; {:.1f} GiB, {}; float64 {}\n", n, c.name,
                       c.details.empty() ? "unknown" : c.details, gib(c.memory_bytes),
                       c.unified_memory ? "shared with the processor" : "of its own",
                       c.float64 ? "yes" : "no (the processor does it)");
        } catch (const DeviceError& e) {
            // Beyond the last one, or one that is listed and does not start.
            if (n < static_cast<int>(gpu::devices().size())) {
                fmt::print("- gpu:{}: {}\n", n, e.what());
                continue;
            }
            break;
        }
    }
    if (n == 0) fmt::print("- GPU: none: {}\n", gpu::why_no_more_devices());
}

void print_config() {
    const fs::path path = default_config_path();
    std::error_code error;
    if (!fs::exists(path, error)) {
        fmt::print("- config file: none ({} is not there; `pippin config` makes it)\n",
                   path.string());
        return;
    }
    fmt::print("- config file: {}\n", path.string());
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);)
        fmt::print("    {}\n", line);
    try {
        (void)read_config(path);
    } catch (const Error& e) {
        fmt::print("    (not usable: {})\n", e.what());
    }
}

int print() {
    const Device device = default_device();
    fmt::print("Copy this into your report:\n\n");
    fmt::print("- Pippin: {}\n", PIPPIN_VERSION);
    fmt::print("- build: {}\n", build());
    fmt::print("- system: {}\n", platform());
    fmt::print("- processor: {}\n", Device(Device::Type::CPU).description());
    fmt::print("- instruction sets: {}\n", instruction_sets());
    fmt::print("- threads: {}\n", num_threads());
    fmt::print("- memory: {:.1f} GiB, {:.1f} GiB of it free\n", gib(memory_bytes()),
               gib(free_memory_bytes()));
    print_gpus();
    fmt::print("- default device: {}, {} ({})\n", device.str(), device.description(),
               default_device_reason());
    for (const std::string& entry : environment_of({"PIPPIN_", "OMP_", "VK_", "DNNL_", "ONEDNN_"}))
        fmt::print("- {}\n", entry);
    print_config();
    return 0;
}

const Register command{{"env", "print what a report of a fault should say of this machine",
                        [](CLI::App& app) -> std::function<int()> {
                            app.footer("Examples:\n  pippin env\n  pippin env > report.txt");
                            return print;
                        }}};

}  // namespace
}  // namespace pippin::cli
