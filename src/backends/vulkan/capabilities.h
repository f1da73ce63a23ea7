// What a Vulkan device can do, and what is known to be wrong with its driver.
#pragma once

#include <cstdint>
#include <string>

#include <volk.h>

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
    std::int64_t memory_bytes = 0;    ///< of the heap that tensors are in
    std::uint32_t compute_family = 0;

    std::int64_t max_groups_x = 65535, max_groups_y = 65535;
    int shared_bytes = 32768;
    std::int64_t parallel_groups = 256;
    bool matrices = false;  ///< VK_NV_cooperative_matrix: 16 x 16 x 16 float16, sums in float
    bool keep_denormals = false, keep_specials = false;  ///< of float32, on demand
    bool native_half = false;  ///< conversions to float16 are known to round to the nearest even
    double nanoseconds_per_tick = 0;  ///< of timestamps; 0: there are none

    std::string missing;  ///< what Pippin needs and the device lacks; empty where it is usable
};

/// Reads what the driver says, then applies the table of quirks.
Capabilities read_capabilities(VkPhysicalDevice device);

}  // namespace pippin::vulkan
