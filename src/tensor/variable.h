// What a Tensor handle points to: the current node of a variable, and its gradient.
#pragma once

#include <memory>
#include <vector>

#include "graph/node.h"
#include "pippin/tensor.h"

namespace pippin {

/// The variables of one thread whose values are not computed yet: what a flush computes.
struct PendingList;

struct Variable : std::enable_shared_from_this<Variable> {
    graph::NodePtr node;
    std::shared_ptr<Variable> grad;
    bool requires_grad = false;  ///< a leaf that wants its gradient
    /// While pending: the node of its former value, to which a flush that fails goes back.
    std::weak_ptr<graph::Node> settled;

    explicit Variable(graph::NodePtr n) { set(std::move(n)); }
    ~Variable() { unlink(); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

    /// Rebinds to another node and keeps the pending list right.
    void set(graph::NodePtr n);
    void unlink();

    PendingList* list = nullptr;  ///< null unless pending
    std::size_t position = 0;     ///< in the list
    std::uint64_t order = 0;      ///< when it became pending, among the list's
};

/// The pending variables of the calling thread, in the order in which they became so: equal steps
/// give equal plans, and equal updates equal programs, whatever handles died in between.
std::vector<Variable*> pending_variables();

inline Tensor wrap(graph::NodePtr n) { return Tensor(std::make_shared<Variable>(std::move(n))); }

/// The node of a defined tensor; ValueError naming `what` otherwise.
const graph::NodePtr& node_of(const Tensor& t, const char* what = "tensor");

}  // namespace pippin
