// Kernels made ready: from source text to pipelines, with what was compiled before kept on disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/gpu/kernel.h"
#include "backends/gpu/text_key.h"
#include "backends/vulkan/context.h"

namespace pippin::vulkan {

/// Push constants of every kernel.
struct Push {
    std::uint64_t arguments = 0;  ///< address
    std::uint32_t first_group = 0, unused = 0;
};

/// Where files are kept from program to program; empty: nowhere.
std::filesystem::path cache_folder();

class Pipelines {
  public:
    explicit Pipelines(Context& context);

    /// One pipeline a kernel, those that are new compiled by all cores.
    std::vector<VkPipeline> get(const std::vector<gpu::KernelSource>& kernels);
    /// The same for kernels of which most are not needed again. They are there until drop_tried(),
    /// but for those that keep() makes as good as compiled by get().
    struct Tried {
        VkPipeline pipeline = VK_NULL_HANDLE;
        std::string error;  ///< why there is none
    };
    std::vector<Tried> try_all(const std::vector<gpu::KernelSource>& kernels);
    void keep(const std::vector<gpu::KernelSource>& kernels);
    void drop_tried();
    /// Records a dispatch of `groups` groups from push.first_group on. DeviceError where the device
    /// takes fewer.
    void dispatch(VkCommandBuffer commands, VkPipeline kernel, const Push& push,
                  std::int64_t groups) const;
    std::size_t count();

  private:
    using Key = gpu::TextKey;
    using Hash = gpu::TextKey::Hash;
    // With a driver's cache of its own, which joins the others if it is kept.
    struct Trial {
        Tried result;
        VkPipelineCache cache = VK_NULL_HANDLE;
        std::vector<std::uint32_t> spirv;
    };
    std::string render(const gpu::KernelSource& kernel) const;
    VkPipeline make(const std::vector<std::uint32_t>& spirv, VkPipelineCache cache) const;
    Trial try_one(const std::string& text, std::vector<std::uint32_t> spirv) const;
    void destroy(Trial& trial) const;
    void load();
    void save();

    Context& context_;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkPipelineCache cache_ = VK_NULL_HANDLE;
    std::mutex mutex_;
    std::unordered_map<Key, VkPipeline, Hash> pipelines_;
    std::unordered_map<Key, std::vector<std::uint32_t>, Hash> spirv_;  // what the file holds
    std::unordered_map<Key, Trial, Hash> tried_;
    bool unsaved_ = false;                           // keep() has added something
    std::filesystem::path spirv_file_, cache_file_;  // empty: nothing is kept
};

}  // namespace pippin::vulkan
