#include "pippin/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "backends/cpu/backend.h"
#include "backends/gpu/devices.h"
#include "pippin/error.h"
#include "runtime/backend.h"
#include "runtime/queue.h"

#ifdef __linux__
#include <sched.h>
#endif

namespace pippin {
namespace {

struct Choice {
    Device device;
    std::string reason;
};

std::mutex choice_mutex;
std::optional<Choice> choice;
std::atomic<int> thread_count{0};

void check_present(Device d) {
    if (d.type() == Device::Type::CPU && d.index() == 0) return;
    if (d.type() == Device::Type::GPU) {
        if (static_cast<std::size_t>(d.index()) < gpu::devices().size()) return;
        throw DeviceError(
            fmt::format("device {} is not available: {}", d.str(), gpu::why_no_more_devices()));
    }
    throw DeviceError(fmt::format("device cpu:{} is not available: there is one, \"cpu\"",
                                  static_cast<int>(d.index())));
}

Choice choose() {
    const char* wish = std::getenv("PIPPIN_DEVICE");
    if (wish && *wish) {
        const Device d{std::string_view(wish)};
        check_present(d);
        return {d, fmt::format("PIPPIN_DEVICE={}", wish)};
    }
    // Software that plays a GPU is for tests: the processor's own backend is faster.
    if (!gpu::devices().empty() && !gpu::devices()[0].software)
        return {Device(Device::Type::GPU), "the first GPU found"};
    return {Device{}, gpu::why_no_more_devices()};
}

int cores_allowed() {
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int initial_threads() {
    const int cores = cores_allowed();
    const char* text = std::getenv("OMP_NUM_THREADS");
    if (!text || !*text) return cores;
    // A list has a number for each level of nesting, as in "4,2"; the first is ours. More than a
    // few threads a core only wait for each other, and a slip of the hand would use up the machine.
    char* end = nullptr;
    const long n = std::strtol(text, &end, 10);
    if (end != text && (*end == 0 || *end == ',') && n > 0 && n <= std::max(64, 4 * cores))
        return static_cast<int>(n);
    fmt::print(stderr,
               "pippin: OMP_NUM_THREADS={} is no sensible number of threads here; using {}\n", text,
               cores);
    return cores;
}

}  // namespace

Device::Device(std::string_view text) : type_(Type::CPU), index_(0) {
    std::string_view name = text.substr(0, text.find(':'));
    if (name == "gpu" || name == "mps" || name == "cuda")
        type_ = Type::GPU;
    else if (name != "cpu")
        throw ValueError(fmt::format("unknown device \"{}\": expected cpu, gpu or gpu:N", text));
    if (name.size() == text.size()) return;
    const std::string_view digits = text.substr(name.size() + 1);
    if (digits.empty() || digits.size() > 2 ||
        !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
        throw ValueError(
            fmt::format("unknown device \"{}\": expected a number after the colon", text));
    index_ = static_cast<std::int8_t>(std::atoi(std::string(digits).c_str()));
}

std::string Device::str() const {
    return type_ == Type::CPU ? "cpu" : fmt::format("gpu:{}", static_cast<int>(index_));
}

std::string Device::description() const {
    const auto& c = runtime::backend(*this).capabilities();
    return fmt::format("{} ({}, {:.1f} GiB)", c.name,
                       type_ == Type::CPU ? fmt::format("{} threads", num_threads()) : c.details,
                       double(c.memory_bytes) / (1 << 30));
}

Device default_device() {
    std::lock_guard lock(choice_mutex);
    if (!choice) choice = choose();
    return choice->device;
}

std::string default_device_reason() {
    default_device();
    std::lock_guard lock(choice_mutex);
    return choice->reason;
}

void set_default_device(Device device) {
    check_present(device);
    std::lock_guard lock(choice_mutex);
    choice = Choice{device, "set_default_device"};
}

int num_threads() {
    int n = thread_count.load(std::memory_order_relaxed);
    if (n == 0) {
        n = initial_threads();
        thread_count.store(n, std::memory_order_relaxed);
    }
    return n;
}

void set_num_threads(int n) {
    if (n < 1) throw ValueError(fmt::format("set_num_threads: expected at least 1, got {}", n));
    runtime::drain();
    thread_count.store(n, std::memory_order_relaxed);
}

TuningStats tuning_stats(Device d) { return runtime::backend(d).tuning(); }

namespace runtime {

namespace {
std::mutex used_mutex;
std::vector<Device> used_gpus;  // under it
}  // namespace

Backend& backend(Device device) {
    if (device == Device{}) return cpu_backend();
    // Opened once; the table spares what runs often the search for devices.
    static std::array<std::atomic<Backend*>, kMaxDevices> open;
    const std::size_t n = device_number(device);
    if (n < kMaxDevices)
        if (Backend* b = open[n].load(std::memory_order_acquire)) return *b;
    check_present(device);
    Backend& b = gpu::open_device(device.index());
    std::lock_guard lock(used_mutex);
    if (!open[n].exchange(&b, std::memory_order_acq_rel)) used_gpus.push_back(device);
    return b;
}

std::vector<Device> devices_in_use() {
    std::lock_guard lock(used_mutex);
    std::vector<Device> all{Device{}};
    all.insert(all.end(), used_gpus.begin(), used_gpus.end());
    return all;
}
}  // namespace runtime

}  // namespace pippin
