// Heavy launches, batching of equal programs, and the place of every value in memory.
#include <algorithm>
#include <map>
#include <numeric>

#include "graph/ops/records.h"
#include "plan/lowering.h"

namespace pippin::plan {

using graph::Node;
namespace ops = graph::ops;

namespace {

std::int64_t bytes_of(const Lowering& l, std::int32_t n) {
    return l.node(n).shape.numel() * static_cast<std::int64_t>(size_of(l.node(n).dtype));
}

Operand operand_of(const Lowering& l, std::int32_t n, std::int32_t& base) {
    const Resolved r = resolve(l, n);
    base = r.base;
    Operand o;
    o.dtype = l.node(n).dtype;
    o.shape = r.view->shape;
    o.strides = r.view->strides;
    o.offset = r.view->offset;
    return o;
}

std::int64_t flops_of(const Node& n, const std::vector<Operand>& in) {
    if (n.op == &ops::kMatmul) {
        const Shape& a = in[0].shape;
        return 2 * n.shape.numel() * (ops::trans_a(n.attrs) ? a[a.rank() - 2] : a.back());
    }
    if (n.op == &ops::kConv2d)
        return 2 * n.shape.numel() * in[1].shape.numel() /
               std::max<std::int64_t>(1, in[1].shape[0]);
    if (n.op == &ops::kConv2dGradInput)
        return 2 * in[0].shape.numel() * in[1].shape.numel() /
               std::max<std::int64_t>(1, in[1].shape[0]);
    if (n.op == &ops::kConv2dGradWeight)
        return 2 * in[1].shape.numel() * n.shape.numel() / std::max<std::int64_t>(1, n.shape[0]);
    return n.shape.numel();
}

}  // namespace

Draft draft_heavy(const Lowering& l, const Unit& u) {
    const Node& n = l.node(u.node);
    auto h = std::make_unique<HeavyLaunch>();
    Draft d;
    h->op = n.op;
    h->attrs = n.attrs;
    d.launch.name = n.op->name;
    std::int32_t base = -1;
    const Order order = l[u.node].order;
    for (auto in : l[u.node].in) {
        Operand o = operand_of(l, in, base);
        // Extents of 1 make both orders one; kernels see the strides of the order they asked for.
        const Strides maps = dense_strides(o.shape, Order::ChannelsLast);
        if (n.op != &ops::kMatmul && o.shape.rank() == 4 && same_memory(o.shape, o.strides, maps) &&
            !same_memory(o.shape, maps, dense_strides(o.shape, Order::RowMajor)))
            o.strides = maps;
        h->operands.push_back(o);
        d.operand_nodes.push_back(base);
        d.launch.bytes_moved += bytes_of(l, base);
    }
    std::int32_t last = u.node;
    for (auto e : u.epilogue) {
        const Node& x = l.node(e);
        d.launch.name += std::string("+") + (x.op == &ops::kAdd ? "bias" : x.op->name);
        if (x.op == &ops::kAdd) {
            const std::int32_t bias = l[e].in[0] == last ? l[e].in[1] : l[e].in[0];
            Operand o = operand_of(l, bias, base);
            const int channel = n.op == &ops::kMatmul ? n.shape.rank() - 1 : 1;
            o.shape = Shape{n.shape[channel]};
            o.strides = {1};
            h->epilogue.bias = static_cast<std::int32_t>(h->operands.size());
            h->operands.push_back(o);
            d.operand_nodes.push_back(base);
        } else {
            h->epilogue.activation = x.op == &ops::kRelu ? Activation::Relu : Activation::Tanh;
        }
        last = e;
    }
    h->output.dtype = n.dtype;
    h->output.shape = n.shape;
    h->output.strides = dense_strides(n.shape, order);
    d.output_node = last;
    d.launch.bytes_moved += bytes_of(l, last);
    d.launch.flops = flops_of(n, h->operands);
    d.reads = d.operand_nodes;
    d.writes = {last};
    d.launch.heavy = std::move(h);
    return d;
}

// --- batching ---

namespace {

bool is_flat(const Program& p) {
    if (p.form != Form::Map || p.rank != 1 || !p.index_ops.empty()) return false;
    for (auto& a : p.accesses)
        if (a.offset != 0 || (a.strides[0] != 0 && a.strides[0] != 1)) return false;
    for (auto& i : p.body)
        if (i.op == Opcode::Iota) return false;
    return true;
}

bool same_program(const Program& a, const Program& b) {
    return a.body == b.body && a.accesses == b.accesses;
}

bool touches(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
    for (auto x : a)
        if (std::find(b.begin(), b.end(), x) != b.end()) return true;
    return false;
}

}  // namespace

void batch(const Lowering& l, std::vector<Draft>& drafts) {
    constexpr std::int64_t kSmall = 1 << 16;
    auto eligible = [&](const Draft& d) {
        if (!d.launch.program || !is_flat(d.launch.program->program)) return false;
        if (d.launch.program->program.extents[0] <= kSmall) return true;
        // Moving a large program later keeps its inputs alive longer: only where they live on
        // anyway.
        return std::all_of(d.writes.begin(), d.writes.end(), [&](auto w) { return l[w].target; });
    };
    std::vector<char> gone(drafts.size(), 0);
    for (std::size_t last = drafts.size(); last-- > 0;) {
        if (gone[last] || !eligible(drafts[last])) continue;
        Draft& d = drafts[last];
        std::vector<std::size_t> members;
        for (std::size_t i = last; i-- > 0;) {
            if (gone[i] || !eligible(drafts[i]) ||
                !same_program(drafts[i].launch.program->program, d.launch.program->program))
                continue;
            bool movable = true;
            for (std::size_t k = i + 1; k <= last && movable; ++k)
                movable = gone[k] || (!touches(drafts[i].writes, drafts[k].reads) &&
                                      !touches(drafts[i].writes, drafts[k].writes));
            if (movable) members.push_back(i);
        }
        if (members.empty()) continue;
        Segment& first = d.launch.program->segments[0];
        first.extent = d.launch.program->program.extents[0];
        std::reverse(members.begin(), members.end());
        for (auto i : members) {
            Draft& m = drafts[i];
            Segment s;
            s.extent = m.launch.program->program.extents[0];
            d.launch.program->segments.push_back(std::move(s));
            d.access_nodes.push_back(std::move(m.access_nodes[0]));
            d.reads.insert(d.reads.end(), m.reads.begin(), m.reads.end());
            d.writes.insert(d.writes.end(), m.writes.begin(), m.writes.end());
            d.launch.bytes_moved += m.launch.bytes_moved;
            d.launch.flops += m.launch.flops;
            gone[i] = 1;
        }
        d.launch.name += " x" + std::to_string(members.size() + 1);
    }
    std::vector<Draft> kept;
    for (std::size_t i = 0; i < drafts.size(); ++i)
        if (!gone[i]) kept.push_back(std::move(drafts[i]));
    drafts = std::move(kept);
}

// --- places ---

namespace {

// Values that share memory because one is overwritten by the next are one block.
struct Block {
    std::int64_t bytes = 0, offset = -1;
    std::int32_t born = 0, dies = 0;
};

class Memory {
  public:
    Memory(const Lowering& l, const Trace& trace, std::vector<Draft>& drafts)
        : l_(l),
          trace_(trace),
          drafts_(drafts),
          born_(l.nodes.size(), -1),
          dies_(l.nodes.size(), -1),
          shares_(l.nodes.size()),
          donated_(l.nodes.size(), -1) {
        std::iota(shares_.begin(), shares_.end(), 0);
    }

