// The graph while it is being turned into a plan: nodes by number, what they are fused into, where
// their values lie. Each pass fills in its part.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/node.h"
#include "plan/plan.h"
#include "plan/trace.h"

namespace pippin::plan {

/// A strided way to read a dense value: offset + sum strides[d] * index[d], in elements.
struct View {
    Shape shape;
    Strides strides{};
    std::int64_t offset = 0;
};

/// Reads `from` through one view op; nothing when the op needs the elements moved.
std::optional<View> through_view(const graph::Node& op, const View& from);

/// Which dim of a fused program's space each dim of a node's shape runs along; -1 for extent 1.
using Placement = SmallVec<std::int8_t, 8>;

struct LNode {
    graph::NodePtr node;
    SmallVec<std::int32_t, 3> in;
    std::vector<std::int32_t> users;
    bool target = false;
    Order order = Order::RowMajor;  ///< of its value in memory, if it has one
    std::int32_t input = -1;        ///< which plan input it is
    std::int32_t scalar = -1;       ///< first of its run-time arguments
    // after partition:
    bool stored = false;                 ///< its value is in memory
    std::int32_t unit = -1;              ///< what stores it
    std::vector<std::int32_t> clusters;  ///< fused programs that compute it
};

struct Dim {
    std::int64_t extent = 1;
    bool reduced = false;
};

/// Nodes fused into one program.
struct Cluster {
    std::vector<Dim> dims;
    std::vector<std::int32_t> members;  ///< users before inputs
    std::vector<Placement> placements;  ///< one per member
    bool rows = false;                  ///< goes on with full values after a reduction
    bool channels_last = false;  ///< memory order of its rank-4 space: dim `channel` is innermost
    int channel = -1;
    bool dead = false;  ///< merged into another
    const Placement* placement(std::int32_t n) const {
        for (std::size_t i = 0; i < members.size(); ++i)
            if (members[i] == n) return &placements[i];
        return nullptr;
    }
    bool reduces() const {
        for (auto& d : dims)
            if (d.reduced) return true;
        return false;
    }
};

/// Whether q's reductions run along memory (rows) rather than across it (columns).
bool row_form(const Cluster& q);

/// One thing to schedule: a fused program, a heavy op with its epilogue, or a copy into regions.
struct Unit {
    std::int32_t cluster = -1;           ///< a fused program, or
    std::int32_t node = -1;              ///< a heavy or region (pad, concat) node
    std::vector<std::int32_t> epilogue;  ///< nodes absorbed into a heavy one, in order
    std::vector<std::int32_t> outputs;   ///< nodes it stores
    std::vector<std::int32_t> reads;     ///< stored nodes it reads
};

struct Lowering {
    std::vector<LNode> nodes;  ///< inputs before users
    std::vector<std::int32_t> targets;
    std::vector<Cluster> clusters;
    std::vector<Unit> units;  ///< in order of execution after scheduling
    std::int64_t num_inputs = 0, num_scalars = 0;
    Device device;

    LNode& operator[](std::int32_t i) { return nodes[static_cast<std::size_t>(i)]; }
    const LNode& operator[](std::int32_t i) const { return nodes[static_cast<std::size_t>(i)]; }
    const graph::Node& node(std::int32_t i) const {
        return *nodes[static_cast<std::size_t>(i)].node;
    }
};

/// Values that programs make on the spot: constants, arguments, indices, random numbers.
bool is_inline_source(const graph::Node& n);
/// reshape, permute, expand, slice, flip: read through strides.
bool is_strided_view(const graph::Node& n);
bool is_fusable(const graph::Node& n);

/// The stored (or inline) node under a chain of views, and how its value is read there. The strides
/// are those of `order`; nothing if a reshape in the chain cannot be strided.
struct Resolved {
    std::int32_t base = -1;
    std::optional<View> view;
};
Resolved resolve(const Lowering& l, std::int32_t n);

/// Bytes of a node's value.
std::int64_t bytes_of(const Lowering& l, std::int32_t n);

bool same_memory(const Shape& shape, const Strides& a, const Strides& b);

/// A node that copies its input into memory of its own, in its own order.
extern const graph::OpRecord kCopy;

// --- the passes, in order ---
Lowering number(const Trace& trace, const std::vector<graph::NodePtr>& simplified);
void choose_layouts(Lowering& l);    ///< orders, and copies where an operand must be moved
void absorb_epilogues(Lowering& l);  ///< bias and activation into heavy ops: makes their units
void partition(Lowering& l);         ///< clusters and the other units
void schedule(Lowering& l);          ///< the order of units
Plan emit(Lowering& l, const Trace& trace);

// --- emitting ---

/// A launch whose operands are still nodes.
struct Draft {
    Launch launch;
    std::vector<std::vector<std::int32_t>>
        access_nodes;                         ///< of each segment's accesses; -1: no memory
    std::vector<std::int32_t> operand_nodes;  ///< of a heavy launch
    std::int32_t output_node = -1;            ///< of a heavy launch
    std::vector<std::int32_t> reads, writes;
};
Draft draft_program(const Lowering& l, const Unit& u);
std::vector<Draft> draft_regions(const Lowering& l, const Unit& u);  ///< pad and concat
Draft draft_heavy(const Lowering& l, const Unit& u);
/// Merges equal programs over flat memory into launches of many segments.
void batch(const Lowering& l, std::vector<Draft>& drafts);
/// Gives every value its place and fills in slots.
Plan place_in_memory(const Lowering& l, const Trace& trace, std::vector<Draft> drafts);

/// All of it.
Plan make_plan(const Trace& trace);

}  // namespace pippin::plan
