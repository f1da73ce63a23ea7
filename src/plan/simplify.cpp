#include "plan/simplify.h"

#include <bit>
#include <cmath>
#include <unordered_map>

#include "graph/build.h"
#include "graph/grad_mode.h"
#include "graph/ops/records.h"
#include "graph/reference.h"
#include "plan/copy_node.h"
#include "profile/sites.h"

namespace pippin::plan {

using graph::Attrs;
using graph::Inputs;
using graph::Kind;
using graph::Node;
using graph::NodePtr;
namespace g = graph;
namespace ops = graph::ops;

namespace {

bool is(const NodePtr& n, const graph::OpRecord& op) { return n->op == &op; }

bool is_float_full(const NodePtr& n, double v) {
    return is_floating(n->dtype) && ops::is_full_of(*n, v);
}

// Values of `from` survive a trip through `through`.
bool exact_cast(DType from, DType through) {
    return promote_types(from, through) == through && from != DType::Bool;
}

class Simplifier {
  public:
    explicit Simplifier(const Trace& trace) : trace_(trace) {}

    std::vector<NodePtr> run() {
        done_.resize(trace_.nodes.size());
        for (Node* n : trace_.nodes) {
            // A computed node is a leaf whatever op made it.
            if (n->value)
                done_[n->id] = source(g::make_leaf(n->value, n->dtype, n->shape, n->device));
            else
                done_[n->id] =
                    n->inputs.empty() ? source(NodePtr(NodePtr{}, n)) : rewrite(*n, mapped(*n));
        }
        std::vector<NodePtr> out;
        for (auto& t : trace_.targets)
            out.push_back(done_[t.node->id]);
        return out;
    }

  private:
    Inputs mapped(const Node& n) const {
        Inputs in;
        for (auto& i : n.inputs)
            in.push_back(done_[i->id]);
        return in;
    }

    // Leaves and sources with run-time arguments are themselves; equal constants are one node.
    NodePtr source(const NodePtr& n) {
        known_[n.get()] = n;
        return n->value || num_run_args(*n) ? n : merged(n);
    }

    // A node built by a decomposition or a rule, whose inputs may be new too.
    NodePtr settle(const NodePtr& n) {
        if (auto it = known_.find(n.get()); it != known_.end()) return it->second;
        held_.push_back(n);  // addresses in known_ must stay taken
        NodePtr r;
        if (n->inputs.empty()) {
            r = source(n);
        } else {
            Inputs in;
            for (auto& i : n->inputs)
                in.push_back(settle(i));
            r = rewrite(*n, std::move(in));
        }
        known_[n.get()] = r;
        return r;
    }

    // The simplest node for op(inputs); inputs are settled.
    NodePtr rewrite(const Node& n, Inputs in) {
        const recording::MadeAt at(recording::on() ? recording::site_of_node(&n) : nullptr);
        const auto copy = copy_node(n, std::move(in));
        NodePtr r = copy;
        if (n.op->kind == Kind::Composite) {
            r = settle(n.op->decompose(*copy));
        } else if (NodePtr simpler = rule(copy)) {
            r = settle(simpler);
        } else {
            r = merged(copy);
        }
        known_[r.get()] = r;
        return r;
    }

    NodePtr merged(const NodePtr& n) {
        Key k;
        k.add(reinterpret_cast<std::uintptr_t>(n->op));
        k.add(static_cast<std::uint64_t>(n->dtype));
        for (auto e : n->shape)
            k.add(static_cast<std::uint64_t>(e));
        for (auto v : n->attrs.i)
            k.add(static_cast<std::uint64_t>(v));
        for (auto v : n->attrs.f)
            k.add(std::bit_cast<std::uint64_t>(v));
        for (auto& i : n->inputs)
            k.add(reinterpret_cast<std::uintptr_t>(i.get()));
        auto [it, fresh] = table_.emplace(k.a, n);
        if (!fresh) {
            const NodePtr& o = it->second;
            if (o->op == n->op && o->dtype == n->dtype && o->shape == n->shape &&
                o->attrs == n->attrs && o->inputs == n->inputs)
                return o;
            return n;  // a colliding hash: two nodes stay two
        }
        return n;
    }

    // A simpler equal node, or null. Rules keep every bit but the sign of a zero.
    NodePtr rule(const NodePtr& n) {
        const auto& op = *n->op;
        switch (op.kind) {
            case Kind::View:
                return view_rule(n);
            case Kind::Elementwise:
                return elementwise_rule(n);
            case Kind::Reduce:
                return reduce_rule(n);
            default:
                return nullptr;
        }
    }

    NodePtr view_rule(const NodePtr& n) {
        const NodePtr& x = n->inputs[0];
        if (is(n, ops::kDetach)) return x;
        if (is(n, ops::kReshape)) {
            if (x->shape == n->shape) return x;
            if (is(x, ops::kReshape)) return g::reshape(x->inputs[0], n->shape);
        }
        if (is(n, ops::kExpand)) {
            if (x->shape == n->shape) return x;
            if (is(x, ops::kExpand)) return g::expand(x->inputs[0], n->shape);
        }
        if (is(n, ops::kPermute)) {
            bool identity = true;
            for (std::size_t d = 0; d < n->attrs.i.size(); ++d)
                identity &= n->attrs.i[d] == static_cast<std::int64_t>(d);
            if (identity) return x;
            if (is(x, ops::kPermute)) {
                g::IntList dims;
                for (auto d : n->attrs.i)
                    dims.push_back(x->attrs.i[static_cast<std::size_t>(d)]);
                return g::permute(x->inputs[0], dims);
            }
        }
        if (is(n, ops::kSlice) && x->shape == n->shape) return x;
        const bool moves_only = is(n, ops::kReshape) || is(n, ops::kExpand) ||
                                is(n, ops::kPermute) || is(n, ops::kSlice) || is(n, ops::kFlip);
        if (moves_only && is(x, ops::kFull)) return full_as(x, n->shape);
        return nullptr;
    }