    Plan run() {
        lifetimes();
        for (std::size_t i = 0; i < drafts_.size(); ++i)
            share_in_place(static_cast<std::int32_t>(i));
        const std::int64_t arena = assign_offsets();
        return build(arena);
    }

  private:
    std::size_t at(std::int32_t n) const { return static_cast<std::size_t>(n); }
    bool in_arena(std::int32_t n) const { return l_[n].input < 0 && !l_[n].target; }

    void lifetimes() {
        for (std::size_t i = 0; i < drafts_.size(); ++i) {
            const auto step = static_cast<std::int32_t>(i);
            for (auto w : drafts_[i].writes) {
                if (born_[at(w)] < 0) born_[at(w)] = step;
                dies_[at(w)] = std::max(dies_[at(w)], step);
            }
            for (auto r : drafts_[i].reads)
                dies_[at(r)] = std::max(dies_[at(r)], step);
        }
    }

    // Outputs of elementwise programs take over memory that is read here for the last time.
    void share_in_place(std::int32_t step) {
        Draft& d = drafts_[at(step)];
        if (!d.launch.program) return;
        Program& p = d.launch.program->program;
        const std::vector<Pairing> pairs = by_distance(p);
        for (auto& nodes : d.access_nodes) {
            std::vector<char> taken(p.accesses.size(), 0);
            for (auto& [distance, o, b] : pairs) {
                Access& out = p.accesses[o];
                if (taken[o] || taken[b] || born_[at(nodes[o])] != step) continue;
                if (out.alias_of >= 0 && out.alias_of != static_cast<std::int32_t>(b)) continue;
                if (!can_take(p, nodes, o, b, step)) continue;
                taken[o] = taken[b] = 1;
                out.alias_of = static_cast<std::int32_t>(b);
                if (in_arena(nodes[o]))
                    shares_[at(nodes[o])] = root(nodes[b]);
                else
                    donated_[at(nodes[o])] = l_[nodes[b]].input;
            }
        }
    }

