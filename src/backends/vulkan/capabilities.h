// What a Vulkan device can do, and what is known to be wrong with its driver.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <volk.h>

#include "backends/gpu/work.h"

namespace pippin::vulkan {

struct Capabilities {
    std::string name, driver;
    VkDriverId driver_id{};
    VkPhysicalDeviceType type{};
    bool software = false;

    bool unified = false;  ///< tensors lie in memory that the processor reads and writes as its own
    std::uint32_t memory_type = 0;    ///< of tensors
    std::uint32_t upload_type = 0;    ///< host-visible, for staging towards the device
    std::uint32_t readback_type = 0;  ///< host-visible and cached, for staging back
    std::uint32_t table_type = 0;     ///< of kernels' arguments: the device's own memory, which
                                      ///< the processor may write to directly (host-visible) or not
    std::int64_t memory_bytes = 0;    ///< of the heap that tensors are in
    std::uint32_t compute_family = 0;

    std::int64_t max_groups_x = 65535, max_groups_y = 65535;
    int shared_bytes = 32768;
    std::int64_t parallel_groups = 256;
    bool matrices = false;     ///< VK_NV_cooperative_matrix: 16 x 16 x 16 float16, sums in float
    bool large_tiles = false;  ///< 200 registers a thread are there
    bool keep_denormals = false, keep_specials = false;  ///< of float32, on demand
    bool native_half = false;  ///< conversions to float16 are known to round to the nearest even
    double nanoseconds_per_tick = 0;  ///< of timestamps; 0: there are none

    /// What the device does at least, by guess: for how much goes into one submission.
    double operations_a_second = 2e11, bytes_a_second = 2e10;
    double submission_seconds = 0.5;
    double seconds(double operations, double bytes) const {
        return std::max(operations / operations_a_second, bytes / bytes_a_second);
    }

    std::string missing;  ///< what Pippin needs and the device lacks; empty where it is usable
};

bool has_extension(VkPhysicalDevice device, const char* name);

/// Reads what the driver says, then applies the table of quirks, then takes away what another
/// device would not have if PIPPIN_GPU_CAPABILITIES names one ("apple"). ValueError for other
/// names. PIPPIN_GPU_SUBMISSION_SECONDS sets submission_seconds.
Capabilities read_capabilities(VkPhysicalDevice device);

/// What kernels' writers may use, and the sizes that their rules for tiles and algorithms go by:
/// the defaults of a device's family, where the tuner starts from.
gpu::Features features_of(const Capabilities& c);

}  // namespace pippin::vulkan
