// Device memory: chunks of it, blocks within chunks, staging in both directions.
#include <algorithm>
#include <cstring>

#include "backends/vulkan/context.h"
#include "pippin/error.h"

namespace pippin::vulkan {
namespace {

// Drivers allow some thousand allocations in all, so that small blocks share one.
constexpr std::int64_t kChunk = std::int64_t{16} << 20;
constexpr std::int64_t kLargestShared = std::int64_t{1} << 20;
constexpr std::int64_t kAlign = 256;
constexpr std::int64_t kStaging = std::int64_t{64} << 20;
constexpr std::int64_t kPiece = std::int64_t{16} << 20;  // copied at a time

std::int64_t aligned(std::int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

}  // namespace

// Null when there is no room.
std::unique_ptr<Chunk> Context::new_chunk(std::int64_t bytes, std::uint32_t memory_type) {
    auto c = std::make_unique<Chunk>();
    c->bytes = aligned(std::max<std::int64_t>(bytes, 1));
    VkBufferCreateInfo buffer{};
    buffer.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    buffer.size = static_cast<VkDeviceSize>(c->bytes);
    buffer.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                   VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    buffer.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    if (vkCreateBuffer(device, &buffer, nullptr, &c->buffer) < 0) return nullptr;
    VkMemoryRequirements need;
    vkGetBufferMemoryRequirements(device, c->buffer, &need);
    VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, nullptr,
                                    VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT, 0};
    VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags, need.size,
                              memory_type};
    if (!(need.memoryTypeBits >> memory_type & 1) ||
        vkAllocateMemory(device, &info, nullptr, &c->memory) < 0 ||
        vkBindBufferMemory(device, c->buffer, c->memory, 0) < 0) {
        destroy(*c);
        return nullptr;
    }
    VkPhysicalDeviceMemoryProperties m;
    vkGetPhysicalDeviceMemoryProperties(physical, &m);
    const bool mapped = memory_type != caps.memory_type || caps.unified;
    if (mapped &&
        (m.memoryTypes[memory_type].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT)) {
        void* host = nullptr;
        if (vkMapMemory(device, c->memory, 0, VK_WHOLE_SIZE, 0, &host) < 0) {
            destroy(*c);
            return nullptr;
        }
        c->host = static_cast<std::byte*>(host);
    }
    const VkBufferDeviceAddressInfo address{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, nullptr,
                                            c->buffer};
    c->address = vkGetBufferDeviceAddress(device, &address);
    return c;
}

void Context::destroy(Chunk& c) {
    if (c.buffer) vkDestroyBuffer(device, c.buffer, nullptr);
    if (c.memory) vkFreeMemory(device, c.memory, nullptr);  // unmaps it, too
    c.buffer = VK_NULL_HANDLE;
    c.memory = VK_NULL_HANDLE;
}

runtime::Memory Context::allocate(std::int64_t bytes) {
    bytes = aligned(std::max<std::int64_t>(bytes, 1));
    std::lock_guard lock(memory_mutex_);
    const auto place = [](Chunk& c, std::int64_t offset) {
        return runtime::Memory{c.host ? c.host + offset : nullptr,
                               c.address + static_cast<std::uint64_t>(offset), &c};
    };
    const bool shares = bytes <= kLargestShared;
    if (shares)
        for (auto& c : chunks_) {
            if (!c->shared_by_many) continue;
            for (auto it = c->free.begin(); it != c->free.end(); ++it) {
                const auto [offset, size] = *it;
                if (size < bytes) continue;
                c->free.erase(it);
                if (size > bytes) c->free[offset + bytes] = size - bytes;
                return place(*c, offset);
            }
        }
    std::unique_ptr<Chunk> fresh = new_chunk(shares ? kChunk : bytes, caps.memory_type);
    if (!fresh) return {};
    Chunk& c = *fresh;
    c.shared_by_many = shares;
    if (shares) c.free[bytes] = c.bytes - bytes;
    chunks_.push_back(std::move(fresh));
    return place(c, 0);
}

void Context::free(const runtime::Memory& memory, std::int64_t bytes) {
    if (!memory) return;
    bytes = aligned(std::max<std::int64_t>(bytes, 1));
    std::lock_guard lock(memory_mutex_);
    auto* c = static_cast<Chunk*>(memory.handle);
    const auto it =
        std::find_if(chunks_.begin(), chunks_.end(), [&](auto& x) { return x.get() == c; });
    bool empty = !c->shared_by_many;
    if (c->shared_by_many) {
        auto offset = static_cast<std::int64_t>(memory.device - c->address);
        // Joins free neighbours.
        auto next = c->free.lower_bound(offset);
        if (next != c->free.end() && next->first == offset + bytes) {
            bytes += next->second;
            next = c->free.erase(next);
        }
        if (next != c->free.begin()) {
            auto before = std::prev(next);
            if (before->first + before->second == offset) {
                offset = before->first;
                bytes += before->second;
                c->free.erase(before);
            }
        }
        c->free[offset] = bytes;
        empty = bytes == c->bytes;
    }
    if (!empty || it == chunks_.end()) return;
    destroy(*c);
    chunks_.erase(it);
}

