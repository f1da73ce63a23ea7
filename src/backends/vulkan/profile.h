// Where the device's time goes: PIPPIN_GPU_PROFILE=1 measures every dispatch and prints the sums
// when the program ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/vulkan/context.h"

namespace pippin::vulkan {

bool profiling();

/// Timestamps around the dispatches of one recorded command buffer.
class Stopwatch {
  public:
    Stopwatch(Context& context, std::size_t dispatches);
    ~Stopwatch();
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

    /// Records: before the first dispatch, and behind each one.
    void start(VkCommandBuffer commands);
    void lap(VkCommandBuffer commands, std::string name);
    /// Adds up, once the commands have run.
    void collect();

  private:
    Context& context_;
    VkQueryPool pool_ = VK_NULL_HANDLE;
    std::uint32_t size_ = 0;
    std::vector<std::string> names_;
};

}  // namespace pippin::vulkan
