// Backward: walks the graph of nodes and emits gradient nodes. No engine of its own.
#include "pippin/autograd.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "graph/build.h"
#include "graph/grad_mode.h"
#include "profile/sites.h"
#include "tensor/graph_lock.h"
#include "tensor/site.h"
#include "tensor/variable.h"

namespace pippin {
namespace {

using graph::GradModeScope;
using graph::NodePtr;

// Nodes that lead from root to something that requires grad, inputs before users. Iterative: graphs
// can be deeper than the stack.
std::vector<NodePtr> differentiable(const NodePtr& root, std::uint32_t mark) {
    std::vector<NodePtr> order;
    std::vector<std::pair<NodePtr, std::size_t>> stack;
    auto push = [&](const NodePtr& n) {
        if (!n->requires_grad || n->mark == mark) return;
        n->mark = mark;
        stack.emplace_back(n, 0);
    };
    push(root);
    while (!stack.empty()) {
        auto& [n, next] = stack.back();
        if (n->grad_leaf || next == n->inputs.size()) {
            n->id = static_cast<std::uint32_t>(order.size());
            order.push_back(std::move(n));
            stack.pop_back();
        } else {
            NodePtr input = n->inputs[next++];
            push(input);
        }
    }
    return order;
}

struct Result {
    std::vector<NodePtr> nodes;  ///< inputs before users
    std::vector<NodePtr> grads;  ///< d(root)/d(nodes[i]), or null
};

Result differentiate(const NodePtr& root, const Tensor& gradient, bool create_graph) {
    if (!root->requires_grad)
        throw ValueError(
            "backward: this tensor does not depend on any tensor that requires grad "
            "(set requires_grad_() on a leaf, and do not compute under NoGrad)");
    NodePtr seed;
    if (gradient.defined()) {
        seed = node_of(gradient);
        if (!(seed->shape == root->shape))
            throw ValueError(fmt::format("backward: the gradient has shape {}, the tensor {}",
                                         seed->shape.str(), root->shape.str()));
        seed = graph::cast(seed, root->dtype);
    } else {
        if (root->shape.numel() != 1)
            throw ValueError(fmt::format(
                "backward: a gradient can only be left out for one element; this tensor "
                "has shape {}: reduce it (sum, mean) or pass a gradient",
                root->shape.str()));
        seed = graph::full(1, root->dtype, root->shape, root->device);
    }
    GraphLock lock;
    Result r;
    r.nodes = differentiable(root, next_mark());
    r.grads.resize(r.nodes.size());
    GradModeScope mode(create_graph);
    r.grads.back() = seed;
    for (std::size_t i = r.nodes.size(); i-- > 0;) {
        const NodePtr& n = r.nodes[i];
        if (!r.grads[i] || n->grad_leaf || n->inputs.empty()) continue;
        if (n->consumed)
            throw ValueError(fmt::format(
                "backward: the graph of this tensor was given free by an earlier backward "
                "(op {}); pass retain_graph to the first one to go through it twice",
                n->op->name));
        std::optional<recording::MadeAt> at;
        if (recording::on()) at.emplace(recording::site_of_node(n.get()));
        auto grads = n->op->gradient(n, r.grads[i]);
        for (std::size_t k = 0; k < n->inputs.size() && k < grads.size(); ++k) {
            const NodePtr& input = n->inputs[k];
            if (!grads[k] || !input->requires_grad) continue;
            NodePtr& g = r.grads[input->id];  // set by the traversal; rules only build
            g = g ? graph::add(g, grads[k]) : grads[k];
        }
    }
    return r;
}

void give_free(const Result& r) {
    for (auto& n : r.nodes)
        if (!n->grad_leaf && !n->inputs.empty()) n->consumed = true;
}

}  // namespace

void Tensor::backward(const Tensor& gradient, bool retain_graph, Site site) const {
    const recording::Range range("backward");
    at_site(site, [&] {
        const Result r = differentiate(node_of(*this), gradient, false);
        GradModeScope off(false);
        for (std::size_t i = 0; i < r.nodes.size(); ++i) {
            if (!r.nodes[i]->grad_leaf || !r.grads[i]) continue;
            auto variable = r.nodes[i]->leaf_of.lock();
            if (!variable) continue;
            if (variable->grad)
                variable->grad->set(graph::add(variable->grad->node, r.grads[i]));
            else
                variable->grad = std::make_shared<Variable>(r.grads[i]);
        }
        if (!retain_graph) give_free(r);
    });
}

std::vector<Tensor> grad(const Tensor& output, std::span<const Tensor> inputs,
                         const Tensor& gradient, bool create_graph, Site site) {
    return at_site(site, [&] {
        const Result r = differentiate(node_of(output), gradient, create_graph);
        std::vector<Tensor> grads;
        for (const Tensor& x : inputs) {
            const NodePtr& n = node_of(x);
            auto it = std::find(r.nodes.begin(), r.nodes.end(), n);
            const NodePtr g =
                it == r.nodes.end() ? nullptr : r.grads[std::size_t(it - r.nodes.begin())];
            grads.push_back(wrap(g ? g : graph::full_like(n, 0)));
        }
        if (!create_graph) give_free(r);
        return grads;
    });
}

std::function<std::pair<Tensor, std::vector<Tensor>>(std::span<const Tensor>)> value_and_grad(
    ScalarFunction f) {
    return [f = std::move(f)](std::span<const Tensor> arguments) {
        std::vector<Tensor> leaves;
        for (const Tensor& a : arguments)
            leaves.push_back(a.detach().requires_grad_());
        const Tensor value = f(leaves);
        return std::pair{value.detach(), grad(value, leaves)};
    };
}

NoGrad::NoGrad() : before_(graph::grad_mode()) { graph::grad_mode() = false; }
NoGrad::~NoGrad() { graph::grad_mode() = before_; }
bool grad_enabled() { return graph::grad_mode(); }

}  // namespace pippin