// --- staging ---

VkCommandBuffer Context::copy_commands() {
    const std::uint64_t done = finished();
    for (Staged& s : copies_)
        if (s.submission <= done) {
            s.submission = UINT64_MAX;  // taken; the caller says until when
            return s.commands;
        }
    copies_.push_back({new_commands(), UINT64_MAX});
    return copies_.back().commands;
}

namespace {

void begin(VkCommandBuffer commands) {
    VkCommandBufferBeginInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    check(vkBeginCommandBuffer(commands, &info), "recording a copy");
}

void barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags from_access,
             VkPipelineStageFlags to, VkAccessFlags to_access) {
    VkMemoryBarrier b{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, from_access, to_access};
    vkCmdPipelineBarrier(commands, from, to, 0, 1, &b, 0, nullptr, 0, nullptr);
}

}  // namespace

void Context::upload(const runtime::Memory& to, const void* from, std::int64_t bytes) {
    if (bytes <= 0) return;
    if (to.host) {
        std::memcpy(to.host, from, static_cast<std::size_t>(bytes));
        return;
    }
    check_alive();
    std::lock_guard lock(staging_mutex_);
    if (!up_) up_ = new_chunk(kStaging, caps.upload_type);
    if (!up_ || !up_->host) throw OutOfMemoryError("gpu: no room for staging memory");
    auto* chunk = static_cast<Chunk*>(to.handle);
    auto offset = static_cast<std::int64_t>(to.device - chunk->address);
    const auto* source = static_cast<const std::byte*>(from);
    while (bytes > 0) {
        const std::int64_t n = std::min(bytes, kPiece), room = aligned(n);
        if (up_at_ + room > kStaging) up_at_ = 0;
        const std::int64_t end = up_at_ + room;
        for (const InUse& u : up_used_)
            if (u.begin < end && up_at_ < u.end) wait(u.submission);
        const std::uint64_t done = finished();
        std::erase_if(up_used_, [&](const InUse& u) { return u.submission <= done; });
        std::memcpy(up_->host + up_at_, source, static_cast<std::size_t>(n));
        VkCommandBuffer commands = copy_commands();
        begin(commands);
        const VkBufferCopy region{static_cast<VkDeviceSize>(up_at_),
                                  static_cast<VkDeviceSize>(offset), static_cast<VkDeviceSize>(n)};
        // What is run before may still read the memory that this block once was.
        barrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
        vkCmdCopyBuffer(commands, up_->buffer, chunk->buffer, 1, &region);
        barrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
        check(vkEndCommandBuffer(commands), "recording a copy");
        const std::uint64_t submission = submit(std::span(&commands, 1));
        for (Staged& s : copies_)
            if (s.commands == commands) s.submission = submission;
        up_used_.push_back({up_at_, end, submission});
        up_at_ = end;
        source += n;
        offset += n;
        bytes -= n;
    }
}

void Context::download(void* to, const runtime::Memory& from, std::int64_t bytes) {
    if (bytes <= 0) return;
    check_alive();
    if (from.host) {
        std::memcpy(to, from.host, static_cast<std::size_t>(bytes));
        return;
    }
    std::lock_guard lock(staging_mutex_);
    if (!down_) down_ = new_chunk(kPiece, caps.readback_type);
    if (!down_ || !down_->host) throw OutOfMemoryError("gpu: no room for staging memory");
    auto* chunk = static_cast<Chunk*>(from.handle);
    auto offset = static_cast<std::int64_t>(from.device - chunk->address);
    auto* target = static_cast<std::byte*>(to);
    while (bytes > 0) {
        const std::int64_t n = std::min(bytes, kPiece);
        VkCommandBuffer commands = copy_commands();
        begin(commands);
        const VkBufferCopy region{static_cast<VkDeviceSize>(offset), 0,
                                  static_cast<VkDeviceSize>(n)};
        barrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT);
        vkCmdCopyBuffer(commands, chunk->buffer, down_->buffer, 1, &region);
        barrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
        check(vkEndCommandBuffer(commands), "recording a copy");
        const std::uint64_t submission = submit(std::span(&commands, 1));
        for (Staged& s : copies_)
            if (s.commands == commands) s.submission = submission;
        wait(submission);
        std::memcpy(target, down_->host, static_cast<std::size_t>(n));
        target += n;
        offset += n;
        bytes -= n;
    }
}

}  // namespace pippin::vulkan
