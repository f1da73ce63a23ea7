// Fused programs: from the nodes of a cluster to instructions over ordered, coalesced dims.
#include <algorithm>
#include <bit>
#include <functional>
#include <string_view>
#include <tuple>

#include "graph/ops/records.h"
#include "plan/lowering.h"
#include "profile/sites.h"

namespace pippin::plan {

using graph::Kind;
using graph::Node;
namespace ops = graph::ops;

namespace {

DType reg(DType t) { return t == DType::UInt8 ? DType::Int32 : is_half(t) ? DType::Float32 : t; }

// Builds one program. Accesses have strides over `dims` as they come; finish() puts these in order.
class Builder {
  public:
    Builder(const Lowering& l, std::vector<Dim> dims, Form form) : l_(l), dims_(std::move(dims)) {
        p_.form = form;
    }

    std::int32_t push(Instr i) {
        p_.body.push_back(i);
        return static_cast<std::int32_t>(p_.body.size() - 1);
    }

    std::int32_t access(std::int32_t node, DType dtype, const Strides& strides, std::int64_t offset,
                        bool writes) {
        Access a;
        a.dtype = dtype;
        a.strides = strides;
        a.offset = offset;
        a.writes = writes;
        for (std::size_t i = 0; i < p_.accesses.size(); ++i)
            if (nodes_[i] == node && p_.accesses[i] == a) return static_cast<std::int32_t>(i);
        p_.accesses.push_back(a);
        nodes_.push_back(node);
        return static_cast<std::int32_t>(p_.accesses.size() - 1);
    }

    // A view's strides along the program's dims.
    Strides along(const View& v, const Placement& p) const {
        Strides s{};
        for (std::size_t d = 0; d < p.size(); ++d)
            if (p[d] >= 0) s[static_cast<std::size_t>(p[d])] += v.strides[d];
        return s;
    }

    // Reads a value that is in memory or made on the spot, `n` being what the user names (a view
    // perhaps).
    std::int32_t read(std::int32_t n, const Placement& p, int stage, bool kept) {
        const Resolved r = resolve(l_, n);
        const Node& base = l_.node(r.base);
        Instr i;
        i.stage = static_cast<std::uint8_t>(stage);
        i.kept = kept;
        i.type = reg(base.dtype);
        if (base.op == &ops::kFull && l_[r.base].input < 0) {
            i.op = Opcode::Const;
            if (is_floating(base.dtype))
                i.imm = ops::full_value(base);
            else
                i.int_imm = ops::full_int_value(base);
            return once(i);
        }
        if (base.op == &ops::kRunScalar) {
            i.op = Opcode::Scalar;
            i.aux = l_[r.base].scalar;
            if (is_floating(base.dtype)) return once(i);
            i.type = DType::Float64;  // the argument is a double
            return cast(once(i), DType::Float64, base.dtype, stage, kept);
        }
        const Strides s = along(*r.view, p);
        if (is_inline_source(base)) {
            i.op = Opcode::Iota;
            i.type = DType::Int64;
            i.aux = access(-1, DType::Int64, s, r.view->offset, false);
            const std::int32_t index = once(i);
            if (base.op == &ops::kIota) return cast(index, DType::Int64, base.dtype, stage, kept);
            i.op = base.op == &ops::kRandomUniform ? Opcode::RandomUniform : Opcode::RandomBits;
            i.type = base.dtype;
            i.a = index;
            i.aux = l_[r.base].scalar;
            return once(i);
        }
        i.op = Opcode::Load;
        i.aux = access(r.base, base.dtype, s, r.view->offset, false);
        return once(i);
    }

    // Converts a register of dtype `from` (of a node) to dtype `to`.
    std::int32_t cast(std::int32_t a, DType from, DType to, int stage, bool kept) {
        if (reg(from) == to || from == to) return a;
        Instr i;
        i.op = Opcode::Cast;
        i.a = a;
        i.from = reg(from);
        i.type = to;
        i.stage = static_cast<std::uint8_t>(stage);
        i.kept = kept;
        return once(i);
    }

    void store(std::int32_t value, DType type, std::int32_t node, const Strides& s,
               std::int64_t offset, int stage, bool kept) {
        Instr i;
        i.op = Opcode::Store;
        i.a = value;
        i.type = reg(type);
        i.stage = static_cast<std::uint8_t>(stage);
        i.kept = kept;
        i.aux = access(node, type, s, offset, true);
        push(i);
    }

