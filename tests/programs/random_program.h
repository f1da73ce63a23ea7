// Random programs: all forms and opcodes, odd strides, updates in place.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "programs/builder.h"

namespace pippin::programs {

using plan::Form;
using plan::Opcode;

class Generator {
  public:
    /// `float64`: whether programs may compute with it.
    explicit Generator(std::uint64_t seed, bool float64 = true)
        : random_(seed), float64_(float64), b_(make()) {}

    plan::Program program() {
        const bool map = b_.p.form == Form::Map;
        const int stages = map ? 1 : b_.p.form == Form::ColReduce ? 2 : 1 + pick(3);
        for (int s = 0; s < stages; ++s) {
            b_.stage = s;
            const bool kept_only = b_.p.form == Form::ColReduce && s == 1;
            if (!map && (b_.p.form != Form::ColReduce || s == 1)) {
                b_.kept = true;
                if (pick(2)) add_load(true);
                for (int n = pick(3); n > 0; --n)
                    add_op(true);
                b_.kept = false;
            }
            if (kept_only) break;
            for (int n = 1 + pick(3); n > 0; --n)
                add_load(false);
            for (int n = 1 + pick(7); n > 0; --n)
                add_op(false);
            if (!map && (s + 1 < stages || pick(2)))
                for (int n = 1 + pick(2); n > 0; --n)
                    add_reduction();
        }
        finish(stages);
        return b_.p;
    }

    std::vector<Buffer> buffers(const plan::Program& p) {
        std::vector<Buffer> out;
        for (const auto& a : p.accesses) {
            const std::int64_t n = reach(p, a);
            Buffer buffer(static_cast<std::size_t>(n) * size_of(a.dtype));
            for (std::int64_t e = 0; e < n; ++e)
                write_value(buffer, e, a.dtype, number(a.dtype));
            out.push_back(std::move(buffer));
        }
        return out;
    }

    std::vector<std::uint64_t> scalars() {
        return {bits_of(0.375), 7, 0x123456789abcdef0u, 0xfedcba9876543210u};
    }

  private:
    struct Reg {
        std::int32_t id;
        DType type;
        int stage;
        bool kept;
    };

