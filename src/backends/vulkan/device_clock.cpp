#include "backends/vulkan/device_clock.h"

#include <vector>

#include "profile/recorder.h"

namespace pippin::vulkan {
namespace {

// The two clocks drift apart by some parts in a million.
constexpr std::int64_t kAskAgain = 500'000'000;

bool counts_steady_time(Context& c) {
#ifdef __linux__
    if (!c.calibrated_timestamps) return false;
    std::uint32_t n = 0;
    if (vkGetPhysicalDeviceCalibrateableTimeDomainsEXT(c.physical, &n, nullptr) != VK_SUCCESS)
        return false;
    std::vector<VkTimeDomainEXT> domains(n);
    vkGetPhysicalDeviceCalibrateableTimeDomainsEXT(c.physical, &n, domains.data());
    bool device = false, steady = false;
    for (const VkTimeDomainEXT d : domains) {
        device |= d == VK_TIME_DOMAIN_DEVICE_EXT;
        steady |= d == VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT;  // what steady_clock reads on Linux
    }
    return device && steady;
#else
    (void)c;
    return false;
#endif
}

}  // namespace

DeviceClock::DeviceClock(Context& context) : context_(context), asks_(counts_steady_time(context)) {
    std::uint32_t n = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(context.physical, &n, nullptr);
    std::vector<VkQueueFamilyProperties> families(n);
    vkGetPhysicalDeviceQueueFamilyProperties(context.physical, &n, families.data());
    bits_ = families[context.caps.compute_family].timestampValidBits;
    if (asks_)
        ask();
    else
        synchronize();
}

void DeviceClock::ask() {
    VkCalibratedTimestampInfoEXT infos[2]{};
    for (auto& i : infos)
        i.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT;
    infos[0].timeDomain = VK_TIME_DOMAIN_DEVICE_EXT;
    infos[1].timeDomain = VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT;
    std::uint64_t times[2], deviation;
    check(vkGetCalibratedTimestampsEXT(context_.device, 2, infos, times, &deviation),
          "reading the device's clock");
    tick_ = times[0];
    host_ = static_cast<std::int64_t>(times[1]);
}

void DeviceClock::synchronize() {
    VkQueryPoolCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = 1;
    VkQueryPool pool = VK_NULL_HANDLE;
    check(vkCreateQueryPool(context_.device, &info, nullptr, &pool), "creating a timestamp");
    std::int64_t shortest = INT64_MAX;
    // The first one waits behind other work; of the others the quickest is the most exact.
    for (int i = 0; i < 6; ++i) {
        const VkCommandBuffer commands = context_.new_commands();
        VkCommandBufferBeginInfo begin{};
        begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        check(vkBeginCommandBuffer(commands, &begin), "recording a timestamp");
        vkCmdResetQueryPool(commands, pool, 0, 1);
        vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, 0);
        check(vkEndCommandBuffer(commands), "recording a timestamp");
        const std::int64_t before = recording::now();
        context_.wait(context_.submit(std::span(&commands, 1)));
        const std::int64_t after = recording::now();
        std::uint64_t tick = 0;
        const VkResult got =
            vkGetQueryPoolResults(context_.device, pool, 0, 1, 8, &tick, 8,
                                  VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
        context_.free_commands(std::span(&commands, 1));
        if (got != VK_SUCCESS || after - before >= shortest) continue;
        shortest = after - before;
        tick_ = tick;
        host_ = before + shortest / 2;
    }
    vkDestroyQueryPool(context_.device, pool, nullptr);
}

std::int64_t DeviceClock::convert(std::uint64_t tick) const {
    // The counter's upper bits may be missing: the difference wraps as a signed number of its size.
    const std::uint32_t unused = 64 - bits_;
    const std::int64_t ticks = static_cast<std::int64_t>((tick - tick_) << unused) >> unused;
    return host_ + static_cast<std::int64_t>(static_cast<double>(ticks) *
                                             context_.caps.nanoseconds_per_tick);
}

std::int64_t DeviceClock::nanoseconds(std::uint64_t tick) {
    std::lock_guard lock(mutex_);
    const std::int64_t now = recording::now();
    if (asks_ && now - host_ > kAskAgain) ask();
    const std::int64_t t = convert(tick);
    // A tick of the future: the clocks have drifted.
    if (t > now) host_ -= t - now;
    return t > now ? now : t;
}

}  // namespace pippin::vulkan
