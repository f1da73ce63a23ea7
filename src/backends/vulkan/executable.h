// A plan made ready for a Vulkan device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/gpu/failure.h"
#include "backends/gpu/fallback.h"
#include "backends/gpu/work.h"
#include "backends/vulkan/context.h"
#include "backends/vulkan/pipelines.h"
#include "backends/vulkan/profile.h"
#include "runtime/backend.h"

namespace pippin::vulkan {

/// Commands are recorded once: kernels find what changes from run to run (addresses, arguments) in
/// a table that is filled in before each. There are several tables, each with commands of its own,
/// so that a run can be prepared while others are on the device.
class VulkanExecutable : public runtime::Executable {
  public:
    /// `choices`: how its launches are done (gpu::make_work).
    VulkanExecutable(Context& context, Pipelines& pipelines, const plan::Plan& plan,
                     std::span<const gpu::LaunchChoice> choices);
    ~VulkanExecutable() override;
    std::unique_ptr<runtime::Completion> run(const runtime::Bindings& bindings) override;
    std::int64_t scratch_bytes() const override {
        return scratch_bytes_ ? scratch_offset_ - arena_bytes_ + scratch_bytes_ : 0;
    }

  private:
    friend class Flight;
    static constexpr std::size_t kInstances = 4;

    struct Instance {
        std::unique_ptr<Block> table;  ///< that kernels read, and the error record behind it
        /// That the processor writes to and reads from where it cannot reach the table itself.
        std::unique_ptr<Block> staging, error;
        std::vector<VkCommandBuffer> commands;                ///< one a piece
        std::vector<std::unique_ptr<Stopwatch>> stopwatches;  ///< one a piece, when profiling
        bool watched = false;                                 ///< the commands have stopwatches
        std::uint64_t submission = 0;
    };
    /// Dispatches that go to the device in one piece, then a launch of the processor's (or the
    /// end).
    struct Part {
        std::size_t first = 0, last = 0;  ///< of dispatches_
        std::unique_ptr<gpu::Fallback> fallback;
        std::int32_t launch = -1;  ///< the processor's
        std::size_t first_piece = 0, last_piece = 0;
    };
    /// What one submission does of a part: dispatches, or some groups of one.
    struct Piece {
        std::size_t first = 0, last = 0;           ///< of dispatches_
        std::int64_t first_group = 0, groups = 0;  ///< 0: all
    };

    void cut();
    std::int64_t table_bytes() const;
    std::int64_t error_bytes() const { return gpu::error_bytes(checks_.size()); }
    std::int64_t error_offset() const { return (table_bytes() + 63) / 64 * 64; }
    void record(Instance& instance);
    void fill(Instance& instance, const runtime::Bindings& bindings);
    runtime::Memory slot_memory(std::int32_t slot, const runtime::Bindings& bindings) const;
    void run_fallback(gpu::Fallback& f, const runtime::Bindings& bindings);
    /// Where the processor finds the error record.
    std::byte* error_record(const Instance& instance) const;
    /// Throws if kernels met bad indices, once `launches` are theirs, in order.
    void raise_if_bad(Instance& instance, std::vector<std::int32_t>& launches) const;

    Context& context_;
    Pipelines& pipelines_;
    std::vector<plan::Slot> slots_;
    std::vector<gpu::Dispatch> dispatches_;
    std::vector<std::int64_t> tables_;  ///< where each dispatch's arguments begin, in bytes
    std::vector<VkPipeline> kernels_;
    std::vector<std::string> names_;            ///< of the dispatches, for profiles
    std::vector<recording::WorkPtr> launches_;  ///< that the dispatches belong to
    std::vector<gpu::Check> checks_;
    std::vector<Part> parts_;
    std::vector<Piece> pieces_;
    gpu::Aftermath aftermath_;
    std::string advice_;
    /// The kernels' scratch memory lies behind the plan's arena.
    std::int64_t arena_bytes_ = 0, scratch_offset_ = 0, scratch_bytes_ = 0;
    std::vector<Instance> instances_;
    std::size_t next_ = 0;
};

}  // namespace pippin::vulkan
