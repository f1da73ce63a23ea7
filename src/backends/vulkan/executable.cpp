#include "backends/vulkan/executable.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

#include "backends/gpu/advice.h"
#include "pippin/device.h"
#include "pippin/error.h"
#include "profile/launches.h"

namespace pippin::vulkan {

class Flight : public runtime::Completion {
  public:
    Flight(VulkanExecutable& e, VulkanExecutable::Instance& i, std::uint64_t submission)
        : executable_(e), instance_(i), submission_(submission) {}
    void wait() override {
        executable_.context_.wait(submission_);
        for (auto& s : instance_.stopwatches)
            s->collect();
        std::vector<std::int32_t> failed;
        try {
            executable_.raise_if_bad(instance_, failed);
        } catch (...) {
            if (!failed.empty()) launches = executable_.aftermath_.states(failed, false);
            throw;
        }
    }
    std::vector<runtime::LaunchState> without(
        const std::vector<std::int32_t>& lost_inputs) const override {
        return executable_.aftermath_.without(lost_inputs);
    }

  private:
    VulkanExecutable& executable_;
    VulkanExecutable::Instance& instance_;
    std::uint64_t submission_;
};

namespace {

// Enough that it is a training loop.
constexpr std::size_t kRunsBeforeAdvice = 200;

}  // namespace

VulkanExecutable::VulkanExecutable(Context& context, Pipelines& pipelines, const plan::Plan& plan,
                                   std::span<const gpu::LaunchChoice> choices)
    : context_(context),
      pipelines_(pipelines),
      slots_(plan.slots),
      aftermath_(plan),
      advice_(gpu::advice(plan, num_threads())) {
    gpu::Work work = gpu::make_work(plan, features_of(context.caps), choices);
    checks_ = std::move(work.checks);
    arena_bytes_ = plan.arena_bytes;
    scratch_offset_ = gpu::scratch_align(arena_bytes_);
    scratch_bytes_ = work.scratch_bytes;
    const std::vector<recording::WorkPtr> records = recording::describe(plan);
    Part part;
    for (const gpu::Work::Turn& turn : work.order) {
        gpu::Step& s = work.steps[static_cast<std::size_t>(turn.step)];
        if (s.on_cpu) {
            part.last = dispatches_.size();
            part.fallback =
                std::make_unique<gpu::Fallback>(plan, static_cast<std::size_t>(s.launch), s.why);
            part.launch = s.launch;
            parts_.push_back(std::move(part));
            part = {};
            part.first = dispatches_.size();
            continue;
        }
        gpu::Dispatch& d = s.dispatches[static_cast<std::size_t>(turn.dispatch)];
        const auto launch = static_cast<std::size_t>(s.launch);
        names_.push_back(fmt::format("{} [{}] {}",
                                     work.kernels[static_cast<std::size_t>(d.kernel)].name,
                                     d.groups, plan.launches[launch].name));
        launches_.push_back(records[launch]);
        dispatches_.push_back(std::move(d));
    }
    part.last = dispatches_.size();
    parts_.push_back(std::move(part));
    std::int64_t at = 0;
    for (const gpu::Dispatch& d : dispatches_) {
        tables_.push_back(at);
        at += static_cast<std::int64_t>(d.args.size()) * 8;
    }
    tables_.push_back(at);
    cut();
    kernels_ = pipelines_.get(work.kernels);
    instances_.resize(kInstances);
}

// Systems reset a device whose submission runs for some seconds, and a desktop stands still
// meanwhile: none is to take longer than about a second.
void VulkanExecutable::cut() {
    const Capabilities& c = context_.caps;
    for (Part& part : parts_) {
        part.first_piece = pieces_.size();
        Piece piece{part.first, part.first, 0, 0};
        double sum = 0;
        const auto close = [&](std::size_t next) {
            if (piece.last > piece.first) pieces_.push_back(piece);
            piece = {next, next, 0, 0};
            sum = 0;
        };
        for (std::size_t d = part.first; d < part.last; ++d) {
            const gpu::Dispatch& x = dispatches_[d];
            const double seconds = c.seconds(x.operations, x.bytes);
            const auto pieces = static_cast<std::int64_t>(
                std::min(std::ceil(seconds / c.submission_seconds), 256.0));
            if (pieces <= 1 || x.groups == 1) {
                if (sum + seconds > c.submission_seconds) close(d);
                sum += seconds;
                piece.last = d + 1;
                continue;
            }
            // Its groups in parts: within a row of groups, or whole rows.
            close(d);
            std::int64_t each = (x.groups + pieces - 1) / pieces;
            if (each > c.max_groups_x)
                each = (each + c.max_groups_x - 1) / c.max_groups_x * c.max_groups_x;
            for (std::int64_t g = 0; g < x.groups; g += each)
                pieces_.push_back({d, d + 1, g, std::min(each, x.groups - g)});
            close(d + 1);
        }
        close(part.last);
        // One at least: the first commands carry the table, the last ones the error.
        if (pieces_.size() == part.first_piece) pieces_.push_back({part.first, part.last, 0, 0});
        part.last_piece = pieces_.size();
    }
}

VulkanExecutable::~VulkanExecutable() {
    for (Instance& i : instances_) {
        try {
            if (i.submission) context_.wait(i.submission);
        } catch (const Error&) {  // a lost device has ended, too
        }
        context_.free_commands(i.commands);
    }
}

std::int64_t VulkanExecutable::table_bytes() const {
    return std::max<std::int64_t>(tables_.back(), 8);
}

void VulkanExecutable::record(Instance& in) {
    const Capabilities& c = context_.caps;
    const auto block = [&](std::int64_t bytes, std::uint32_t type) {
        auto b = std::make_unique<Block>(context_, bytes, type);
        if (!b->chunk) throw OutOfMemoryError("gpu: no room for the arguments of kernels");
        return b;
    };
    context_.free_commands(in.commands);
    in.commands.clear();
    in.stopwatches.clear();
    in.watched = profiling();
    // Behind the table, where kernels look at it, is the error record. Where the processor can
    // write to the device's memory (a window that may be small), nothing has to be copied.
    in.table = std::make_unique<Block>(context_, error_offset() + error_bytes(), c.table_type);
    if (!in.table->chunk) in.table = block(error_offset() + error_bytes(), c.memory_type);
    const bool staged = !in.table->chunk->host;
    in.staging.reset();
    in.error.reset();
    if (staged) {
        in.staging = block(table_bytes(), c.upload_type);
        in.error = block(error_bytes(), c.readback_type);
    }

    bool first = true;
    for (const Piece& part : pieces_) {
        const VkCommandBuffer commands = context_.new_commands();
        in.commands.push_back(commands);
        VkCommandBufferBeginInfo begin{};
        begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        check(vkBeginCommandBuffer(commands, &begin), "recording a plan");
        const auto barrier = [&](VkPipelineStageFlags from, VkAccessFlags from_access,
                                 VkPipelineStageFlags to, VkAccessFlags to_access) {
            VkMemoryBarrier b{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, from_access, to_access};
            vkCmdPipelineBarrier(commands, from, to, 0, 1, &b, 0, nullptr, 0, nullptr);
        };
        constexpr VkAccessFlags all = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
        if (first && staged) {
            const VkBufferCopy region{0, 0, static_cast<VkDeviceSize>(table_bytes())};
            vkCmdCopyBuffer(commands, in.staging->chunk->buffer, in.table->chunk->buffer, 1,
                            &region);
        }
        if (first && staged && !checks_.empty())
            vkCmdFillBuffer(commands, in.table->chunk->buffer,
                            static_cast<VkDeviceSize>(error_offset()),
                            static_cast<VkDeviceSize>(error_bytes()), 0);
        first = false;
        // After all that was submitted before: runs of plans share memory. Nothing but kernels and
        // copies is; with all stages an H200 takes twice as long.
        barrier(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, all);
        Stopwatch* watch = nullptr;
        // Pieces without a dispatch need not be submitted: their times would be waited for.
        if (in.watched && c.nanoseconds_per_tick > 0 && part.last > part.first) {
            in.stopwatches.push_back(std::make_unique<Stopwatch>(context_, part.last - part.first));
            watch = in.stopwatches.back().get();
            watch->start(commands);
        }
        for (std::size_t d = part.first; d < part.last; ++d) {
            const gpu::Dispatch& dispatch = dispatches_[d];
            // Times of single dispatches are taken one after the other.
            if (d > part.first && (dispatch.waits || watch))
                barrier(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, all);
            const Push push{in.table->chunk->address + static_cast<std::uint64_t>(tables_[d]),
                            static_cast<std::uint32_t>(part.first_group), 0};
            pipelines_.dispatch(commands, kernels_[static_cast<std::size_t>(dispatch.kernel)], push,
                                part.groups > 0 ? part.groups : dispatch.groups);
            if (watch) watch->lap(commands, names_[d], launches_[d]);
        }
        // What later commands read is behind their own barrier; this one is for the processor.
        const bool copies_error = staged && !checks_.empty();
        if (c.unified || !checks_.empty())
            barrier(
                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT);
        if (copies_error) {
            const VkBufferCopy region{static_cast<VkDeviceSize>(error_offset()), 0,
                                      static_cast<VkDeviceSize>(error_bytes())};
            vkCmdCopyBuffer(commands, in.table->chunk->buffer, in.error->chunk->buffer, 1, &region);
            barrier(VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                    VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
        }
        check(vkEndCommandBuffer(commands), "recording a plan");
    }
}

runtime::Memory VulkanExecutable::slot_memory(std::int32_t slot, const runtime::Bindings& b) const {
    const plan::Slot& s = slots_[static_cast<std::size_t>(slot)];
    const auto k = static_cast<std::size_t>(s.index);
    if (s.where == plan::Slot::Where::Input) return b.inputs[k];
    if (s.where == plan::Slot::Where::Output) return b.outputs[k];
    runtime::Memory m = b.arena;
    m.device += static_cast<std::uint64_t>(s.offset);
    if (m.host) m.host = static_cast<char*>(m.host) + s.offset;
    return m;
}

void VulkanExecutable::fill(Instance& in, const runtime::Bindings& b) {
    auto* table =
        reinterpret_cast<std::uint64_t*>((in.staging ? in.staging : in.table)->chunk->host);
    std::vector<std::uint64_t> slots(slots_.size());
    for (std::size_t s = 0; s < slots_.size(); ++s)
        slots[s] = slot_memory(static_cast<std::int32_t>(s), b).device;
    for (const gpu::Dispatch& d : dispatches_)
        for (const gpu::Arg& a : d.args) {
            std::uint64_t v = static_cast<std::uint64_t>(a.value);
            switch (a.kind) {
                case gpu::Arg::Kind::Value:
                    break;
                case gpu::Arg::Kind::Slot:
                    v += slots[static_cast<std::size_t>(a.index)];
                    break;
                case gpu::Arg::Kind::Scratch:
                    v += b.arena.device + static_cast<std::uint64_t>(scratch_offset_);
                    break;
                case gpu::Arg::Kind::Scalar:
                    v = gpu::scalar_bits(b.scalars[static_cast<std::size_t>(a.index)], a.dtype);
                    break;
                case gpu::Arg::Kind::Error:
                    v = in.table->chunk->address + static_cast<std::uint64_t>(error_offset());
                    break;
            }
            *table++ = v;
        }
}

void VulkanExecutable::run_fallback(gpu::Fallback& f, const runtime::Bindings& b) {
    std::vector<void*> memory;
    std::vector<std::vector<std::byte>> copies(f.slots().size());
    for (std::size_t k = 0; k < f.slots().size(); ++k) {
        const runtime::Memory m = slot_memory(f.slots()[k], b);
        if (m.host) {
            memory.push_back(m.host);
            continue;
        }
        const auto bytes = slots_[static_cast<std::size_t>(f.slots()[k])].bytes;
        // A vector's room behind it, as all of the processor's memory has.
        copies[k].resize(static_cast<std::size_t>(bytes) + 64);
        context_.download(copies[k].data(), m, bytes);
        memory.push_back(copies[k].data());
    }
    f.run(memory, b.scalars);
    for (std::size_t k = 0; k < f.slots().size(); ++k)
        if (!copies[k].empty() && f.written()[k])
            context_.upload(slot_memory(f.slots()[k], b), copies[k].data(),
                            slots_[static_cast<std::size_t>(f.slots()[k])].bytes);
}

std::unique_ptr<runtime::Completion> VulkanExecutable::run(const runtime::Bindings& b) {
    context_.check_alive();
    if (next_ == kRunsBeforeAdvice && !advice_.empty()) {
        static std::once_flag told;
        std::call_once(told, [&] { fmt::print(stderr, "pippin: note: {}\n", advice_); });
    }
    Instance& in = instances_[next_++ % kInstances];
    if (in.submission) context_.wait(in.submission);
    if (in.commands.empty() || in.watched != profiling()) record(in);
    fill(in, b);
    if (!checks_.empty()) std::memset(error_record(in), 0, static_cast<std::size_t>(error_bytes()));
    for (std::size_t p = 0; p < parts_.size(); ++p) {
        Part& part = parts_[p];
        for (std::size_t k = part.first_piece; k < part.last_piece; ++k)
            if (k == 0 || pieces_[k].first != pieces_[k].last || !part.fallback)
                in.submission = context_.submit(std::span(&in.commands[k], 1));
        if (!part.fallback) continue;
        std::vector<std::int32_t> failed;
        try {
            context_.wait(in.submission);
            raise_if_bad(in, failed);
            failed = {part.launch};
            run_fallback(*part.fallback, b);
        } catch (const IndexError&) {
            if (!b.failure || failed.empty()) throw;
            b.failure->error = std::current_exception();
            b.failure->launches = aftermath_.states(failed, true);
            return nullptr;
        }
    }
    return std::make_unique<Flight>(*this, in, in.submission);
}

std::byte* VulkanExecutable::error_record(const Instance& in) const {
    return in.error ? in.error->chunk->host : in.table->chunk->host + error_offset();
}

void VulkanExecutable::raise_if_bad(Instance& in, std::vector<std::int32_t>& launches) const {
    const auto word = [&](std::size_t n) {
        std::int64_t w;
        std::memcpy(&w, error_record(in) + 8 * n, sizeof w);
        return w;
    };
    if (checks_.empty() || !word(0)) return;
    std::vector<std::size_t> bad;
    for (std::size_t n = 0; n < checks_.size(); ++n)
        if (word(2 * n + 2)) bad.push_back(n);
    if (bad.empty()) bad.push_back(checks_.size() - 1);
    for (const std::size_t n : bad)
        launches.push_back(checks_[n].launch);
    // It tells of the first in order: later ones may come of what that spoilt.
    const std::int64_t value = word(2 * bad[0] + 3);
    const gpu::Check& c = checks_[bad[0]];
    throw IndexError(
        fmt::format("{}: index {} is out of range [{}, {})", c.op, value, c.low, c.high));
}

}  // namespace pippin::vulkan
