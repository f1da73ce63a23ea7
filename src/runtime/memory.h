// A block of a device's memory, as whoever binds, copies or runs kernels sees it.
#pragma once

#include <cstdint>

namespace pippin::runtime {

struct Memory {
    void* host = nullptr;  ///< where the processor reads and writes it in place; null: it cannot
    std::uint64_t device = 0;  ///< address that the device's kernels use
    void* handle = nullptr;    ///< the backend's own object behind it, where there is one

    explicit operator bool() const { return host || device; }
};

/// Memory that the processor itself owns.
inline Memory host_memory(void* data) {
    return {data, static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(data)), nullptr};
}

}  // namespace pippin::runtime