    // The instruction itself, or an equal one that runs no later.
    std::int32_t once(const Instr& i) {
        for (std::size_t k = 0; k < p_.body.size(); ++k) {
            Instr other = p_.body[k];
            if (other.stage <= i.stage && other.kept == i.kept) {
                other.stage = i.stage;
                if (other == i) return static_cast<std::int32_t>(k);
            }
        }
        return push(i);
    }

    Instr& at(std::int32_t i) { return p_.body[static_cast<std::size_t>(i)]; }
    Program& program() { return p_; }

    Draft finish(std::string name) {
        sort_body();
        order_dims();
        Draft d;
        d.launch.name = std::move(name);
        std::int64_t points = 1;
        for (int k = 0; k < p_.rank; ++k)
            points *= p_.extents[static_cast<std::size_t>(k)];
        for (std::size_t a = 0; a < p_.accesses.size(); ++a) {
            if (nodes_[a] < 0) continue;
            (p_.accesses[a].writes ? d.writes : d.reads).push_back(nodes_[a]);
            std::int64_t n = static_cast<std::int64_t>(size_of(p_.accesses[a].dtype));
            for (int k = 0; k < p_.rank; ++k)
                if (p_.accesses[a].strides[static_cast<std::size_t>(k)] != 0)
                    n *= p_.extents[static_cast<std::size_t>(k)];
            d.launch.bytes_moved += n;
        }
        for (auto& i : p_.body)
            if (i.op > Opcode::RandomUniform && i.op != Opcode::Store && !i.kept)
                d.launch.flops += points;
        auto launch = std::make_unique<ProgramLaunch>();
        launch->program = std::move(p_);
        launch->segments.emplace_back();
        d.launch.program = std::move(launch);
        d.access_nodes.push_back(std::move(nodes_));
        return d;
    }

  private:
    // Stages in order, kept instructions of a stage first, stores last among their own.
    void sort_body() {
        std::vector<std::int32_t> order(p_.body.size());
        for (std::size_t i = 0; i < order.size(); ++i)
            order[i] = static_cast<std::int32_t>(i);
        auto rank = [&](std::int32_t i) {
            const Instr& x = at(i);
            return (x.stage * 2 + (x.kept ? 0 : 1)) * 2 + (x.op == Opcode::Store ? 1 : 0);
        };
        std::stable_sort(order.begin(), order.end(),
                         [&](auto a, auto b) { return rank(a) < rank(b); });
        std::vector<std::int32_t> moved(order.size());
        std::vector<Instr> body;
        for (auto i : order) {
            moved[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(body.size());
            body.push_back(at(i));
        }
        for (auto& i : body)
            for (auto* operand : {&i.a, &i.b, &i.c})
                if (*operand >= 0) *operand = moved[static_cast<std::size_t>(*operand)];
        p_.body = std::move(body);
    }

    // Outer and inner dims by falling stride of the access that covers most dims; neighbours that
    // every access walks as one become one.
    void order_dims() {
        const Access* guide = nullptr;
        int best = -1;
        for (std::size_t a = 0; a < p_.accesses.size(); ++a) {
            if (nodes_[a] < 0) continue;
            int covered = p_.accesses[a].writes;
            for (std::size_t d = 0; d < dims_.size(); ++d)
                covered += 2 * (p_.accesses[a].strides[d] != 0);
            if (covered > best) {
                best = covered;
                guide = &p_.accesses[a];
            }
        }
        std::vector<std::size_t> order;
        for (std::size_t d = 0; d < dims_.size(); ++d)
            if (dims_[d].extent != 1) order.push_back(d);
        const bool inner_reduced = p_.form == Form::RowReduce;
        auto inner = [&](std::size_t d) {
            return p_.form != Form::Map && dims_[d].reduced == inner_reduced;
        };
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
            if (inner(a) != inner(b)) return inner(b);
            auto stride = [&](std::size_t d) { return guide ? std::abs(guide->strides[d]) : 0; };
            // A dim the guide does not walk stays where its number puts it: outermost.
            const auto sa = stride(a), sb = stride(b);
            return (sa == 0) != (sb == 0) ? sa == 0 : sa > sb;
        });
        std::vector<Access> ordered = p_.accesses;
        for (auto& a : ordered)
            a.strides = {};
        int rank = 0;
        auto put = [&](std::int64_t extent) {
            p_.extents[static_cast<std::size_t>(rank)] = extent;
            return static_cast<std::size_t>(rank++);
        };
        int group_start = 0;
        bool started_inner = false;
        for (auto d : order) {
            if (inner(d) && !started_inner) {
                started_inner = true;
                if (rank == 0 && p_.form == Form::ColReduce) put(1);
                p_.split = rank;
                group_start = rank;
            }
            const std::int64_t extent = dims_[d].extent;
            bool joins = rank > group_start;
            for (std::size_t a = 0; joins && a < ordered.size(); ++a)
                joins = ordered[a].strides[static_cast<std::size_t>(rank - 1)] ==
                        p_.accesses[a].strides[d] * extent;
            const std::size_t k = joins ? static_cast<std::size_t>(rank - 1) : put(0);
            p_.extents[k] = joins ? p_.extents[k] * extent : extent;
            for (std::size_t a = 0; a < ordered.size(); ++a)
                ordered[a].strides[k] = p_.accesses[a].strides[d];
        }
        if (p_.form == Form::Map) {
            if (rank == 0) put(1);
            p_.split = rank;
        } else if (!started_inner) {
            if (rank == 0 && p_.form == Form::ColReduce) put(1);
            p_.split = rank;
            put(1);
        }
        p_.rank = rank;
        p_.accesses = std::move(ordered);
    }

