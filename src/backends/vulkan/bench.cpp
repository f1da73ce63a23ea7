#include "backends/vulkan/bench.h"

#include <algorithm>

#include "pippin/error.h"

namespace pippin::vulkan {

DeviceBench::DeviceBench(Context& context, Pipelines& pipelines)
    : context_(context), pipelines_(pipelines) {}

DeviceBench::~DeviceBench() {
    release();
    if (ticks_) vkDestroyQueryPool(context_.device, ticks_, nullptr);
}

// The rest is the program's, which may have taken it already.
std::int64_t DeviceBench::most_bytes() const { return context_.caps.memory_bytes / 4; }

// Plans cut what is longer than submission_seconds; systems are more patient than that, and the
// guess is a cautious one.
bool DeviceBench::is_brief(double operations, double bytes) const {
    return context_.caps.seconds(operations, bytes) <= 2 * context_.caps.submission_seconds;
}

bool DeviceBench::reserve(std::int64_t bytes) {
    if (memory_ && memory_->chunk->bytes >= bytes) return true;
    memory_.reset();
    memory_ = std::make_unique<Block>(context_, bytes, context_.caps.memory_type);
    if (!memory_->chunk) memory_.reset();
    return memory_ != nullptr;
}

std::vector<std::string> DeviceBench::prepare(std::span<const gpu::Work* const> works) {
    std::vector<gpu::KernelSource> kernels;
    for (const gpu::Work* w : works)
        kernels.insert(kernels.end(), w->kernels.begin(), w->kernels.end());
    const std::vector<Pipelines::Tried> made = pipelines_.try_all(kernels);
    std::vector<std::string> errors(works.size());
    std::size_t at = 0;
    for (std::size_t n = 0; n < works.size(); ++n) {
        std::vector<VkPipeline>& own = prepared_[works[n]];
        own.clear();
        for (std::size_t k = 0; k < works[n]->kernels.size(); ++k, ++at) {
            own.push_back(made[at].pipeline);
            if (!made[at].error.empty()) errors[n] = made[at].error;
        }
    }
    return errors;
}

void DeviceBench::write_table(const gpu::Work& work, std::span<const std::int64_t> slots,
                              std::int64_t scratch) {
    const std::uint64_t base = memory_->chunk->address;
    std::vector<std::uint64_t> table;
    for (const gpu::Dispatch& d : work.steps[0].dispatches)
        for (const gpu::Arg& a : d.args) {
            auto v = static_cast<std::uint64_t>(a.value);
            if (a.kind == gpu::Arg::Kind::Slot)
                v += base + static_cast<std::uint64_t>(slots[static_cast<std::size_t>(a.index)]);
            else if (a.kind == gpu::Arg::Kind::Scratch)
                v += base + static_cast<std::uint64_t>(scratch);
            else if (a.kind != gpu::Arg::Kind::Value)
                throw DeviceError("gpu: a trial has no such argument");
            table.push_back(v);
        }
    const auto bytes = static_cast<std::int64_t>(table.size() * 8);
    if (bytes > table_bytes_) {
        table_ = std::make_unique<Block>(context_, bytes, context_.caps.table_type);
        if (!table_->chunk)
            table_ = std::make_unique<Block>(context_, bytes, context_.caps.memory_type);
        staging_.reset();
        if (table_->chunk && !table_->chunk->host)
            staging_ = std::make_unique<Block>(context_, bytes, context_.caps.upload_type);
        table_bytes_ = 0;
        if (!table_->chunk || (staging_ && !staging_->chunk))
            throw OutOfMemoryError("gpu: no room for the arguments of kernels");
        table_bytes_ = bytes;
    }
    std::ranges::copy(
        table, reinterpret_cast<std::uint64_t*>((staging_ ? staging_ : table_)->chunk->host));
}

void DeviceBench::record(VkCommandBuffer commands, const gpu::Work& work, int times) const {
    const auto barrier = [&](VkPipelineStageFlags from, VkPipelineStageFlags to) {
        VkMemoryBarrier b{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr,
                          VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_MEMORY_READ_BIT,
                          VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_MEMORY_READ_BIT};
        // As between a plan's launches, whose cost it is part of.
        if (from == to)
            b.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
            b.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
        vkCmdPipelineBarrier(commands, from, to, 0, 1, &b, 0, nullptr, 0, nullptr);
    };
    constexpr auto shader = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    check(vkBeginCommandBuffer(commands, &begin), "recording a trial");
    if (ticks_) vkCmdResetQueryPool(commands, ticks_, 0, 2);
    if (staging_) {
        const VkBufferCopy region{0, 0, static_cast<VkDeviceSize>(table_bytes_)};
        vkCmdCopyBuffer(commands, staging_->chunk->buffer, table_->chunk->buffer, 1, &region);
    }
    barrier(VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, shader);
    // Once all that came before has ended.
    if (ticks_) vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, ticks_, 0);
    const std::vector<VkPipeline>& kernels = prepared_.at(&work);
    for (int t = 0; t < times; ++t) {
        std::uint64_t at = table_->chunk->address;
        bool first = t == 0;
        for (const gpu::Dispatch& d : work.steps[0].dispatches) {
            if (!first && (d.waits || &d == work.steps[0].dispatches.data()))
                barrier(shader, shader);
            first = false;
            pipelines_.dispatch(commands, kernels[static_cast<std::size_t>(d.kernel)], {at, 0, 0},
                                d.groups);
            at += d.args.size() * 8;
        }
    }
    if (ticks_) vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, ticks_, 1);
    barrier(shader, VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT);
    check(vkEndCommandBuffer(commands), "recording a trial");
}