    static NodePtr full_as(const NodePtr& full, const Shape& shape) {
        return is_floating(full->dtype)
                   ? g::full(full->attrs.f[0], full->dtype, shape, full->device)
                   : g::full_int(full->attrs.i[1], full->dtype, shape, full->device);
    }

    NodePtr elementwise_rule(const NodePtr& n) {
        if (is(n, ops::kCheckIndex)) return nullptr;
        if (NodePtr folded = fold(n)) return folded;
        const NodePtr& a = n->inputs[0];
        if (is(n, ops::kCast)) {
            if (a->dtype == n->dtype) return a;
            if (is(a, ops::kCast) && exact_cast(a->inputs[0]->dtype, a->dtype))
                return g::cast(a->inputs[0], n->dtype);
            return nullptr;
        }
        if (is(n, ops::kNeg) && is(a, ops::kNeg)) return a->inputs[0];
        if (n->inputs.size() < 2) return nullptr;
        const NodePtr& b = n->inputs[1];
        if (is(n, ops::kMul)) {
            if (is_float_full(a, 1)) return b;
            if (is_float_full(b, 1)) return a;
        }
        if (is(n, ops::kAdd)) {
            if (is(b, ops::kNeg)) return g::sub(a, b->inputs[0]);
            if (is(a, ops::kNeg)) return g::sub(b, a->inputs[0]);
            if (is_float_full(a, 0)) return b;
            if (is_float_full(b, 0)) return a;
        }
        if (is(n, ops::kSub)) {
            if (is(b, ops::kNeg)) return g::add(a, b->inputs[0]);
            if (is_float_full(b, 0)) return a;
        }
        if (is(n, ops::kDiv) && is(b, ops::kFull) && is_floating(n->dtype)) {
            // Exact for powers of two: a multiplication costs a tenth of a division.
            const double v = ops::full_value(*b);
            int exponent = 0;
            if (v == 1) return a;
            if (std::isfinite(v) && v != 0 && std::fabs(std::frexp(v, &exponent)) == 0.5 &&
                std::abs(exponent) < 10)
                return g::mul(a, g::full_like(b, 1 / v));
        }
        if (is(n, ops::kPow) && is(b, ops::kFull)) {
            const double e = ops::full_value(*b);
            if (e == 1) return a;
            if (e == 2) return g::mul(a, a);
        }
        if (is(n, ops::kSelect) && is(a, ops::kFull))
            return ops::full_int_value(*a) ? b : n->inputs[2];
        return nullptr;
    }

    // Elementwise ops on constants, through their reference, rounded to the dtype.
    NodePtr fold(const NodePtr& n) {
        for (auto& i : n->inputs)
            if (!is(i, ops::kFull) || i->dtype == DType::Int64) return nullptr;
        if (n->dtype == DType::Int64 || !n->op->reference) return nullptr;
        Node point = *n;
        point.shape = {};
        std::vector<graph::RefArray> values;
        for (auto& i : n->inputs)
            values.push_back({Shape{}, {ops::full_value(*i)}});
        double v = n->op->reference(point, values).data[0];
        switch (n->dtype) {
            case DType::Float32:
                v = static_cast<float>(v);
                break;
            case DType::Float16:
                v = static_cast<float>(Half(static_cast<float>(v)));
                break;
            case DType::BFloat16:
                v = static_cast<float>(BFloat(static_cast<float>(v)));
                break;
            case DType::UInt8:
                v = static_cast<double>(static_cast<std::uint8_t>(static_cast<std::int64_t>(v)));
                break;
            default:
                break;
        }
        return g::full(v, n->dtype, n->shape, n->device);
    }

    NodePtr reduce_rule(const NodePtr& n) {
        if (is(n, ops::kReduceArgMax) || is(n, ops::kReduceArgMin) || is(n, ops::kReduceM2))
            return nullptr;
        const NodePtr& x = n->inputs[0];
        if (x->shape == n->shape && x->dtype == n->dtype) return x;  // only extents of 1
        if (is(n, ops::kReduceSum) && is(x, ops::kReduceSum) && x->dtype == x->inputs[0]->dtype) {
            g::IntList dims;
            for (int d = 0; d < n->shape.rank(); ++d) {
                bool in = false;
                for (auto r : n->attrs.i)
                    in |= r == d;
                for (auto r : x->attrs.i)
                    in |= r == d;
                if (in) dims.push_back(d);
            }
            return g::reduce_sum(x->inputs[0], dims);
        }
        return nullptr;
    }

    const Trace& trace_;
    std::vector<NodePtr> done_;                         ///< by trace id
    std::unordered_map<const Node*, NodePtr> known_;    ///< settled nodes lead to their result
    std::unordered_map<std::uint64_t, NodePtr> table_;  ///< by structural hash
    std::vector<NodePtr> held_;
};

}  // namespace

std::vector<NodePtr> simplify(const Trace& trace) {
    const g::GradModeScope off(false);
    return Simplifier(trace).run();
}

}  // namespace pippin::plan
