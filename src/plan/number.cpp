// From nodes to numbers, and reading values through views.
#include <algorithm>
#include <unordered_map>

#include "graph/ops/records.h"
#include "plan/fold.h"
#include "plan/lowering.h"
#include "plan/simplify.h"
#include "runtime/value.h"

namespace pippin::plan {

using graph::Kind;
using graph::Node;
using graph::NodePtr;
namespace ops = graph::ops;

namespace {
graph::Type infer_copy(std::span<const NodePtr> in, const graph::Attrs&) {
    return {in[0]->dtype, in[0]->shape};
}
}  // namespace

const graph::OpRecord kCopy{"copy", Kind::Elementwise, infer_copy, nullptr, nullptr, nullptr, -1};

Strides dense_strides(const Shape& s, Order order) {
    Strides out{};
    std::int64_t step = 1;
    auto put = [&](int d) {
        out[static_cast<std::size_t>(d)] = step;
        step *= s[d];
    };
    if (order == Order::ChannelsLast && s.rank() == 4) {
        for (int d : {1, 3, 2, 0})
            put(d);
    } else {
        for (int d = s.rank(); d-- > 0;)
            put(d);
    }
    return out;
}

bool same_memory(const Shape& s, const Strides& a, const Strides& b) {
    for (int d = 0; d < s.rank(); ++d)
        if (s[d] != 1 && a[static_cast<std::size_t>(d)] != b[static_cast<std::size_t>(d)])
            return false;
    return true;
}

std::int64_t bytes_of(const Lowering& l, std::int32_t n) {
    return l.node(n).shape.numel() * static_cast<std::int64_t>(size_of(l.node(n).dtype));
}

bool is_inline_source(const Node& n) {
    return n.op == &ops::kFull || n.op == &ops::kIota || n.op == &ops::kRunScalar ||
           n.op == &ops::kRandomUniform || n.op == &ops::kRandomBits;
}
bool is_strided_view(const Node& n) {
    return n.op == &ops::kReshape || n.op == &ops::kPermute || n.op == &ops::kExpand ||
           n.op == &ops::kSlice || n.op == &ops::kFlip;
}
bool is_fusable(const Node& n) {
    return n.op->kind == Kind::Elementwise || n.op->kind == Kind::Reduce;
}

namespace {

// Splits and joins dims without moving elements, where strides allow: each run of output dims
// that covers the same elements as a run of input dims needs that run to be evenly strided.
std::optional<View> reshape_view(const View& from, const Shape& to) {
    View out;
    out.shape = to;
    out.offset = from.offset;
    if (to.numel() == 0 || to.numel() == 1) return out;
    int i = 0, o = 0;
    while (i < from.shape.rank() || o < to.rank()) {
        if (i < from.shape.rank() && from.shape[i] == 1) {
            ++i;
            continue;
        }
        if (o < to.rank() && to[o] == 1) {
            ++o;
            continue;
        }
        int i0 = i, o0 = o;
        std::int64_t a = from.shape[i++], b = to[o++];
        while (a != b) {
            if (a < b)
                a *= from.shape[i++];
            else
                b *= to[o++];
        }
        // The input run [i0, i) must be one even stride.
        std::int64_t step = -1, expected = 0;
        for (int d = i; d-- > i0;) {
            if (from.shape[d] == 1) continue;
            const std::int64_t s = from.strides[static_cast<std::size_t>(d)];
            if (step < 0 && expected == 0)
                step = s;
            else if (s != expected)
                return std::nullopt;
            expected = s * from.shape[d];
            if (s == 0) expected = 0;
        }
        std::int64_t s = step;
        for (int d = o; d-- > o0;) {
            out.strides[static_cast<std::size_t>(d)] = s;
            s *= to[d];
        }
    }
    return out;
}

}  // namespace

std::optional<View> through_view(const Node& n, const View& from) {
    View out;
    out.shape = n.shape;
    out.offset = from.offset;
    const auto& a = n.attrs;
    const int rank = n.shape.rank();
    auto at = [](int d) { return static_cast<std::size_t>(d); };
    if (n.op == &ops::kReshape) return reshape_view(from, n.shape);
    if (n.op == &ops::kPermute) {
        for (int d = 0; d < rank; ++d)
            out.strides[at(d)] = from.strides[static_cast<std::size_t>(a.i[at(d)])];
    } else if (n.op == &ops::kExpand) {
        for (int d = 0; d < rank; ++d)
            out.strides[at(d)] = from.shape[d] == n.shape[d] ? from.strides[at(d)] : 0;
    } else if (n.op == &ops::kSlice) {
        const auto start = ops::slice_start(a), step = ops::slice_step(a);
        for (int d = 0; d < rank; ++d) {
            out.offset += start[at(d)] * from.strides[at(d)];
            out.strides[at(d)] = from.strides[at(d)] * step[at(d)];
        }
        if (n.shape.numel() == 0) out.offset = from.offset;
    } else if (n.op == &ops::kFlip) {
        out.strides = from.strides;
        for (auto d : a.i) {
            const auto k = static_cast<std::size_t>(d);
            out.offset += (n.shape[static_cast<int>(d)] - 1) * from.strides[k];
            out.strides[k] = -from.strides[k];
        }
        if (n.shape.numel() == 0) out.offset = from.offset;
    }
    return out;
}

Resolved resolve(const Lowering& l, std::int32_t n) {
    SmallVec<std::int32_t, 8> chain;
    while (is_strided_view(l.node(n))) {
        chain.push_back(n);
        n = l[n].in[0];
    }
    const Node& base = l.node(n);
    View v;
    v.shape = base.shape;
    if (base.op == &ops::kIota) {
        v.strides[static_cast<std::size_t>(ops::iota_dim(base.attrs))] = 1;
    } else if (base.op != &ops::kFull && base.op != &ops::kRunScalar) {
        v.strides = dense_strides(base.shape, l[n].order);
    }
    std::optional<View> view = v;
    for (std::size_t i = chain.size(); i-- > 0 && view;)
        view = through_view(l.node(chain[i]), *view);
    return {n, view};
}

Lowering number(const Trace& trace, const std::vector<NodePtr>& simplified) {
    Lowering l;
    l.num_inputs = static_cast<std::int64_t>(trace.inputs.size());
    l.num_scalars = static_cast<std::int64_t>(trace.scalars.size());
    std::unordered_map<const Node*, std::int32_t> scalar_of, id;
    std::unordered_map<const Value*, std::int32_t> input_of;
    for (std::size_t i = 0; i < trace.inputs.size(); ++i)
        input_of[trace.inputs[i]->value.get()] = static_cast<std::int32_t>(i);
    std::int32_t slot = 0;
    for (auto* n : trace.nodes) {
        if (n->value) continue;
        if (const int k = num_run_args(*n)) {
            scalar_of[n] = slot;
            slot += k;
        }
    }
    auto add = [&](const NodePtr& n) {
        LNode x;
        x.node = n;
        const auto self = static_cast<std::int32_t>(l.nodes.size());
        if (n->value) {
            x.input = input_of.at(n->value.get());
            x.order = n->value->order;
            x.stored = true;
        } else {
            for (auto& in : n->inputs) {
                const std::int32_t i = id.at(in.get());
                x.in.push_back(i);
                auto& users = l[i].users;
                if (users.empty() || users.back() != self) users.push_back(self);
            }
        }
        if (auto it = scalar_of.find(n.get()); it != scalar_of.end()) x.scalar = it->second;
        id[n.get()] = self;
        l.nodes.push_back(std::move(x));
    };
    std::vector<std::pair<NodePtr, std::size_t>> stack;
    for (auto& root : simplified) {
        if (!id.count(root.get())) stack.emplace_back(root, 0);
        while (!stack.empty()) {
            auto& [n, next] = stack.back();
            if (id.count(n.get())) {
                stack.pop_back();
            } else if (next == n->inputs.size()) {
                add(n);
                stack.pop_back();
            } else {
                NodePtr in = n->inputs[next++];
                if (!id.count(in.get())) stack.emplace_back(std::move(in), 0);
            }
        }
        const std::int32_t i = id.at(root.get());
        l[i].target = true;
        l.targets.push_back(i);
        l.device = root->device;
    }
    return l;
}

Plan make_plan(const Trace& trace) {
    Lowering l = number(trace, fold_scales(trace, simplify(trace)));
    choose_layouts(l);
    absorb_epilogues(l);
    partition(l);
    schedule(l);
    return emit(l, trace);
}

}  // namespace pippin::plan
