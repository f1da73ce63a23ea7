#include "backends/vulkan/capabilities.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "pippin/error.h"

namespace pippin::vulkan {
namespace {

// The first memory type with all of `want` and none of `avoid`; -1 if there is none.
int find_type(const VkPhysicalDeviceMemoryProperties& m, VkMemoryPropertyFlags want,
              VkMemoryPropertyFlags avoid = 0) {
    for (std::uint32_t i = 0; i < m.memoryTypeCount; ++i) {
        const VkMemoryPropertyFlags f = m.memoryTypes[i].propertyFlags;
        if ((f & want) == want && (f & avoid) == 0) return static_cast<int>(i);
    }
    return -1;
}

void read_memory(VkPhysicalDevice device, Capabilities& c) {
    VkPhysicalDeviceMemoryProperties m;
    vkGetPhysicalDeviceMemoryProperties(device, &m);
    constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                    visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                              VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                                    cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
                                    special = VK_MEMORY_PROPERTY_PROTECTED_BIT |
                                              VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
                                              VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;
    const int both = find_type(m, local | visible | cached, special);
    int own = both;
    if (own < 0) own = find_type(m, local, special);
    if (own < 0) own = find_type(m, 0, special);
    c.unified = both >= 0;
    const int upload = find_type(m, visible, special | local);
    const int readback = find_type(m, visible | cached, special);
    const int any = find_type(m, visible, special);
    if (any < 0) c.missing += " host-visible memory;";
    c.memory_type = static_cast<std::uint32_t>(std::max(own, 0));
    c.upload_type = static_cast<std::uint32_t>(std::max(upload >= 0 ? upload : any, 0));
    c.readback_type = static_cast<std::uint32_t>(std::max(readback >= 0 ? readback : any, 0));
    const int window = c.unified ? own : find_type(m, local | visible, special);
    c.table_type = window >= 0 ? static_cast<std::uint32_t>(window) : c.memory_type;
    c.memory_bytes =
        static_cast<std::int64_t>(m.memoryHeaps[m.memoryTypes[c.memory_type].heapIndex].size);
}

// Whether subgroups of 32 multiply 16 x 16 matrices of float16 and sum up in float.
bool has_matrices(VkPhysicalDevice device) {
    if (!has_extension(device, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME)) return false;
    VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices{};
    matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV;
    VkPhysicalDeviceVulkan12Features f12{};
    f12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    f12.pNext = &matrices;
    VkPhysicalDeviceFeatures2 f{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &f12, {}};
    vkGetPhysicalDeviceFeatures2(device, &f);
    VkPhysicalDeviceSubgroupProperties subgroup{};
    subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    VkPhysicalDeviceProperties2 p{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &subgroup, {}};
    vkGetPhysicalDeviceProperties2(device, &p);
    if (!matrices.cooperativeMatrix || !f12.shaderFloat16 || !f12.vulkanMemoryModel ||
        subgroup.subgroupSize != 32)
        return false;
    std::uint32_t count = 0;
    vkGetPhysicalDeviceCooperativeMatrixPropertiesNV(device, &count, nullptr);
    std::vector<VkCooperativeMatrixPropertiesNV> kinds(
        count,
        {VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV, nullptr, 0, 0, 0, {}, {}, {}, {}, {}});
    vkGetPhysicalDeviceCooperativeMatrixPropertiesNV(device, &count, kinds.data());
    return std::ranges::any_of(kinds, [](const VkCooperativeMatrixPropertiesNV& k) {
        return k.MSize == 16 && k.NSize == 16 && k.KSize == 16 &&
               k.AType == VK_COMPONENT_TYPE_FLOAT16_NV && k.BType == VK_COMPONENT_TYPE_FLOAT16_NV &&
               k.CType == VK_COMPONENT_TYPE_FLOAT32_NV && k.DType == VK_COMPONENT_TYPE_FLOAT32_NV &&
               k.scope == VK_SCOPE_SUBGROUP_NV;
    });
}

// Known faults of drivers, each with its reason. By driverID: Honeykrisp reports Mesa's vendor.
void apply_quirks(Capabilities& c) {
    switch (c.driver_id) {
        case VK_DRIVER_ID_MESA_LLVMPIPE:
            // The processor's cores: more groups than this only add up to more scratch memory.
            c.software = true;
            c.parallel_groups = 8;
            c.operations_a_second = 1e9;
            c.bytes_a_second = 2e9;
            break;
        case VK_DRIVER_ID_NVIDIA_PROPRIETARY:
            c.large_tiles = true;
            // Vulkan leaves the rounding open; tests/gpu checks all float16 and the halfway cases.
            c.native_half = true;
            break;
        default:
            break;
    }
}

// What a device of that name has not is not used here either.
void play(Capabilities& c, const std::string& name) {
    if (name != "apple")
        throw ValueError(
            fmt::format("PIPPIN_GPU_CAPABILITIES={}: the only device to play is apple", name));
    // MoltenVK on an M1: Metal's fast arithmetic, 32 KiB a group. Subgroups (32 lanes there) and
    // 64-bit floats are used nowhere.
    c.shared_bytes = std::min(c.shared_bytes, 32768);
    c.keep_denormals = c.keep_specials = false;
    c.parallel_groups = std::min<std::int64_t>(c.parallel_groups, 128);
    c.large_tiles = c.matrices = c.native_half = false;
    c.operations_a_second = std::min(c.operations_a_second, 2e11);
    c.bytes_a_second = std::min(c.bytes_a_second, 2e10);
}

}  // namespace

bool has_extension(VkPhysicalDevice device, const char* name) {
    std::uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> all(count);
    vkEnumerateDeviceExtensionProperties(device, nullptr, &count, all.data());
    return std::ranges::any_of(all, [&](const VkExtensionProperties& e) {
        return std::string_view(e.extensionName) == name;
    });
}

Capabilities read_capabilities(VkPhysicalDevice device) {
    Capabilities c;
    VkPhysicalDeviceDriverProperties driver{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES, nullptr, {}, {}, {}, {}};
    VkPhysicalDeviceProperties2 p{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, nullptr, {}};
    vkGetPhysicalDeviceProperties(device, &p.properties);
    c.name = p.properties.deviceName;
    c.type = p.properties.deviceType;
    c.software = c.type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    if (p.properties.apiVersion < VK_API_VERSION_1_2) {
        c.missing = " Vulkan 1.2;";
        return c;
    }
    VkPhysicalDeviceFloatControlsProperties floats{};
    floats.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
    floats.pNext = &driver;
    p.pNext = &floats;
    vkGetPhysicalDeviceProperties2(device, &p);
    c.driver = std::string(driver.driverName) + " " + driver.driverInfo;
    c.driver_id = driver.driverID;
    c.keep_denormals = floats.shaderDenormPreserveFloat32;
    c.keep_specials = floats.shaderSignedZeroInfNanPreserveFloat32;
    const VkPhysicalDeviceLimits& l = p.properties.limits;
    c.max_groups_x = l.maxComputeWorkGroupCount[0];
    c.max_groups_y = l.maxComputeWorkGroupCount[1];
    c.shared_bytes = static_cast<int>(l.maxComputeSharedMemorySize);
    c.nanoseconds_per_tick = l.timestampComputeAndGraphics ? l.timestampPeriod : 0;
    c.parallel_groups = c.type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU  ? 512
                        : c.type == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU ? 512
                                                                        : 128;
    if (l.maxComputeWorkGroupInvocations < 256 || l.maxComputeWorkGroupSize[0] < 256)
        c.missing += " groups of 256 threads;";
    if (c.shared_bytes < 32768) c.missing += " 32 KiB of shared memory;";

    VkPhysicalDeviceVulkan12Features f12{};
    f12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    VkPhysicalDeviceVulkan11Features f11{};
    f11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    f11.pNext = &f12;
    VkPhysicalDeviceFeatures2 f{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &f11, {}};
    vkGetPhysicalDeviceFeatures2(device, &f);
    if (!f12.bufferDeviceAddress) c.missing += " buffer device addresses;";
    if (!f12.timelineSemaphore) c.missing += " timeline semaphores;";
    if (!f.features.shaderInt64) c.missing += " 64-bit integers;";
    if (!f11.storageBuffer16BitAccess) c.missing += " 16-bit storage;";
    if (!f12.storageBuffer8BitAccess) c.missing += " 8-bit storage;";

    std::uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
    // The family that also draws is the one every driver runs at full width. NVIDIA's own family
    // for computing does, too, and has less to do between two submissions (an H200: 9 microseconds,
    // not 15).
    const bool draws = c.driver_id != VK_DRIVER_ID_NVIDIA_PROPRIETARY;
    int best = -1;
    for (std::uint32_t i = 0; i < count; ++i) {
        const VkQueueFlags flags = families[i].queueFlags;
        if (!(flags & VK_QUEUE_COMPUTE_BIT)) continue;
        const bool fits = bool(flags & VK_QUEUE_GRAPHICS_BIT) == draws;
        if (best < 0 || fits) best = static_cast<int>(i);
        if (fits) break;
    }
    if (best < 0) c.missing += " a compute queue;";
    c.compute_family = static_cast<std::uint32_t>(std::max(best, 0));
    c.matrices = has_matrices(device);
    read_memory(device, c);
    if (c.type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU) {
        c.operations_a_second = 2e12;
        c.bytes_a_second = 1e11;
    }
    apply_quirks(c);
    if (const char* name = std::getenv("PIPPIN_GPU_CAPABILITIES"); name && *name) play(c, name);
    if (const char* text = std::getenv("PIPPIN_GPU_SUBMISSION_SECONDS"); text && *text) {
        c.submission_seconds = std::strtod(text, nullptr);
        if (!(c.submission_seconds > 0))
            throw ValueError(
                fmt::format("PIPPIN_GPU_SUBMISSION_SECONDS={}: it must be a number above 0", text));
    }
    return c;
}

gpu::Features features_of(const Capabilities& c) {
    gpu::Features f;
    f.small_tiles = c.software;
    f.large_tiles = c.large_tiles;
    f.shared_bytes = c.shared_bytes;
    f.matrices = c.matrices;
    f.parallel_groups = c.parallel_groups;
    f.tile_bytes = std::clamp(c.memory_bytes / 64, std::int64_t{32} << 20, std::int64_t{384} << 20);
    // Software is there for tests: small ones are to come by it.
    if (c.software) f.winograd_tiles = 8, f.winograd_channels = 3, f.tile_bytes = 1 << 18;
    return f;
}

}  // namespace pippin::vulkan
