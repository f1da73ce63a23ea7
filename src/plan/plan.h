// A plan: what one flush runs. Launches in order, each with slots for its operands; slots are
// places in input buffers, output buffers or the arena.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/node.h"
#include "plan/program.h"

namespace pippin::plan {

/// Memory order of a dense tensor: row-major, or for rank 4 with the channels innermost (NHWC).
enum class Order : std::uint8_t { RowMajor, ChannelsLast };

using Strides = std::array<std::int64_t, 8>;
Strides dense_strides(const Shape& shape, Order order);

/// A place for bytes during a run.
struct Slot {
    enum class Where : std::uint8_t { Input, Output, Arena } where = Where::Arena;
    std::int32_t index = 0;   ///< which input or output
    std::int64_t offset = 0;  ///< bytes into the arena
    std::int64_t bytes = 0;
};

/// An operand of a heavy launch: a strided view of a slot.
struct Operand {
    std::int32_t slot = -1;
    DType dtype = DType::Float32;
    Shape shape;
    Strides strides{};        ///< in elements
    std::int64_t offset = 0;  ///< in elements
};

/// What a heavy launch does to its result before storing it.
enum class Activation : std::uint8_t { None, Relu, Tanh, Gelu };
struct Epilogue {
    std::int32_t bias = -1;      ///< index into operands: one value per output channel / column
    std::int32_t residual = -1;  ///< index into operands: added after bias, shape of the output
    Activation activation = Activation::None;
};

struct HeavyLaunch {
    const graph::OpRecord* op = nullptr;
    graph::Attrs attrs;
    std::vector<Operand> operands;  ///< the op's inputs, then epilogue operands
    Operand output;
    Epilogue epilogue;
};

/// One run of a program over one set of buffers. Batched launches have several, each a rank-1
/// space of its own extent.
struct Segment {
    std::vector<std::int32_t> slots;  ///< one per access (an Iota's is not read)
    std::int64_t extent = -1;         ///< of the only dim, when the launch is batched
};

struct ProgramLaunch {
    Program program;
    std::vector<Segment> segments;
};

struct Launch {
    std::string name;                    ///< what was fused: "mul+add+relu", "conv2d+bias"
    std::unique_ptr<HeavyLaunch> heavy;  ///< one of the two
    std::unique_ptr<ProgramLaunch> program;
    std::int64_t bytes_moved = 0, flops = 0;
};

struct OutputInfo {
    std::int32_t slot = -1;
    DType dtype = DType::Float32;
    Shape shape;
    Order order = Order::RowMajor;
    std::int32_t donated_input = -1;  ///< takes over that input's buffer, or -1
    std::int32_t same_as_input = -1;  ///< is that input's very value (detach, equal reshape), or -1
    std::int32_t launch = -1;         ///< that writes it last
};

struct Plan {
    std::vector<Slot> slots;
    std::vector<Launch> launches;
    std::vector<OutputInfo> outputs;
    std::int64_t arena_bytes = 0;
    std::int64_t num_inputs = 0, num_outputs = 0,
                 num_scalars = 0;  ///< buffers in, buffers out, arguments
    std::int64_t nodes = 0;        ///< graph nodes it came from
    /// The text explain() gives.
    std::string str() const;
};

}  // namespace pippin::plan
