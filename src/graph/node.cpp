// Making and freeing nodes.
#include "graph/node.h"

#include <utility>

namespace pippin::graph {
namespace {

std::string device_name(Device d) {
    return d.type() == Device::Type::CPU ? "cpu" : "gpu:" + std::to_string(d.index());
}

// "matmul: <why> (inputs float32[2, 3], float32[4, 5])"
std::string describe(const OpRecord& op, const Inputs& inputs, const std::string& why) {
    std::string s = std::string(op.name) + ": " + why;
    if (inputs.empty()) return s;
    s += inputs.size() == 1 ? " (input " : " (inputs ";
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (k) s += ", ";
        if (!inputs[k]) {
            s += "undefined";
            continue;
        }
        s += std::string(name_of(inputs[k]->dtype)) + inputs[k]->shape.str();
    }
    return s + ")";
}

void check_inputs(const OpRecord& op, const Inputs& inputs) {
    for (const NodePtr& in : inputs) {
        if (!in) throw ValueError(describe(op, inputs, "an input is an undefined tensor"));
        if (in->device != inputs[0]->device)
            throw DeviceError(
                describe(op, inputs,
                         "inputs are on different devices, " + device_name(inputs[0]->device) +
                             " and " + device_name(in->device) + "; move them to one with to()"));
    }
}

// Here and not at the flush, where the node is no longer in the processor's cache.
Key digest_of(const Node& n) {
    Key k;
    k.add(reinterpret_cast<std::uintptr_t>(n.op));
    k.add(static_cast<std::uint64_t>(n.dtype) | static_cast<std::uint64_t>(n.shape.rank()) << 8 |
          static_cast<std::uint64_t>(n.attrs.i.size()) << 16);
    for (auto e : n.shape)
        k.add(static_cast<std::uint64_t>(e));
    for (auto v : n.attrs.i)
        k.add(static_cast<std::uint64_t>(v));
    for (auto v : n.attrs.f)
        k.add(std::bit_cast<std::uint64_t>(v));
    return k;
}

// Nodes that the destructor running on this thread has yet to free. A plain pointer, so that it
// outlives every other thread-local and static object.
thread_local std::vector<NodePtr>* unwinding = nullptr;

}  // namespace

// A chain of nodes that only hold each other is freed in a loop and not by recursion: a graph can
// be a million ops deep.
Node::~Node() {
    std::vector<NodePtr> own;
    const bool outermost = unwinding == nullptr;
    for (NodePtr& in : inputs) {
        if (!in || in.use_count() != 1 || in->inputs.empty()) continue;
        if (!unwinding) unwinding = &own;
        unwinding->push_back(std::move(in));
    }
    if (!outermost) return;
    while (!own.empty()) {
        const NodePtr next = std::move(own.back());
        own.pop_back();
    }
    unwinding = nullptr;
}

bool& grad_mode() {
    thread_local bool on = true;
    return on;
}

NodePtr make_node(const OpRecord& op, Inputs inputs, Attrs attrs) {
    check_inputs(op, inputs);
    auto node = new_node();
    try {
        Type type = op.infer({inputs.data(), inputs.size()}, attrs);
        node->dtype = type.dtype;
        node->shape = type.shape;
    } catch (const ValueError& e) {
        throw ValueError(describe(op, inputs, e.what()));
    } catch (const TypeError& e) {
        throw TypeError(describe(op, inputs, e.what()));
    } catch (const IndexError& e) {
        throw IndexError(describe(op, inputs, e.what()));
    } catch (const DeviceError& e) {
        throw DeviceError(describe(op, inputs, e.what()));
    }
    node->op = &op;
    if (!inputs.empty()) node->device = inputs[0]->device;
    // Ops without a gradient rule (detach, comparisons, argmax) end the graph of gradients.
    if (op.gradient && grad_mode() && is_floating(node->dtype))
        for (const NodePtr& in : inputs)
            node->requires_grad |= in->requires_grad;
    node->attrs = std::move(attrs);
    node->inputs = std::move(inputs);
    node->digest = digest_of(*node);
    return node;
}

}  // namespace pippin::graph
