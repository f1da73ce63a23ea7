// One evaluation: nodes in order of need, each once.
#include "graph/reference.h"

#include "graph/ops/records.h"
#include "graph/ops/ref.h"

namespace pippin::graph {

RefArray evaluate_reference(const NodePtr& root, const LeafValues& leaves,
                            const std::function<RefArray(const Node&)>& read_leaf) {
    LeafValues done = leaves;
    std::vector<const Node*> stack{root.get()};
    while (!stack.empty()) {
        const Node& n = *stack.back();
        if (done.contains(&n)) {
            stack.pop_back();
            continue;
        }
        bool waits = false;
        for (const NodePtr& in : n.inputs)
            if (!done.contains(in.get())) {
                stack.push_back(in.get());
                waits = true;
            }
        if (waits) continue;
        RefArray value;
        if (n.op == &ops::kLeaf && read_leaf) {
            value = read_leaf(n);
        } else {
            std::vector<RefArray> inputs;
            for (const NodePtr& in : n.inputs)
                inputs.push_back(done.at(in.get()));
            value = n.op->reference(n, inputs);
        }
        // Integer arithmetic wraps; references compute it in doubles.
        if (!is_floating(n.dtype))
            for (double& v : value.data)
                v = ops::wrap_integer(n.dtype, v);
        done.emplace(&n, std::move(value));
        stack.pop_back();
    }
    return done.at(root.get());
}

}  // namespace pippin::graph
