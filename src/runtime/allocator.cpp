#include "runtime/allocator.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "pippin/error.h"
#include "runtime/backend.h"
#include "runtime/queue.h"

namespace pippin::runtime {
namespace {

// Steps small enough that reuse by exact size wastes under an eighth.
std::size_t rounded(std::size_t bytes) {
    if (bytes <= 4096) return (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
    std::size_t step = 512;
    while (step * 16 < bytes)
        step *= 2;
    return (bytes + step - 1) / step * step;
}

struct Pool {
    std::mutex mutex;
    std::map<std::size_t, std::vector<Memory>> free;  // by rounded size
    std::map<std::size_t, std::size_t> in_use;        // how many live blocks of each size
    std::size_t cached = 0, live = 0, peak = 0;
    double fraction = 1;  // of the device's memory that may be taken

    // The cache may hold as much as is live, and never less than this. A GPU's driver is slow to
    // give memory, and it is there for this program: half of it.
    static std::size_t keep_at_least(Device device, Backend& b) {
        const std::size_t half = static_cast<std::size_t>(b.capabilities().memory_bytes) / 2;
        return device.type() == Device::Type::GPU && !b.capabilities().unified_memory
                   ? half
                   : std::size_t{64} << 20;
    }

    // None where the device has no room, or the limit leaves none.
    Memory take(Backend& b, std::size_t size) const {
        if (fraction < 1 &&
            double(live + cached + size) > fraction * double(b.capabilities().memory_bytes))
            return {};
        return b.allocate(size);
    }

    // "2 of 96.0 MiB, 1 of 64.0 MiB"
    std::string largest() const {
        std::string out;
        int n = 0;
        for (auto it = in_use.rbegin(); it != in_use.rend() && n < 4; ++it, ++n)
            out += fmt::format("{}{} of {:.1f} MiB", n ? ", " : "", it->second,
                               double(it->first) / (1 << 20));
        return out.empty() ? "none" : out;
    }

    void trim(Backend& b, std::size_t limit) {
        while (cached > limit && !free.empty()) {
            auto last = std::prev(free.end());
            b.free(last->second.back(), last->first);
            cached -= last->first;
            last->second.pop_back();
            if (last->second.empty()) free.erase(last);
        }
    }
};

// One pool a device; never destroyed, since buffers may outlive static objects.
Pool& pool(Device device) {
    static auto* pools = new std::array<Pool, kMaxDevices>;
    return (*pools)[device_number(device)];
}

}  // namespace

BufferPtr allocate(Device device, std::size_t bytes) {
    const std::size_t size = rounded(bytes);
    Pool& p = pool(device);
    Backend& b = backend(device);
    auto buffer = std::make_shared<Buffer>();
    buffer->device = device;
    std::unique_lock lock(p.mutex);
    if (auto it = p.free.find(size); it != p.free.end()) {
        buffer->memory = it->second.back();
        it->second.pop_back();
        if (it->second.empty()) p.free.erase(it);
        p.cached -= size;
    } else {
        buffer->memory = p.take(b, size);
        if (!buffer->memory) {
            p.trim(b, 0);
            lock.unlock();
            drop_idle_arena(device);
            lock.lock();
            p.trim(b, 0);  // the arena, too
            buffer->memory = p.take(b, size);
        }
        if (!buffer->memory)
            throw OutOfMemoryError(fmt::format(
                "out of memory on {}: asked for {:.1f} MiB with {:.1f} MiB live, the largest "
                "tensors "
                "{} (device has {:.1f} MiB{}); use a smaller batch or model",
                device.str(), double(size) / (1 << 20), double(p.live) / (1 << 20), p.largest(),
                double(b.capabilities().memory_bytes) / (1 << 20),
                p.fraction < 1
                    ? fmt::format(", of which set_memory_fraction allows {:.1f} MiB",
                                  p.fraction * double(b.capabilities().memory_bytes) / (1 << 20))
                    : std::string()));
    }
    buffer->bytes = size;
    p.live += size;
    ++p.in_use[size];
    p.peak = std::max(p.peak, p.live);
    return buffer;
}

void release_cached() {
    for (const Device d : devices_in_use()) {
        Pool& p = pool(d);
        std::lock_guard lock(p.mutex);
        p.trim(backend(d), 0);
    }
}

MemoryStats memory_stats(Device device) {
    Pool& p = pool(device);
    std::lock_guard lock(p.mutex);
    return {std::int64_t(p.live), std::int64_t(p.cached), std::int64_t(p.peak)};
}

void limit_memory(Device device, double fraction) {
    backend(device);
    Pool& p = pool(device);
    std::lock_guard lock(p.mutex);
    p.fraction = fraction;
}

void reset_peak() {
    for (const Device d : devices_in_use()) {
        Pool& p = pool(d);
        std::lock_guard lock(p.mutex);
        p.peak = p.live;
    }
}

}  // namespace pippin::runtime

namespace pippin {

Buffer::~Buffer() {
    if (!memory) return;
    auto& p = runtime::pool(device);
    std::lock_guard lock(p.mutex);
    p.live -= bytes;
    if (const auto it = p.in_use.find(bytes); --it->second == 0) p.in_use.erase(it);
    p.free[bytes].push_back(memory);
    p.cached += bytes;
    runtime::Backend& b = runtime::backend(device);
    const std::size_t limit = std::max(p.live, runtime::Pool::keep_at_least(device, b));
    if (p.cached > limit) p.trim(b, limit);
}

}  // namespace pippin