    // Stores and the loads they come from, nearest first: p - lr * v overwrites p rather than v.
    struct Pairing {
        int distance;
        std::size_t store, load;
    };
    static std::vector<Pairing> by_distance(const Program& p) {
        std::vector<Pairing> out;
        std::vector<int> steps(p.body.size());
        for (auto& i : p.body) {
            if (i.op != Opcode::Store) continue;
            std::fill(steps.begin(), steps.end(), -1);
            steps[static_cast<std::size_t>(i.a)] = 0;
            for (std::size_t k = p.body.size(); k-- > 0;) {  // operands come before their users
                if (steps[k] < 0) continue;
                const Instr& x = p.body[k];
                for (auto operand : {x.a, x.b, x.c})
                    if (operand >= 0) {
                        int& s = steps[static_cast<std::size_t>(operand)];
                        if (s < 0 || s > steps[k] + 1) s = steps[k] + 1;
                    }
                if (x.op == Opcode::Load)
                    out.push_back({steps[k], static_cast<std::size_t>(i.aux),
                                   static_cast<std::size_t>(x.aux)});
            }
        }
        std::stable_sort(out.begin(), out.end(),
                         [](auto& a, auto& b) { return a.distance < b.distance; });
        return out;
    }

    bool can_take(const Program& p, const std::vector<std::int32_t>& nodes, std::size_t o,
                  std::size_t b, std::int32_t step) {
        const Access &out = p.accesses[o], &in = p.accesses[b];
        const std::int32_t from = nodes[b], to = nodes[o];
        if (in.writes || from < 0 || dies_[at(from)] != step) return false;
        // Full values of a reducing program may be read again in a later stage; kept ones are not.
        if (p.form != Form::Map && !(only_kept(p, o) && only_kept(p, b))) return false;
        if (in.strides != out.strides || in.offset != out.offset ||
            size_of(in.dtype) != size_of(out.dtype))
            return false;
        if (bytes_of(l_, from) != bytes_of(l_, to)) return false;
        if (in_arena(to) ? !in_arena(from)
                         : l_[from].input < 0 || !trace_.input_dies[at(l_[from].input)] ||
                               is_donated(l_[from].input) || l_[from].target)
            return false;
        // Read in one way only: another access to the same memory would see it overwritten.
        for (std::size_t k = 0; k < nodes.size(); ++k)
            if (k != b && nodes[k] == from) return false;
        // Or by another segment.
        const Draft& d = drafts_[at(step)];
        return std::count(d.reads.begin(), d.reads.end(), from) == 1;
    }

    static bool only_kept(const Program& p, std::size_t access) {
        for (auto& i : p.body)
            if ((i.op == Opcode::Load || i.op == Opcode::Store) &&
                i.aux == static_cast<std::int32_t>(access) && !i.kept)
                return false;
        return true;
    }

    bool is_donated(std::int32_t input) const {
        return std::find(donated_.begin(), donated_.end(), input) != donated_.end();
    }

    std::int32_t root(std::int32_t n) const {
        while (shares_[at(n)] != n)
            n = shares_[at(n)];
        return n;
    }