    const Lowering& l_;
    std::vector<Dim> dims_;
    Program p_;
    std::vector<std::int32_t> nodes_;
};

// Bool arithmetic is logic, as in PyTorch.
Opcode opcode_of(const Node& n) {
    auto op = static_cast<Opcode>(n.op->opcode);
    if (n.dtype != DType::Bool) return op;
    if (op == Opcode::Add || op == Opcode::Maximum) return Opcode::Or;
    if (op == Opcode::Mul || op == Opcode::Minimum) return Opcode::And;
    return op;
}

Opcode reduction_of(const Node& n) {
    if (n.op == &ops::kReduceSum) return Opcode::ReduceSum;
    if (n.op == &ops::kReduceProd) return Opcode::ReduceProd;
    if (n.op == &ops::kReduceMax) return Opcode::ReduceMax;
    if (n.op == &ops::kReduceMin) return Opcode::ReduceMin;
    if (n.op == &ops::kReduceM2) return Opcode::ReduceM2;
    return n.op == &ops::kReduceArgMax ? Opcode::ReduceArgMax : Opcode::ReduceArgMin;
}

class ClusterEmitter {
  public:
    ClusterEmitter(const Lowering& l, const Unit& u, const Cluster& q)
        : l_(l),
          u_(u),
          q_(q),
          col_(q.reduces() && !row_form(q)),
          b_(l, q.dims,
             !q.reduces() ? Form::Map
             : col_       ? Form::ColReduce
                          : Form::RowReduce) {}

    Draft run() {
        const std::vector<std::size_t> order = canonical_order();
        std::string name;
        std::vector<recording::Site> sites;
        int named = 0;
        for (auto m : order) {
            member(m);
            const Node& n = l_.node(q_.members[m]);
            if (recording::on()) sites.push_back(recording::site_of_node(&n));
            if (++named <= 8)
                name += (named > 1 ? "+" : "") + std::string(n.op->name);
            else if (named == 9)
                name += "+...";
        }
        for (auto m : order)
            if (std::find(u_.outputs.begin(), u_.outputs.end(), q_.members[m]) != u_.outputs.end())
                store(q_.members[m]);
        Draft d = b_.finish(std::move(name));
        if (!sites.empty())
            recording::mark_launch(d.launch.program.get(), recording::joined(sites));
        return d;
    }