    int pick(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
    template <class T>
    T one_of(std::initializer_list<T> list) {
        return *(list.begin() + pick(static_cast<int>(list.size())));
    }

    Builder make() {
        const int rank = 1 + pick(5);
        std::vector<std::int64_t> extents;
        std::int64_t total = 1;
        for (int d = 0; d < rank; ++d) {
            std::int64_t e = one_of<std::int64_t>({1, 2, 3, 6, 10, 16, 33, 64, 257, 1025, 5000});
            while (total * e > 9000)
                e = one_of<std::int64_t>({1, 2, 3, 1});
            if (total * e > 12000) e = 1;
            total *= e;
            extents.push_back(e);
        }
        const Form form = one_of({Form::Map, Form::RowReduce, Form::ColReduce});
        return Builder(form, extents, form == Form::Map ? rank : pick(rank + 1));
    }

    double number(DType t) {
        if (t == DType::Bool) return pick(2);
        if (t == DType::UInt8) return pick(256);
        if (!is_floating(t)) return pick(41) - 20;
        if (pick(200) == 0)
            return one_of(
                {std::nan(""), double(INFINITY), -double(INFINITY), -0.0, 1e-40, 65000.0});
        return (pick(65) - 32) / 8.0;
    }

    // Strides over dims [begin, end): dense in some order of the dims, perhaps with gaps or
    // backwards.
    std::vector<std::int64_t> layout(int begin, int end, bool may_repeat, std::int64_t& offset) {
        std::vector<int> order;
        for (int d = begin; d < end; ++d)
            order.push_back(d);
        if (pick(3) == 0) std::shuffle(order.begin(), order.end(), random_);
        std::vector<std::int64_t> s(static_cast<std::size_t>(b_.p.rank), 0);
        std::int64_t step = pick(8) == 0 ? 2 : 1;
        offset = pick(4) == 0 ? pick(5) : 0;
        for (std::size_t k = order.size(); k-- > 0;) {
            const auto d = static_cast<std::size_t>(order[k]);
            if (may_repeat && pick(4) == 0) continue;
            s[d] = step;
            step *= b_.p.extents[d];
            if (pick(10) == 0) step += 3;
            if (pick(12) == 0) {
                offset += s[d] * (b_.p.extents[d] - 1);
                s[d] = -s[d];
            }
        }
        return s;
    }

    std::int32_t add_access(DType t, bool kept, bool writes) {
        int begin = 0, end = b_.p.rank;
        if (kept && b_.p.form == Form::RowReduce) end = b_.p.split;
        if (kept && b_.p.form == Form::ColReduce) begin = b_.p.split;
        if (writes && b_.p.form == Form::Map && pick(2)) {
            const std::int32_t shared = add_update_in_place();
            if (shared >= 0) return shared;
        }
        std::int64_t offset = 0;
        const bool may_repeat = !writes && pick(2);
        const auto s = layout(begin, end, may_repeat, offset);
        const std::int32_t a = b_.access(t, s, writes, offset);
        if (!writes && !may_repeat && !kept) distinct_.push_back(a);
        return a;
    }

    // A store into the memory of a load that has no two points at one element.
    std::int32_t add_update_in_place() {
        if (distinct_.empty()) return -1;
        const std::int32_t from = distinct_.back();
        distinct_.pop_back();
        const plan::Access in = b_.p.accesses[static_cast<std::size_t>(from)];
        bool is_memory = false;
        for (const auto& i : b_.p.body)
            is_memory = is_memory || (i.op == Opcode::Load && i.aux == from);
        if (!is_memory) return -1;
        DType t = memory_type();
        while (size_of(t) != size_of(in.dtype))
            t = memory_type();
        std::vector<std::int64_t> s(in.strides.begin(), in.strides.begin() + b_.p.rank);
        const std::int32_t a = b_.access(t, s, true, in.offset);
        b_.p.accesses.back().alias_of = from;
        return a;
    }

    DType memory_type() {
        return allowed(
            one_of({DType::Float32, DType::Float32, DType::Float32, DType::Float16, DType::BFloat16,
                    DType::Float64, DType::Int64, DType::Int32, DType::UInt8, DType::Bool}));
    }
    // The same number of draws either way.
    DType allowed(DType t) const { return t == DType::Float64 && !float64_ ? DType::Float32 : t; }
    static DType register_of(DType t) {
        return t == DType::UInt8 ? DType::Int32 : is_half(t) ? DType::Float32 : t;
    }

    void keep(std::int32_t id, DType t, bool kept) { regs_.push_back({id, t, b_.stage, kept}); }

    void add_load(bool kept) {
        const int what = pick(12);
        if (what == 0) {
            const auto id =
                b_.source(Opcode::Iota, DType::Int64, add_access(DType::Int64, kept, false));
            keep(id, DType::Int64, kept);
            if (pick(2)) {
                const bool uniform = pick(2);
                const DType t = uniform ? DType::Float32 : DType::Int64;
                keep(b_.source(uniform ? Opcode::RandomUniform : Opcode::RandomBits, t, 2, id), t,
                     kept);
            }
            return;
        }
        if (what == 1)
            return keep(b_.constant(one_of({0.0, 1.0, -2.5, 3.0}), DType::Float32), DType::Float32,
                        kept);
        if (what == 2)
            return keep(b_.source(Opcode::Scalar, DType::Float32, 0), DType::Float32, kept);
        const DType t = memory_type();
        const DType reg = pick(5) ? register_of(t) : DType::Float32;
        keep(b_.load(add_access(t, kept, false), reg), reg, kept);
    }

    // A value usable by an instruction of this stage; -1 if there is none.
    std::int32_t operand(DType t, bool kept) {
        std::vector<std::int32_t> fit;
        for (const Reg& r : regs_)
            if (r.type == t && (!kept || r.kept) && r.stage <= b_.stage) fit.push_back(r.id);
        return fit.empty() ? -1 : fit[static_cast<std::size_t>(pick(static_cast<int>(fit.size())))];
    }
    std::int32_t operand_or_constant(DType t, bool kept) {
        const std::int32_t v = operand(t, kept);
        if (v >= 0 && pick(8)) return v;
        return b_.constant(t == DType::Bool ? pick(2) : pick(7) - 3, t);
    }

    void add_op(bool kept) {
        DType t = allowed(one_of({DType::Float32, DType::Float32, DType::Float32, DType::Float64,
                                  DType::Int32, DType::Int64, DType::Bool}));
        std::int32_t a = operand(t, kept);
        if (a < 0) {
            if (regs_.empty()) return;
            t = DType::Float32;
            a = operand_or_constant(t, kept);
        }
        const int what = pick(10);
        if (what == 0) {  // change the type
            const DType to =
                allowed(one_of({DType::Float32, DType::Float64, DType::Int32, DType::Int64,
                                DType::Bool, DType::UInt8, DType::Float16, DType::BFloat16}));
            keep(b_.op(Opcode::Cast, to, a), register_of(to), kept);
            b_.p.body.back().type = to;
            return;
        }
        if (what == 1) {
            const auto b = operand_or_constant(t, kept);
            keep(b_.op(one_of({Opcode::Eq, Opcode::Ne, Opcode::Lt, Opcode::Le}), DType::Bool, a, b),
                 DType::Bool, kept);
            return;
        }
        if (what == 2) {
            const auto c = operand(DType::Bool, kept);
            if (c >= 0) {
                const auto other = operand_or_constant(t, kept);
                return keep(b_.op(Opcode::Select, t, c, a, other), t, kept);
            }
        }
        if (what < 5) {
            Opcode o;
            if (t == DType::Bool)
                o = Opcode::LogicalNot;
            else if (!is_floating(t))
                o = one_of({Opcode::Neg, Opcode::Abs, Opcode::Sign, Opcode::Relu});
            else
                o = one_of({Opcode::Neg, Opcode::Abs, Opcode::Sign, Opcode::Exp, Opcode::Log,
                            Opcode::Sqrt, Opcode::Rsqrt, Opcode::Reciprocal, Opcode::Tanh,
                            Opcode::Sigmoid, Opcode::Erf, Opcode::Sin, Opcode::Cos, Opcode::Floor,
                            Opcode::Ceil, Opcode::Round, Opcode::Relu});
            return keep(b_.op(o, t, a), t, kept);
        }
        const auto b = operand_or_constant(t, kept);
        Opcode o;
        if (t == DType::Bool)
            o = one_of({Opcode::And, Opcode::Or, Opcode::Xor, Opcode::Maximum, Opcode::Minimum});
        else if (!is_floating(t))
            o = one_of({Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div, Opcode::Remainder,
                        Opcode::Maximum, Opcode::Minimum, Opcode::And, Opcode::Or, Opcode::Xor});
        else
            o = one_of({Opcode::Add, Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Mul,
                        Opcode::Div, Opcode::Maximum, Opcode::Minimum, Opcode::Pow});
        if (pick(8) == 0 && is_floating(t)) {
            const auto c = operand_or_constant(t, kept);
            return keep(b_.op(Opcode::Fma, t, a, b, c), t, kept);
        }
        keep(b_.op(o, t, a, b), t, kept);
    }

    void add_reduction() {
        const DType t = allowed(one_of({DType::Float32, DType::Float32, DType::Float64,
                                        DType::Int32, DType::Int64, DType::Bool}));
        const auto a = operand(t, false);
        if (a < 0) return;
        const Opcode o = one_of({Opcode::ReduceSum, Opcode::ReduceSum, Opcode::ReduceProd,
                                 Opcode::ReduceMax, Opcode::ReduceMin, Opcode::ReduceM2,
                                 Opcode::ReduceArgMax, Opcode::ReduceArgMin});
        if (o == Opcode::ReduceM2 && !is_floating(t)) return;
        DType result = t;
        if (o == Opcode::ReduceArgMax || o == Opcode::ReduceArgMin) result = DType::Int64;
        if ((o == Opcode::ReduceSum || o == Opcode::ReduceProd) && !is_floating(t))
            result = DType::Int64;
        const auto id = b_.op(o, result, a);
        // usable from the next stage on
        regs_.push_back({id, result, b_.stage + 1, true});
    }

    void finish(int stages) {
        // Results of the last stage's reductions need one more stage of kept stores.
        const bool map = b_.p.form == Form::Map;
        for (int n = 0; n < 3; ++n) {
            if (regs_.empty()) break;
            const Reg r = regs_[static_cast<std::size_t>(pick(static_cast<int>(regs_.size())))];
            const bool full =
                !r.kept || (b_.p.form == Form::RowReduce && pick(2) && r.stage < stages);
            if (full && b_.p.form == Form::ColReduce)
                b_.stage = 0;
            else
                b_.stage = map ? 0 : std::max(r.stage, stages - 1);
            if (!full) b_.stage = std::max(b_.stage, r.stage);
            if (full && b_.p.form == Form::ColReduce && r.kept) continue;
            b_.kept = !full && !map;
            b_.store(r.id, add_access(memory_type(), b_.kept, true));
            b_.kept = false;
        }
        if (b_.p.accesses.empty() || !b_.p.accesses.back().writes) {
            b_.stage = 0;
            const auto one = b_.constant(1.0);
            b_.store(one, add_access(DType::Float32, false, true));
        }
    }

    std::mt19937_64 random_;
    bool float64_;
    Builder b_;
    std::vector<Reg> regs_;
    std::vector<std::int32_t> distinct_;  // loads that a store may overwrite
};

}  // namespace pippin::programs
