#include "plan/fold.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "graph/build.h"
#include "graph/grad_mode.h"
#include "graph/ops/records.h"
#include "plan/copy_node.h"

namespace pippin::plan {

using graph::Inputs;
using graph::Node;
using graph::NodePtr;
namespace g = graph;
namespace ops = graph::ops;

namespace {

// One value a channel of a map of that shape: [1, C, 1, 1], or null.
NodePtr per_channel(const NodePtr& n, const Shape& map) {
    if (n->op != &ops::kExpand || n->value) return nullptr;
    const NodePtr& x = n->inputs[0];
    const int missing = map.rank() - x->shape.rank();
    for (int d = 0; d < x->shape.rank(); ++d)
        if (x->shape[d] != (d + missing == 1 ? map[1] : 1)) return nullptr;
    return missing <= 1 ? x : nullptr;
}

class Folder {
  public:
    explicit Folder(const std::vector<NodePtr>& targets) : targets_(targets) {
        for (const NodePtr& t : targets) {
            ++readers_[t.get()];
            visit(t);
        }
    }

    std::vector<NodePtr> run() {
        for (const NodePtr& n : order_)
            now_[n.get()] = folded(n);
        std::vector<NodePtr> out;
        for (const NodePtr& t : targets_)
            out.push_back(now_.at(t.get()));
        return out;
    }

  private:
    // Inputs before their users.
    void visit(const NodePtr& root) {
        if (!seen_.emplace(root.get(), true).second) return;
        std::vector<std::pair<NodePtr, std::size_t>> stack{{root, 0}};
        while (!stack.empty()) {
            auto& [n, next] = stack.back();
            if (next == n->inputs.size()) {
                order_.push_back(std::move(n));
                stack.pop_back();
                continue;
            }
            const NodePtr in = n->inputs[next++];
            ++readers_[in.get()];
            if (seen_.emplace(in.get(), true).second) stack.emplace_back(in, 0);
        }
    }

    NodePtr folded(const NodePtr& n) const {
        if (n->op == &ops::kMul && n->dtype == DType::Float32 && n->shape.rank() == 4)
            for (int k = 0; k < 2; ++k)
                if (const NodePtr r = scaled(n->inputs[static_cast<std::size_t>(k)],
                                             n->inputs[static_cast<std::size_t>(1 - k)]))
                    return r;
        Inputs in;
        for (const NodePtr& i : n->inputs)
            in.push_back(now_.at(i.get()));
        if (in == n->inputs) return n;
        return copy_node(*n, std::move(in));
    }

    NodePtr scaled(const NodePtr& conv, const NodePtr& by) const {
        if (conv->op != &ops::kConv2d || conv->value || conv->dtype != DType::Float32 ||
            readers_.at(conv.get()) != 1)
            return nullptr;
        const NodePtr& w = conv->inputs[1];
        if (w->shape.numel() >= conv->shape.numel()) return nullptr;
        const NodePtr s = per_channel(by, conv->shape);
        if (!s) return nullptr;
        const NodePtr rows = g::reshape(now_.at(s.get()), {w->shape[0], 1, 1, 1});
        const NodePtr weights = g::mul(now_.at(w.get()), g::expand_to(rows, w->shape));
        return copy_node(*conv, {now_.at(conv->inputs[0].get()), weights});
    }

    const std::vector<NodePtr>& targets_;
    std::unordered_map<const Node*, int> readers_;
    std::unordered_map<const Node*, bool> seen_;
    std::unordered_map<const Node*, NodePtr> now_;  ///< what stands for a node
    std::vector<NodePtr> order_;
};

}  // namespace

std::vector<NodePtr> fold_scales(const Trace& trace, std::vector<NodePtr> targets) {
    if (std::none_of(trace.nodes.begin(), trace.nodes.end(),
                     [](const Node* n) { return n->op == &ops::kConv2d && !n->value; }))
        return targets;
    const g::GradModeScope off(false);
    return Folder(targets).run();
}

}  // namespace pippin::plan