  private:
    // By depth, then by what is computed from what: equal expressions over different buffers become
    // equal programs, however the graph was numbered.
    std::vector<std::size_t> canonical_order() const {
        struct Rank {
            int depth = 0;
            std::uint64_t hash = 0;
            std::int32_t id = 0;
        };
        std::vector<std::size_t> order(q_.members.size());
        for (std::size_t i = 0; i < order.size(); ++i)
            order[i] = i;
        std::sort(order.begin(), order.end(),
                  [&](auto a, auto b) { return q_.members[a] < q_.members[b]; });
        std::vector<Rank> ranks(order.size());
        for (auto m : order) {
            const std::int32_t id = q_.members[m];
            Key k;
            k.add(
                std::hash<std::string_view>()(l_.node(id).op->name));  // the same in every process
            k.add(static_cast<std::uint64_t>(l_.node(id).dtype));
            int depth = 0;
            for (auto in : l_[id].in) {
                while (is_strided_view(l_.node(in)) && !q_.placement(in))
                    in = l_[in].in[0];
                const auto at = std::find(q_.members.begin(), q_.members.end(), in);
                const Node& n = l_.node(in);
                if (at != q_.members.end()) {
                    const Rank& r = ranks[static_cast<std::size_t>(at - q_.members.begin())];
                    depth = std::max(depth, r.depth + 1);
                    k.add(r.hash);
                } else {
                    k.add(n.op == &ops::kFull ? std::bit_cast<std::uint64_t>(ops::full_value(n))
                                              : static_cast<std::uint64_t>(n.dtype));
                    k.add(static_cast<std::uint64_t>(l_[in].scalar));
                    k.add(static_cast<std::uint64_t>(n.shape.numel() == 1));
                }
            }
            ranks[m] = {depth, k.a, id};
        }
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
            return std::tie(ranks[a].depth, ranks[a].hash) <
                   std::tie(ranks[b].depth, ranks[b].hash);
        });
        return order;
    }

    struct Result {
        std::int32_t instr = -1;
        int stage = 0;  ///< from which it can be used
        bool kept = false;
    };

    bool is_kept(std::size_t m) const {
        if (!q_.reduces()) return false;
        for (auto d : q_.placements[m])
            if (d >= 0 && q_.dims[static_cast<std::size_t>(d)].reduced) return false;
        return true;
    }

    Placement input_placement(std::size_t m) const {
        Placement p = q_.placements[m];
        const std::int32_t i = q_.members[m];
        if (l_.node(i).op->kind != Kind::Reduce) return p;
        const Shape& in = l_.node(l_[i].in[0]).shape;
        std::int8_t next = 0;
        for (auto d : l_.node(i).attrs.i) {
            if (in[static_cast<int>(d)] == 1) continue;
            while (!q_.dims[static_cast<std::size_t>(next)].reduced ||
                   q_.dims[static_cast<std::size_t>(next)].extent == 1)
                ++next;
            p[static_cast<std::size_t>(d)] = next++;
        }
        return p;
    }

    const Result* member_result(std::int32_t in) const {
        while (is_strided_view(l_.node(in)) && !q_.placement(in))
            in = l_[in].in[0];
        for (auto& [n, r] : results_)
            if (n == in) return &r;
        return nullptr;
    }

    void member(std::size_t m) {
        const std::int32_t id = q_.members[m];
        const Node& n = l_.node(id);
        const bool reduce = n.op->kind == Kind::Reduce;
        const bool kept = is_kept(m) && !reduce;
        int stage = kept && col_ ? 1 : 0;
        for (auto in : l_[id].in)
            if (const Result* r = member_result(in)) stage = std::max(stage, r->stage);
        const Placement p = input_placement(m);
        SmallVec<std::int32_t, 3> args;
        for (auto in : l_[id].in) {
            const Result* r = member_result(in);
            args.push_back(r ? r->instr : b_.read(in, p, stage, kept));
        }
        Instr i;
        i.stage = static_cast<std::uint8_t>(stage);
        i.kept = kept;
        i.type = reg(n.dtype);
        const DType in_type = l_.node(l_[id].in[0]).dtype;
        Result out{-1, stage, kept};
        if (reduce) {
            i.op = reduction_of(n);
            i.from = reg(in_type);
            i.a = args[0];
            if (i.op == Opcode::ReduceSum || i.op == Opcode::ReduceProd) {
                i.a = b_.cast(args[0], in_type, i.type, stage, false);
                i.from = i.type;
            }
            out = {b_.push(i), stage + 1, true};
        } else if (n.op == &kCopy) {
            out.instr = args[0];
        } else if (n.op == &ops::kCast) {
            out.instr = b_.cast(args[0], in_type, n.dtype, stage, kept);
        } else {
            i.op = opcode_of(n);
            i.from = reg(in_type);
            i.a = args[0];
            if (args.size() > 1) i.b = args[1];
            if (args.size() > 2) i.c = args[2];
            if (n.op == &ops::kSelect) i.from = i.type;
            if (n.op == &ops::kCheckIndex) {
                const auto a = ops::check_index_attrs(n.attrs);
                i.imm_range = {a.low, a.high};
                i.int_imm = a.ignore;
                i.aux = static_cast<std::int32_t>(b_.program().index_ops.size());
                b_.program().index_ops.push_back(a.op);
            }
            out.instr = b_.push(i);
            if (n.dtype == DType::UInt8) out.instr = wrapped(out.instr, i);
        }
        results_.emplace_back(id, out);
    }

    // uint8 is computed as int32 and wraps.
    std::int32_t wrapped(std::int32_t value, const Instr& like) {
        Instr mask = like;
        mask.op = Opcode::Const;
        mask.a = mask.b = mask.c = -1;
        mask.int_imm = 255;
        mask.from = DType::Float32;
        const std::int32_t m = b_.once(mask);
        Instr i = like;
        i.op = Opcode::And;
        i.a = value;
        i.b = m;
        i.c = -1;
        return b_.push(i);
    }

    void store(std::int32_t id) {
        const Result& r = *member_result(id);
        const Node& n = l_.node(id);
        View v;
        v.shape = n.shape;
        v.strides = dense_strides(n.shape, l_[id].order);
        const Strides s = b_.along(v, *q_.placement(id));
        b_.store(r.instr, n.dtype, id, s, 0, r.stage, r.kept);
    }

    const Lowering& l_;
    const Unit& u_;
    const Cluster& q_;
    bool col_;
    Builder b_;
    std::vector<std::pair<std::int32_t, Result>> results_;
};

