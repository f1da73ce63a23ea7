#define VOLK_IMPLEMENTATION
#include "backends/vulkan/context.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "pippin/error.h"

namespace pippin::vulkan {
namespace {

const char* text_of(VkResult r) {
    switch (r) {
        case VK_ERROR_OUT_OF_HOST_MEMORY:
            return "out of the processor's memory";
        case VK_ERROR_OUT_OF_DEVICE_MEMORY:
            return "out of device memory";
        case VK_ERROR_INITIALIZATION_FAILED:
            return "the driver could not start";
        case VK_ERROR_DEVICE_LOST:
            return "the device was lost (a driver's reset, or work that ran too long)";
        case VK_ERROR_FEATURE_NOT_PRESENT:
            return "a feature is missing";
        case VK_TIMEOUT:
            return "timed out";
        default:
            return "failed";
    }
}

}  // namespace

void check(VkResult r, const char* what) {
    if (r >= 0) return;
    const std::string message =
        fmt::format("gpu: {}: {} (VkResult {})", what, text_of(r), static_cast<int>(r));
    if (r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_OUT_OF_HOST_MEMORY)
        throw OutOfMemoryError(message);
    throw DeviceError(message);
}

Context::Context(VkPhysicalDevice p, Capabilities c) : caps(std::move(c)), physical(p) { open(); }

void Context::open() {
    const float priority = 1;
    VkDeviceQueueCreateInfo q{
        VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, caps.compute_family, 1, &priority};
    VkPhysicalDeviceVulkan12Features f12{};
    f12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    f12.bufferDeviceAddress = f12.timelineSemaphore = f12.storageBuffer8BitAccess = VK_TRUE;
    VkPhysicalDeviceVulkan11Features f11{};
    f11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    f11.storageBuffer16BitAccess = VK_TRUE;
    f11.pNext = &f12;
    VkPhysicalDeviceFeatures2 f{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &f11, {}};
    f.features.shaderInt64 = VK_TRUE;

    // A translated driver (MoltenVK) has this extension, and must be told that it is expected.
    std::vector<const char*> wanted;
    if (has_extension(physical, "VK_KHR_portability_subset"))
        wanted.push_back("VK_KHR_portability_subset");
    calibrated_timestamps = has_extension(physical, VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME);
    if (calibrated_timestamps) wanted.push_back(VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME);

    VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices{};
    matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV;
    matrices.cooperativeMatrix = VK_TRUE;
    if (caps.matrices) {
        wanted.push_back(VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME);
        f12.shaderFloat16 = f12.vulkanMemoryModel = VK_TRUE;
        f12.pNext = &matrices;
    }

    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &f;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &q;
    info.enabledExtensionCount = static_cast<std::uint32_t>(wanted.size());
    info.ppEnabledExtensionNames = wanted.data();
    check(vkCreateDevice(physical, &info, nullptr, &device), "opening the device");
    vkGetDeviceQueue(device, caps.compute_family, 0, &queue_);

    VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, nullptr,
                                   VK_SEMAPHORE_TYPE_TIMELINE, 0};
    VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
    check(vkCreateSemaphore(device, &semaphore, nullptr, &timeline_), "creating a semaphore");
    VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr,
                                 VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                 caps.compute_family};
    check(vkCreateCommandPool(device, &pool, nullptr, &pool_), "creating a command pool");
}

// --- work ---

void Context::check_alive() const {
    if (lost_) throw DeviceError("gpu: the device was lost earlier; start the program again");
}

std::uint64_t Context::submit(std::span<const VkCommandBuffer> commands) {
    check_alive();
    std::lock_guard lock(queue_mutex_);
    const std::uint64_t value = submitted_ + 1;
    VkTimelineSemaphoreSubmitInfo timeline{};
    timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    timeline.signalSemaphoreValueCount = 1;
    timeline.pSignalSemaphoreValues = &value;
    VkSubmitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.pNext = &timeline;
    info.commandBufferCount = static_cast<std::uint32_t>(commands.size());
    info.pCommandBuffers = commands.data();
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &timeline_;
    const VkResult r = vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE);
    if (r == VK_ERROR_DEVICE_LOST) lost_ = true;
    check(r, "submitting work");
    submitted_ = value;
    return value;
}

void Context::wait(std::uint64_t submission) {
    // Most waits are short, and drivers wake a sleeping thread late.
    // Software needs the core itself.
    const auto patience = std::chrono::microseconds(caps.software ? 0 : 300);
    for (const auto end = std::chrono::steady_clock::now() + patience;
         std::chrono::steady_clock::now() < end; std::this_thread::yield())
        if (finished() >= submission) return check_alive();
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &timeline_;
    info.pValues = &submission;
    const VkResult r = vkWaitSemaphores(device, &info, UINT64_MAX);
    if (r == VK_ERROR_DEVICE_LOST) lost_ = true;
    check(r, "waiting for work");
    check_alive();
}

std::uint64_t Context::finished() const {
    std::uint64_t value = 0;
    const VkResult r = vkGetSemaphoreCounterValue(device, timeline_, &value);
    if (r == VK_ERROR_DEVICE_LOST) lost_ = true;
    check(r, "asking for progress");
    return value;
}

VkCommandBuffer Context::new_commands() {
    std::lock_guard lock(pool_mutex_);
    VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool_,
                                     VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    VkCommandBuffer commands;
    check(vkAllocateCommandBuffers(device, &info, &commands), "allocating commands");
    return commands;
}

void Context::free_commands(std::span<const VkCommandBuffer> commands) {
    if (commands.empty()) return;
    std::lock_guard lock(pool_mutex_);
    vkFreeCommandBuffers(device, pool_, static_cast<std::uint32_t>(commands.size()),
                         commands.data());
}

}  // namespace pippin::vulkan
