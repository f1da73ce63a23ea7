// From a device's timestamps to the processor's steady clock.
#pragma once

#include <cstdint>
#include <mutex>

#include "backends/vulkan/context.h"

namespace pippin::vulkan {

/// Any thread.
class DeviceClock {
  public:
    /// Waits for the device where it cannot be asked for both clocks at once.
    explicit DeviceClock(Context& context);
    /// The steady clock's nanoseconds at that tick, which lies in the past.
    std::int64_t nanoseconds(std::uint64_t tick);

  private:
    void ask();          // VK_EXT_calibrated_timestamps
    void synchronize();  // a timestamp between two looks at the steady clock
    std::int64_t convert(std::uint64_t tick) const;

    Context& context_;
    const bool asks_;
    std::uint32_t bits_ = 64;  ///< of a timestamp that count
    std::mutex mutex_;
    std::uint64_t tick_ = 0;  ///< of one moment
    std::int64_t host_ = 0;   ///< the same moment
};

}  // namespace pippin::vulkan