    // Largest first, each at the lowest offset that is free during its life.
    std::int64_t assign_offsets() {
        std::map<std::int32_t, Block> blocks;
        for (std::int32_t n = 0; n < static_cast<std::int32_t>(l_.nodes.size()); ++n) {
            if (born_[at(n)] < 0 || !in_arena(n)) continue;
            auto [it, fresh] = blocks.emplace(root(n), Block{});
            Block& b = it->second;
            b.bytes = (bytes_of(l_, n) + 63) / 64 * 64;
            b.born = fresh ? born_[at(n)] : std::min(b.born, born_[at(n)]);
            b.dies = std::max(b.dies, dies_[at(n)]);
        }
        std::vector<Block*> order, placed;
        for (auto& [n, b] : blocks)
            order.push_back(&b);
        std::stable_sort(order.begin(), order.end(),
                         [](auto* a, auto* b) { return a->bytes > b->bytes; });
        std::int64_t top = 0;
        for (auto* b : order) {
            std::int64_t offset = 0;
            for (auto* o : placed) {  // by rising offset
                if (o->dies < b->born || o->born > b->dies) continue;
                if (offset + b->bytes <= o->offset) break;
                offset = std::max(offset, o->offset + o->bytes);
            }
            b->offset = offset;
            top = std::max(top, offset + b->bytes);
            placed.insert(std::upper_bound(placed.begin(), placed.end(), b,
                                           [](auto* x, auto* y) { return x->offset < y->offset; }),
                          b);
        }
        offsets_.assign(l_.nodes.size(), 0);
        for (std::int32_t n = 0; n < static_cast<std::int32_t>(l_.nodes.size()); ++n)
            if (auto it = blocks.find(root(n)); it != blocks.end() && in_arena(n))
                offsets_[at(n)] = it->second.offset;
        return top;
    }

    Plan build(std::int64_t arena) {
        Plan plan;
        plan.arena_bytes = arena;
        plan.num_inputs = l_.num_inputs;
        plan.num_scalars = l_.num_scalars;
        plan.nodes = static_cast<std::int64_t>(trace_.nodes.size());
        std::vector<std::int32_t> slot(l_.nodes.size(), -1);
        auto slot_of = [&](std::int32_t n) {
            if (slot[at(n)] >= 0) return slot[at(n)];
            Slot s;
            s.bytes = bytes_of(l_, n);
            if (l_[n].input >= 0) {
                s.where = Slot::Where::Input;
                s.index = l_[n].input;
            } else if (l_[n].target) {
                s.where = Slot::Where::Output;
                s.index = static_cast<std::int32_t>(plan.num_outputs++);
            } else {
                s.offset = offsets_[at(n)];
            }
            slot[at(n)] = static_cast<std::int32_t>(plan.slots.size());
            plan.slots.push_back(s);
            return slot[at(n)];
        };
        for (std::size_t k = 0; k < l_.targets.size(); ++k) {
            const std::int32_t t = l_.targets[k];
            OutputInfo o;
            o.dtype = l_.node(t).dtype;
            o.shape = trace_.targets[k].node->shape;
            o.order = o.shape == l_.node(t).shape ? l_[t].order : Order::RowMajor;
            o.slot = slot_of(t);
            if (l_[t].input >= 0)
                o.same_as_input = l_[t].input;
            else
                o.donated_input = donated_[at(t)];
            plan.outputs.push_back(o);
        }
        for (auto& d : drafts_) {
            if (d.launch.heavy) {
                for (std::size_t k = 0; k < d.operand_nodes.size(); ++k)
                    d.launch.heavy->operands[k].slot = slot_of(d.operand_nodes[k]);
                d.launch.heavy->output.slot = slot_of(d.output_node);
            } else {
                for (std::size_t s = 0; s < d.access_nodes.size(); ++s)
                    for (auto n :
                         d.access_nodes[s])  // an Iota's access reads no memory: any slot will do
                        d.launch.program->segments[s].slots.push_back(
                            slot_of(n < 0 ? d.writes[0] : n));
            }
            plan.launches.push_back(std::move(d.launch));
        }
        return plan;
    }

    const Lowering& l_;
    const Trace& trace_;
    std::vector<Draft>& drafts_;
    std::vector<std::int32_t> born_, dies_, shares_, donated_;
    std::vector<std::int64_t> offsets_;
};

}  // namespace

Plan place_in_memory(const Lowering& l, const Trace& trace, std::vector<Draft> drafts) {
    return Memory(l, trace, drafts).run();
}

Plan emit(Lowering& l, const Trace& trace) {
    std::vector<Draft> drafts;
    for (auto& u : l.units) {
        if (u.cluster >= 0) {
            drafts.push_back(draft_program(l, u));
        } else if (l.node(u.node).op == &ops::kPad || l.node(u.node).op == &ops::kConcat) {
            for (auto& d : draft_regions(l, u))
                drafts.push_back(std::move(d));
        } else {
            drafts.push_back(draft_heavy(l, u));
        }
    }
    batch(l, drafts);
    return place_in_memory(l, trace, std::move(drafts));
}

}  // namespace pippin::plan
