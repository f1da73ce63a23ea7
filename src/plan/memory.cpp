// The place of every value in memory: lifetimes, updates in place, arena offsets, slots.
#include <algorithm>
#include <map>
#include <numeric>

#include "plan/lowering.h"

namespace pippin::plan {

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
        // A launch that finds a bad index has written part of its results: not over what must
        // outlive it.
        if (!in_arena(to) && !p.index_ops.empty()) return false;
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
        std::vector<Block*> order;
        std::vector<Block> placed;  // by rising offset
        for (auto& [n, b] : blocks)
            order.push_back(&b);
        std::stable_sort(order.begin(), order.end(),
                         [](auto* a, auto* b) { return a->bytes > b->bytes; });
        std::int64_t top = 0;
        for (auto* b : order) {
            std::int64_t offset = 0;
            for (const Block& o : placed) {
                if (o.dies < b->born || o.born > b->dies) continue;
                if (offset + b->bytes <= o.offset) break;
                offset = std::max(offset, o.offset + o.bytes);
            }
            b->offset = offset;
            top = std::max(top, offset + b->bytes);
            placed.insert(std::upper_bound(placed.begin(), placed.end(), *b,
                                           [](auto& x, auto& y) { return x.offset < y.offset; }),
                          *b);
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
        std::vector<std::int32_t> writer(l_.nodes.size(), -1);
        for (std::size_t i = 0; i < drafts_.size(); ++i)
            for (auto w : drafts_[i].writes)
                writer[at(w)] = static_cast<std::int32_t>(i);
        for (std::size_t k = 0; k < l_.targets.size(); ++k)
            plan.outputs[k].launch = writer[at(l_.targets[k])];
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

}  // namespace pippin::plan
