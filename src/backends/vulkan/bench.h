// A Vulkan device as the tuner's bench: works that run alone, between timestamps, on the queue that
// everything else goes to.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "backends/gpu/trial.h"
#include "backends/vulkan/context.h"
#include "backends/vulkan/pipelines.h"

namespace pippin::vulkan {

class DeviceBench : public gpu::Bench {
  public:
    DeviceBench(Context& context, Pipelines& pipelines);
    ~DeviceBench() override;
    DeviceBench(const DeviceBench&) = delete;
    DeviceBench& operator=(const DeviceBench&) = delete;

    std::int64_t most_bytes() const override;
    bool is_brief(double operations, double bytes) const override;
    bool reserve(std::int64_t bytes) override;
    std::vector<std::string> prepare(std::span<const gpu::Work* const> works) override;
    double run(const gpu::Work& work, std::span<const std::int64_t> slots, std::int64_t scratch,
               int times) override;
    void read(void* to, std::int64_t from, std::int64_t bytes) override;
    void keep(const gpu::Work& work) override;
    void forget() override;
    void release() override;

  private:
    /// Arguments of all dispatches, where kernels read them; the staging copy where the processor
    /// cannot write there.
    void write_table(const gpu::Work& work, std::span<const std::int64_t> slots,
                     std::int64_t scratch);
    void record(VkCommandBuffer commands, const gpu::Work& work, int times) const;

    Context& context_;
    Pipelines& pipelines_;
    VkQueryPool ticks_ = VK_NULL_HANDLE;
    std::uint32_t tick_bits_ = 64;
    std::unique_ptr<Block> memory_, table_, staging_;
    std::int64_t table_bytes_ = 0;
    std::unordered_map<const gpu::Work*, std::vector<VkPipeline>> prepared_;
};

}  // namespace pippin::vulkan
