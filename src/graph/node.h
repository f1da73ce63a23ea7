// The graph: one immutable node per op application. A node has one output.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pippin/device.h"
#include "pippin/dtype.h"
#include "pippin/error.h"
#include "pippin/shape.h"
#include "small_vec.h"

namespace pippin {
struct Variable;
struct Value;  // runtime/value.h: bytes on a device
}  // namespace pippin

namespace pippin::graph {

struct OpRecord;
struct Node;
using NodePtr = std::shared_ptr<Node>;
using Inputs = SmallVec<NodePtr, 3>;

/// What an op needs beside its inputs; all of it is part of a plan's key. Each op record's header
/// comment says what stands where.
struct Attrs {
    SmallVec<std::int64_t, 8> i;
    SmallVec<double, 2> f;
    /// Doubles compare by their bits: a NaN equals itself, and -0.0 is not 0.0.
    bool operator==(const Attrs& o) const {
        if (!(i == o.i) || f.size() != o.f.size()) return false;
        for (std::size_t k = 0; k < f.size(); ++k)
            if (std::bit_cast<std::uint64_t>(f[k]) != std::bit_cast<std::uint64_t>(o.f[k]))
                return false;
        return true;
    }
};

/// 128 bits that stand for everything added, in order.
struct Key {
    std::uint64_t a = 0x9e3779b97f4a7c15u, b = 0xc2b2ae3d27d4eb4fu;
    bool operator==(const Key&) const = default;
    void add(std::uint64_t v) {
        a = (a ^ v) * 0xff51afd7ed558ccdu;
        a ^= a >> 32;
        b = (b + v) * 0xc4ceb9fe1a85ec53u;
        b ^= b >> 29;
    }
};

// What every flush reads of every node comes first: with the counts of the shared_ptr before it,
// two cache lines.
struct Node {
    const OpRecord* op = nullptr;
    Key digest;  ///< of op, dtype, shape and attributes (make_node's nodes only)
    mutable std::uint32_t mark = 0;  ///< scratch of one traversal: which one, and the id there
    mutable std::uint32_t id = 0;
    std::shared_ptr<const Value> value;  ///< set once computed (or from the start, for a leaf)
    Inputs inputs;
    DType dtype = DType::Float32;
    Device device;
    // --- state; changed by the thread that owns the graph, under its flush or backward ---
    bool requires_grad = false;
    bool grad_leaf = false;  ///< gradients stop here: the value of a parameter
    bool consumed = false;   ///< backward went through; its graph is given free

    Shape shape;
    Attrs attrs;
    /// Run-time arguments: values that are not part of a plan's key (raw bits of a double or a
    /// 64-bit integer; the op says which).
    std::uint64_t run_args[2] = {0, 0};
    std::weak_ptr<Variable> leaf_of;  ///< the variable whose grad a gradient for this node adds to

    ~Node();
    bool is_leaf() const { return inputs.empty(); }
};

/// Shape and dtype of an op's output, from its rule.
struct Type {
    DType dtype = DType::Float32;
    Shape shape;
};

enum class Kind : std::uint8_t {
    Source,
    View,
    Elementwise,
    Reduce,
    Heavy,
    Random,
    Index,
    Composite
};

/// One dense row-major array of doubles (or exact int64s) of the reference implementation.
struct RefArray {
    Shape shape;
    std::vector<double> data;
};

/// Everything there is to know of an op.
struct OpRecord {
    const char* name;
    Kind kind;
    /// Checks inputs and attributes (raising ValueError or TypeError in plain words, without the
    /// op's name: the caller adds it) and gives the output's type.
    Type (*infer)(std::span<const NodePtr> inputs, const Attrs& attrs);
    /// Given a node and d(loss)/d(node), emits d(loss)/d(input) for each input; null where there is
    /// none. Only asked for floating-point nodes. Null for ops without a gradient.
    SmallVec<NodePtr, 3> (*gradient)(const NodePtr& node, const NodePtr& dy);
    /// The op on fp64 arrays, written for plainness.
    RefArray (*reference)(const Node& node, std::span<const RefArray> inputs);
    /// Composite only: the same value in primitive ops.
    NodePtr (*decompose)(const Node& node);
    /// Elementwise only: plan::Opcode of the instruction, as an integer.
    int opcode = -1;
};

/// Every record, for tests that walk the registry.
std::span<const OpRecord* const> registry();

/// An empty node from the thread's free list.
std::shared_ptr<Node> new_node();

/// Whether nodes made by this thread record gradients.
bool& grad_mode();

/// Checks, infers and makes a node; requires_grad if an input does, the dtype is floating point and
/// grad_mode() is on. Errors gain the op's name and the inputs' shapes and dtypes.
NodePtr make_node(const OpRecord& op, Inputs inputs, Attrs attrs = {});
/// A leaf of known value.
NodePtr make_leaf(std::shared_ptr<const Value> value, DType dtype, const Shape& shape,
                  Device device);

}  // namespace pippin::graph
