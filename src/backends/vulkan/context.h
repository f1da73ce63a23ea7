// One opened device: its queue, memory and what all executables share.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/capabilities.h"
#include "runtime/memory.h"

namespace pippin::vulkan {

/// Throws DeviceError (OutOfMemoryError where memory ran out) unless the call went well.
void check(VkResult result, const char* what);

/// A piece of device memory with a buffer over all of it.
struct Chunk {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    std::uint64_t address = 0;
    std::byte* host = nullptr;
    std::int64_t bytes = 0;
    bool shared_by_many = false;
    std::map<std::int64_t, std::int64_t> free;  ///< offset to size, where many share it
};

/// A block of its own, outside of tensors' memory.
class Block;

class Context {
  public:
    Context(VkPhysicalDevice physical, Capabilities capabilities);
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    const Capabilities caps;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    bool calibrated_timestamps = false;  ///< VK_EXT_calibrated_timestamps is there

    // --- work; any thread ---

    /// Gives command buffers to the queue; the number of the submission.
    std::uint64_t submit(std::span<const VkCommandBuffer> commands);
    /// Blocks until a submission and all before it have ended.
    void wait(std::uint64_t submission);
    std::uint64_t finished() const;
    /// DeviceError if the device is lost.
    void check_alive() const;
    VkCommandBuffer new_commands();
    void free_commands(std::span<const VkCommandBuffer> commands);

    // --- memory; any thread ---

    runtime::Memory allocate(std::int64_t bytes);
    void free(const runtime::Memory& memory, std::int64_t bytes);
    void upload(const runtime::Memory& to, const void* from, std::int64_t bytes);
    void download(void* to, const runtime::Memory& from, std::int64_t bytes);

    std::unique_ptr<Chunk> new_chunk(std::int64_t bytes, std::uint32_t memory_type);
    void destroy(Chunk& chunk);

  private:
    struct Staged {
        VkCommandBuffer commands;
        std::uint64_t submission;
    };
    VkCommandBuffer copy_commands();  ///< under staging_mutex_
    void open();

    VkQueue queue_ = VK_NULL_HANDLE;
    VkSemaphore timeline_ = VK_NULL_HANDLE;
    std::mutex queue_mutex_;
    std::uint64_t submitted_ = 0;  // under it
    mutable std::atomic<bool> lost_{false};

    std::mutex pool_mutex_;
    VkCommandPool pool_ = VK_NULL_HANDLE;

    std::mutex memory_mutex_;
    std::vector<std::unique_ptr<Chunk>> chunks_;

    std::mutex staging_mutex_;
    std::unique_ptr<Chunk> up_, down_;
    std::int64_t up_at_ = 0;
    struct InUse {
        std::int64_t begin, end;
        std::uint64_t submission;
    };
    std::vector<InUse> up_used_;
    std::vector<Staged> copies_;
};

class Block {
  public:
    Block(Context& context, std::int64_t bytes, std::uint32_t memory_type)
        : context_(context), chunk(context.new_chunk(bytes, memory_type)) {}
    ~Block() {
        if (chunk) context_.destroy(*chunk);
    }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

  private:
    Context& context_;

  public:
    std::unique_ptr<Chunk> chunk;  ///< null when there was no room
};

}  // namespace pippin::vulkan
