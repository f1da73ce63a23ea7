// Where the device's time goes: every dispatch is measured while somebody records (PIPPIN_PROFILE,
// Profile), and where PIPPIN_GPU_PROFILE=1 asks for sums when the program ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/vulkan/context.h"
#include "profile/recorder.h"

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
    void lap(VkCommandBuffer commands, std::string name, recording::WorkPtr launch);
    /// Adds up and records, once the commands have run.
    void collect();

  private:
    void record(const std::vector<std::uint64_t>& ticks) const;

    Context& context_;
    VkQueryPool pool_ = VK_NULL_HANDLE;
    std::uint32_t size_ = 0;
    std::vector<std::string> names_;
    std::vector<recording::WorkPtr> launches_;  ///< that the dispatches belong to
};

}  // namespace pippin::vulkan