// One program that writes `n` (or a constant) into a strided part of `out`.
Draft write_part(const Lowering& l, std::int32_t n, const Instr* constant, const Shape& shape,
                 std::int32_t out, const View& part, std::string name) {
    std::vector<Dim> dims;
    Placement p;
    for (int d = 0; d < shape.rank(); ++d) {
        p.push_back(static_cast<std::int8_t>(d));
        dims.push_back({shape[d], false});
    }
    Builder b(l, std::move(dims), Form::Map);
    const std::int32_t value = constant ? b.push(*constant) : b.read(n, p, 0, false);
    b.store(value, l.node(out).dtype, out, b.along(part, p), part.offset, 0, false);
    return b.finish(std::move(name));
}

}  // namespace

Draft draft_program(const Lowering& l, const Unit& u) {
    return ClusterEmitter(l, u, l.clusters[static_cast<std::size_t>(u.cluster)]).run();
}

std::vector<Draft> draft_regions(const Lowering& l, const Unit& u) {
    const Node& n = l.node(u.node);
    const auto& in = l[u.node].in;
    View whole;
    whole.shape = n.shape;
    whole.strides = dense_strides(n.shape, l[u.node].order);
    std::vector<Draft> out;
    if (n.op == &ops::kConcat) {
        const auto dim = static_cast<std::size_t>(ops::dim_attr(n.attrs));
        View part = whole;
        for (auto i : in) {
            const Shape& s = l.node(i).shape;
            out.push_back(write_part(l, i, nullptr, s, u.node, part, "concat"));
            part.offset += s[static_cast<int>(dim)] * whole.strides[dim];
        }
        return out;
    }
    Instr value;
    value.op = Opcode::Const;
    value.type = reg(n.dtype);
    if (is_floating(n.dtype))
        value.imm = ops::pad_value(n);
    else
        value.int_imm = ops::pad_int_value(n);
    out.push_back(write_part(l, -1, &value, n.shape, u.node, whole, "pad"));
    View part = whole;
    const auto low = ops::pad_low(n.attrs), inner = ops::pad_inner(n.attrs);
    for (int d = 0; d < n.shape.rank(); ++d) {
        const auto k = static_cast<std::size_t>(d);
        part.offset += low[k] * whole.strides[k];
        part.strides[k] *= inner[k] + 1;
    }
    const Shape& s = l.node(in[0]).shape;
    if (s.numel() > 0) out.push_back(write_part(l, in[0], nullptr, s, u.node, part, "pad"));
    return out;
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