double DeviceBench::run(const gpu::Work& work, std::span<const std::int64_t> slots,
                        std::int64_t scratch, int times) {
    if (context_.caps.nanoseconds_per_tick > 0 && !ticks_) {
        VkQueryPoolCreateInfo info{};
        info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
        info.queryType = VK_QUERY_TYPE_TIMESTAMP;
        info.queryCount = 2;
        check(vkCreateQueryPool(context_.device, &info, nullptr, &ticks_), "creating timestamps");
        std::uint32_t n = 0;
        vkGetPhysicalDeviceQueueFamilyProperties(context_.physical, &n, nullptr);
        std::vector<VkQueueFamilyProperties> families(n);
        vkGetPhysicalDeviceQueueFamilyProperties(context_.physical, &n, families.data());
        tick_bits_ = families[context_.caps.compute_family].timestampValidBits;
    }
    write_table(work, slots, scratch);
    const VkCommandBuffer commands = context_.new_commands();
    const auto done = [&] { context_.free_commands(std::span(&commands, 1)); };
    std::uint64_t ticks[2] = {0, 0};
    try {
        record(commands, work, times);
        context_.wait(context_.submit(std::span(&commands, 1)));
        if (ticks_)
            check(vkGetQueryPoolResults(context_.device, ticks_, 0, 2, sizeof ticks, ticks, 8,
                                        VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                  "reading timestamps");
    } catch (...) {
        done();
        throw;
    }
    done();
    const std::uint32_t unused = 64 - tick_bits_;  // the counter's upper bits may be missing
    return static_cast<double>((ticks[1] - ticks[0]) << unused >> unused) *
           context_.caps.nanoseconds_per_tick * 1e-9;
}

void DeviceBench::read(void* to, std::int64_t from, std::int64_t bytes) {
    Chunk& c = *memory_->chunk;
    context_.download(
        to, {c.host ? c.host + from : nullptr, c.address + static_cast<std::uint64_t>(from), &c},
        bytes);
}

void DeviceBench::keep(const gpu::Work& work) { pipelines_.keep(work.kernels); }

void DeviceBench::forget() {
    prepared_.clear();
    pipelines_.drop_tried();
}

void DeviceBench::release() {
    forget();
    memory_.reset();
    table_.reset();
    staging_.reset();
    table_bytes_ = 0;
}

}  // namespace pippin::vulkan
