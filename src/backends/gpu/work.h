// What a GPU does for a plan, before any interface (Vulkan, Metal, CUDA) has a say: kernels, and
// dispatches of them whose arguments are filled in for each run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/gpu/choice.h"
#include "backends/gpu/kernel.h"
#include "plan/plan.h"

namespace pippin::gpu {

/// What the writers may use on a device. Every GPU has the defaults.
struct Features {
    bool float64 = false;
    bool large_tiles = false;  ///< 200 registers a thread are there
    bool small_tiles = false;  ///< for software, whose compilers are slow with long kernels
    bool matrices = false;     ///< products of 16 x 16 float16, by subgroups of 32
    int shared_bytes = 32768;
    std::int64_t parallel_groups = 256;  ///< groups of 256 threads that keep it busy
    std::int64_t max_loop = 60000;       ///< iterations of one thread in one dispatch
    /// Convolutions of 3 x 3 that go by Winograd's algorithm: of so many tiles of 2 x 2 pixels, and
    /// with input channels times output channels over their sum being so much.
    std::int64_t winograd_tiles = 1024, winograd_channels = 48;
    /// Scratch for Winograd's tiles, or for attention's scores, at a time; 0: attention keeps no
    /// scores.
    std::int64_t tile_bytes = std::int64_t{96} << 20;
};

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
/// Places in scratch memory begin at multiples of 256 bytes.
inline std::int64_t scratch_align(std::int64_t bytes) { return ceil_div(bytes, 256) * 256; }
/// Of `all` things in parts of at most `most` (from 1 on), how many a part has if all are alike.
inline std::int64_t even_part(std::int64_t all, std::int64_t most) {
    return ceil_div(all, ceil_div(all, most));
}

/// One 64-bit argument of a dispatch.
struct Arg {
    enum class Kind : std::uint8_t {
        Value,    ///< `value` itself
        Slot,     ///< address of a plan's slot, plus `value` bytes
        Scratch,  ///< address of the executable's scratch memory, plus `value` bytes
        Scalar,   ///< run-time argument `index` as `dtype` (Float64: its bits)
        Error,    ///< address of the error record
    } kind = Kind::Value;
    std::int32_t index = 0;
    std::int64_t value = 0;
    DType dtype = DType::Float64;
};

inline Arg value_arg(std::int64_t v) { return {Arg::Kind::Value, 0, v, DType::Int64}; }
inline Arg slot_arg(std::int32_t slot, std::int64_t bytes) {
    return {Arg::Kind::Slot, slot, bytes, DType::Int64};
}
inline Arg scratch_arg(std::int64_t bytes) { return {Arg::Kind::Scratch, 0, bytes, DType::Int64}; }
inline Arg scalar_arg(std::int32_t index, DType t) { return {Arg::Kind::Scalar, index, 0, t}; }
inline Arg error_arg() { return {Arg::Kind::Error, 0, 0, DType::Int64}; }

struct Dispatch {
    std::int32_t kernel = -1;
    std::int64_t groups = 0;
    std::vector<Arg> args;  ///< args[0] is the number of groups
    bool waits = true;      ///< for all before it in Work::order (hazards.h)
    bool guarded = false;   ///< does nothing once an index was bad (failure.h)
    std::int32_t launch = -1;
    double operations = 0, bytes = 0;  ///< roughly, at most; made by make_work()
};

/// A run-time argument (the bits of a double, or a 64-bit word) as kernels get it.
std::uint64_t scalar_bits(std::uint64_t argument, DType dtype);

/// The error record: words of 64 bits, at first all zero. Of a bad index, its thread writes: word 0
/// is 1; words 2 n + 2 and 2 n + 3, for check n, are 1 and the index. No atomics: who comes last
/// may win.
constexpr std::int64_t error_bytes(std::size_t checks) {
    return 16 * (1 + static_cast<std::int64_t>(checks));
}
struct Check {
    std::string op;
    std::int64_t low = 0, high = 0;  ///< the range that the index is not in
    std::int32_t launch = -1;        ///< that met it; made by make_work()
};

/// One launch of the plan: dispatches in order, or (none) a launch that the processor runs.
struct Step {
    std::int32_t launch = 0;
    std::vector<Dispatch> dispatches;
    std::int64_t scratch_from = 0, scratch_bytes = 0;  ///< its part of the scratch memory
    bool on_cpu = false;
    std::string why;      ///< it is on the CPU
    LaunchChoice choice;  ///< how it is to be done, where there are several ways
    Taken taken;          ///< how it is done
};

struct Work {
    std::vector<KernelSource> kernels;
    std::vector<Step> steps;
    std::vector<Check> checks;
    std::int64_t scratch_bytes = 0;  ///< of the step that is being written, then of all

    /// One dispatch of a step, or (-1) a step of the processor's.
    struct Turn {
        std::int32_t step, dispatch;
    };
    std::vector<Turn> order;  ///< in which all of it goes to the device (hazards.h)

    /// The number of a kernel, an equal one's if there is one.
    std::int32_t add(KernelSource kernel);
};

/// A step's pieces of scratch memory, one behind the other.
class ScratchPlaces {
  public:
    explicit ScratchPlaces(Work& w) : w_(w) {}
    std::int64_t reserve(std::int64_t bytes) {
        const std::int64_t at = end_;
        end_ += scratch_align(bytes);
        w_.scratch_bytes = std::max(w_.scratch_bytes, end_);
        return at;
    }
    std::int64_t end() const { return end_; }

  private:
    Work& w_;
    std::int64_t end_ = 0;
};

/// Work for all launches of a plan. Launches that write over what must outlive a failed run do
/// nothing once an index was bad (failure.h). `choices`: one a launch, or none.
Work make_work(const plan::Plan& plan, const Features& features,
               std::span<const LaunchChoice> choices = {});

// --- the writers; each throws Error for what it has no kernel for ---

void write_map(Work& w, Step& s, const plan::ProgramLaunch& l, const Features& f);
void write_reduce(Work& w, Step& s, const plan::ProgramLaunch& l, const Features& f);
/// Heavy launches; false where there is no kernel for the op.
bool write_heavy(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f);

}  // namespace pippin::gpu
