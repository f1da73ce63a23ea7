#include "plan/trace.h"

#include "graph/ops/records.h"
#include "runtime/value.h"

namespace pippin::plan {

using graph::Node;
using graph::NodePtr;
namespace ops = graph::ops;

int num_run_args(const Node& n) {
    if (n.op == &ops::kRunScalar) return 1;
    return n.op == &ops::kRandomUniform || n.op == &ops::kRandomBits ? 2 : 0;
}

namespace {

void hash_shape(Key& k, const Shape& s) {
    k.add(static_cast<std::uint64_t>(s.rank()));
    for (auto e : s)
        k.add(static_cast<std::uint64_t>(e));
}

// What `n` is was hashed when it was made.
void hash_node(Key& k, const Node& n) {
    k.add(n.digest.a);
    k.add(n.digest.b);
    for (auto& in : n.inputs)
        k.add(in->id);
}

// The two lines that the walk will read.
void prefetch(const Node* n) {
    __builtin_prefetch(n);
    __builtin_prefetch(reinterpret_cast<const char*>(n) + 64);
}

// Which inputs nobody else will read: every reference to the leaf comes from nodes that are given
// up by this flush, and nobody shares its bytes.
void find_dying(Trace& t) {
    const std::size_t count = t.nodes.size();
    std::vector<long> edges(count, 0);
    for (Node* n : t.nodes)
        if (!n->value)
            for (auto& in : n->inputs)
                ++edges[in->id];
    for (auto& target : t.targets)
        edges[target.node->id] += target.holders;
    std::vector<char> kept(count, 0);
    for (auto& target : t.targets)
        kept[target.node->id] = target.keeps_graph;
    for (std::size_t i = count; i-- > 0;) {
        Node* n = t.nodes[i];
        if (n->value) continue;
        // use_count of a node is seen through any of the handles that lead to it.
        for (auto& in : n->inputs) {
            const bool outside = !in->value && in.use_count() > edges[in->id];
            kept[in->id] |= kept[i] | static_cast<char>(outside);
        }
    }
    t.input_dies.resize(t.inputs.size());
    for (std::size_t i = 0; i < t.inputs.size(); ++i) {
        const NodePtr& leaf = t.inputs[i];  // one more reference: this one
        t.input_dies[i] = !kept[leaf->id] && leaf.use_count() == edges[leaf->id] + 1 &&
                          leaf->value.use_count() == 1 && !leaf->value->shared;
    }
}

}  // namespace

Trace trace(std::vector<Target> targets, std::uint32_t mark) {
    Trace t;
    t.targets = std::move(targets);
    t.nodes.reserve(256);
    std::vector<std::pair<Node*, std::size_t>> stack;
    auto push = [&](Node* n) {
        for (auto& in : n->inputs)
            prefetch(in.get());
        stack.emplace_back(n, 0);
    };
    auto visit = [&](Node* root) {
        if (root->mark == mark) return;
        root->mark = mark;
        push(root);
        while (!stack.empty()) {
            auto& [n, next] = stack.back();
            if (n->value || next == n->inputs.size()) {
                n->id = static_cast<std::uint32_t>(t.nodes.size());
                t.nodes.push_back(n);
                if (!n->value) {
                    hash_node(t.key, *n);
                    for (int k = 0; k < num_run_args(*n); ++k)
                        t.scalars.push_back(n->run_args[k]);
                }
                stack.pop_back();
                continue;
            }
            const NodePtr& in = n->inputs[next++];
            if (in->mark == mark) continue;
            in->mark = mark;
            if (in->value) {
                in->id = static_cast<std::uint32_t>(t.nodes.size());
                t.nodes.push_back(in.get());
                t.inputs.push_back(in);
                t.key.add(static_cast<std::uint64_t>(in->dtype) | 0x100u |
                          static_cast<std::uint64_t>(in->value->order) << 16);
                hash_shape(t.key, in->shape);
            } else {
                push(in.get());
            }
        }
    };
    const Device device = t.targets[0].node->device;  // every node's
    t.key.add(static_cast<std::uint64_t>(device.type()) << 8 |
              static_cast<std::uint64_t>(device.index()));
    for (auto& target : t.targets)
        visit(target.node);
    find_dying(t);
    for (std::size_t i = 0; i < t.inputs.size(); ++i)
        t.key.add(t.input_dies[i] ? 3 : 5);
    for (auto& target : t.targets)
        t.key.add(target.node->id);
    return t;
}

Key structure(const Trace& t) {
    Key k;
    for (const Node* n : t.nodes) {
        k.add(static_cast<std::uint64_t>(n->dtype));
        if (n->value) continue;
        k.add(reinterpret_cast<std::uintptr_t>(n->op));
        for (auto& in : n->inputs)
            k.add(in->id);
    }
    for (auto& target : t.targets)
        k.add(target.node->id);
    return k;
}

}  // namespace pippin::plan
