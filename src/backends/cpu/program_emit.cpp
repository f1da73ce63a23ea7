// Making steps: each value's section, vector function and register.
#include "backends/cpu/program_emit.h"

#include <bit>

#include "pippin/error.h"

namespace pippin::cpu {
namespace {

using plan::Instr;
using plan::Opcode;

// What an operation costs, in eighths of an element operation of threads.h.
constexpr std::int64_t kCheap = 2, kMemory = 3, kCopied = 8, kSlow = 12, kRandom = 28,
                       kLibrary = 200;

std::int64_t cost_of(Opcode op, Reg type) {
    switch (op) {
        case Opcode::Exp:
        case Opcode::Log:
        case Opcode::Tanh:
        case Opcode::Sigmoid:
        case Opcode::Erf:
        case Opcode::Sin:
        case Opcode::Cos:
            return type == Reg::Float32 ? kSlow : kLibrary;
        case Opcode::Sqrt:
        case Opcode::Rsqrt:
        case Opcode::Reciprocal:
        case Opcode::Div:
            return kSlow;
        case Opcode::Pow:
        case Opcode::Remainder:
            return kLibrary;
        case Opcode::RandomBits:
        case Opcode::RandomUniform:
            return kRandom;
        default:
            return kCheap;
    }
}

class Emitter {
  public:
    Emitter(BlockProgram& program, const Values& values) : p_(program), v_(values) { emit(); }
    Code take() { return std::move(code_); }

  private:
    enum class Section : std::uint8_t { Once, Setup, Row, Block };

    static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

    [[noreturn]] static void unsupported(const Instr& i) {
        throw Error(std::string("fused program: no CPU code for ") + plan::name_of(i.op) + " of " +
                    std::string(name_of(i.type)));
    }

    Section section_of(std::uint8_t c, bool constant) const {
        if (c == kUniform) return constant ? Section::Once : Section::Setup;
        if (c == kColumn) return Section::Setup;
        if (c == kRow && !p_.tile) return Section::Row;
        return Section::Block;
    }
    static Count count_of_class(std::uint8_t c) { return static_cast<Count>(c); }

    std::vector<Step>& steps(Section s) {
        switch (s) {
            case Section::Once:
                return p_.once;
            case Section::Setup:
                return p_.setup;
            case Section::Row:
                return p_.row;
            case Section::Block:
                break;
        }
        return p_.block;
    }

    std::int16_t new_slot(std::size_t element, Count count, bool persistent) {
        code_.slots.push_back({element, count, persistent});
        if (code_.slots.size() > 32000) throw Error("fused program: too many values");
        return static_cast<std::int16_t>(code_.slots.size() - 1);
    }

    Step& add(Section section, Step step) {
        auto& list = steps(section);
        list.push_back(step);
        return list.back();
    }

    Step call(Fn f, Count n, std::int16_t out, std::int16_t a, std::int16_t b = 0,
              std::int16_t c = 0) {
        Step s;
        s.function = f;
        s.count = n;
        s.out = out, s.a = a, s.b = b, s.c = c;
        return s;
    }

    void point(Section section, Direct d) {
        if (section == Section::Setup) p_.setup_direct.push_back(d);
        if (section == Section::Row) p_.row_direct.push_back(d);
        if (section == Section::Block) p_.block_direct.push_back(d);
    }

    // Whether a block's elements of this view lie one behind the other.
    bool dense(std::int32_t view, std::uint8_t c) const {
        const auto& v = p_.views[at(view)];
        switch (c) {
            case kUniform:
                return true;
            case kRow:
                return !p_.tile || (v.is_linear && (v.linear == 1 || p_.block_rows == 1));
            case kColumn:
                return v.column == 1;
            default:
                break;
        }
        if (v.column != 1 && (p_.columns > 1 || p_.dynamic)) return false;
        if (!p_.tile) return true;
        if (p_.block_rows == 1) return v.is_linear;
        return v.is_linear && p_.block_columns == p_.columns && v.linear == p_.columns;
    }

    void note_runs(std::int32_t view, std::uint8_t c) {
        if (p_.tile && (c & kRow) && !p_.views[at(view)].is_linear) p_.needs_runs = true;
    }

    std::int16_t load(std::size_t n) {
        const Instr& i = v_.body[n];
        const std::uint8_t c = v_.classes[n];
        const Section section = section_of(c, false);
        const bool persistent = section != Section::Block;
        const DType memory = v_.part.views[at(i.aux)].dtype;
        const Reg reg = reg_of(i.type);
        const Count count = count_of_class(c);
        std::int16_t slot;
        if (c == kFull) p_.cost += dense(i.aux, c) ? kMemory : kMemory + kCopied;
        if (dense(i.aux, c)) {
            slot = new_slot(0, count, true);
            const auto element = static_cast<std::uint8_t>(size_of(memory));
            point(section, {slot, i.aux, element, count});
        } else {
            note_runs(i.aux, c);
            slot = new_slot(size_of(memory), count, persistent);
            Step s;
            s.kind = Step::Kind::Gather;
            s.count = count;
            s.out = slot;
            s.aux = i.aux;
            s.copy = find_copy(size_of(memory));
            add(section, s);
        }
        code_.view_of_slot[slot] = i.aux;
        if (memory == dtype_of(reg)) return slot;
        const std::int16_t out = new_slot(size_of(reg), count, persistent);
        add(section, call(find_convert(memory, dtype_of(reg)), count, out, slot));
        return out;
    }

    std::int16_t iota(std::size_t n) {
        const Instr& i = v_.body[n];
        const std::uint8_t c = v_.classes[n];
        const Section section = section_of(c, false);
        note_runs(i.aux, c);
        Step s;
        s.kind = Step::Kind::Iota;
        s.count = count_of_class(c);
        s.aux = i.aux;
        s.out = new_slot(8, s.count, section != Section::Block);
        add(section, s);
        return s.out;
    }

    // The slot of a value as it is computed; loads and points are emitted when first needed.
    std::int16_t own(std::int32_t index) {
        const auto n = at(v_.value(index));
        if (slot_[n] < 0) {
            if (v_.body[n].op == Opcode::Load) slot_[n] = load(n);
            if (v_.body[n].op == Opcode::Iota) slot_[n] = iota(n);
            if (slot_[n] < 0) throw Error("fused program: a value is used before it is there");
        }
        return slot_[n];
    }

    // A value where a full block is needed.
    std::int16_t full(std::int32_t index) {
        const auto n = at(v_.value(index));
        const std::int16_t from = own(index);
        const std::uint8_t c = v_.classes[n];
        if (c == kFull) return from;
        if (expanded_[n] >= 0) return expanded_[n];
        const std::size_t element = size_of(v_.type(index));
        if (c == kUniform) {
            const std::int16_t out = new_slot(element, Count::Full, true);
            add(Section::Setup, call(find_splat(element), Count::Full, out, from));
            return expanded_[n] = out;
        }
        if (c == kColumn && v_.one_row) return expanded_[n] = window(from, element);
        const bool by_rows = c == kRow;
        if (by_rows && v_.one_row) {
            const std::int16_t out = new_slot(element, Count::Full, false);
            add(Section::Block, call(find_splat(element), Count::Full, out, from));
            return expanded_[n] = out;
        }
        Step s;
        s.kind = by_rows ? Step::Kind::ExpandRows : Step::Kind::ExpandColumns;
        s.out = new_slot(element, Count::Full, !by_rows);
        s.a = from;
        s.copy = find_copy(element);
        add(by_rows ? Section::Block : Section::Setup, s);
        return expanded_[n] = s.out;
    }

    // All columns' values where a block is one row, or a piece of it. A tile has no others.
    std::int16_t window(std::int16_t from, std::size_t element) {
        if (p_.tile || p_.columns <= p_.block_columns) return from;
        const std::int16_t slot = new_slot(0, Count::Full, true);
        p_.windows.push_back({slot, from, static_cast<std::uint8_t>(element)});
        return slot;
    }

    // Whether a value of class `from` is a single one in a computation of class `to`.
    bool is_single(std::uint8_t from, std::uint8_t to) const {
        if (from == to) return false;
        return from == kUniform || (from == kRow && v_.one_row);
    }
    bool one_element(std::uint8_t c) const { return c == kUniform || (c == kRow && v_.one_row); }

    void compute(std::size_t n) {
        Instr i = v_.body[n];
        const std::uint8_t c = v_.classes[n];
        const Section section = section_of(c, v_.constants[n]);
        const int count = Values::operands(i.op);
        std::int32_t in[] = {i.a, i.b, i.c};
        const Reg operand_type = i.op == Opcode::Select ? v_.type(i.b) : v_.type(i.a);
        if (c == kFull) p_.cost += cost_of(i.op, operand_type);

        if (i.op == Opcode::RandomBits || i.op == Opcode::RandomUniform) return random(n);

        // The first operand of a fused multiply-add must be a vector.
        if (i.op == Opcode::Fma && !one_element(c) && is_single(v_.classes[at(v_.value(in[0]))], c))
            std::swap(in[0], in[1]);

        std::int16_t slots[3] = {0, 0, 0};
        unsigned singles = 0;
        for (int k = 0; k < count; ++k) {
            const std::uint8_t from = v_.classes[at(v_.value(in[k]))];
            if (!one_element(c) && is_single(from, c)) singles |= 1u << k;
        }
        Fn f = nullptr;
        for (;;) {
            f = function(n, operand_type, singles);
            if (f || !singles) break;
            singles &= singles - 1;  // the lowest one is expanded instead
        }
        if (!f) unsupported(i);
        for (int k = 0; k < count; ++k) {
            const std::uint8_t from = v_.classes[at(v_.value(in[k]))];
            const bool as_is = (singles >> k & 1) || from == c || one_element(c);
            slots[k] = as_is ? own(in[k]) : c == kFull ? full(in[k]) : splat_to(in[k], c, section);
        }
        const Count n_out = count_of_class(c);
        const std::int16_t out =
            new_slot(size_of(reg_of(i.type)), n_out, section != Section::Block);
        if (i.op == Opcode::Cast && is_half(i.type) && operand_type != Reg::Float32) {
            const std::int16_t middle = new_slot(4, n_out, section != Section::Block);
            add(section, call(find_convert(dtype_of(operand_type), DType::Float32), n_out, middle,
                              slots[0]));
            slots[0] = middle;
        }
        if (v_.extra[n] == Values::kInverseHalf) {
            const std::int16_t middle =
                new_slot(size_of(operand_type), n_out, section != Section::Block);
            add(section, call(find_extra(Extra::PowHalf, operand_type), n_out, middle, slots[0]));
            slots[0] = middle;
        }
        add(section, call(f, n_out, out, slots[0], slots[1], slots[2]));
        slot_[n] = out;
    }

    // A uniform value as one of rows or columns, for functions without an immediate form.
    std::int16_t splat_to(std::int32_t index, std::uint8_t c, Section section) {
        const std::size_t element = size_of(v_.type(index));
        const std::int16_t out = new_slot(element, count_of_class(c), section != Section::Block);
        add(section, call(find_splat(element), count_of_class(c), out, own(index)));
        return out;
    }

    Fn function(std::size_t n, Reg operand_type, unsigned singles) const {
        const Instr& i = v_.body[n];
        if (v_.extra[n] >= 0 && v_.extra[n] != Values::kInverseHalf)
            return singles ? nullptr : find_extra(static_cast<Extra>(v_.extra[n]), operand_type);
        if (i.op == Opcode::Cast) {
            if (singles) return nullptr;
            if (is_half(i.type)) return find_round(DType::Float32, i.type);
            if (i.type == DType::UInt8) return find_round(dtype_of(operand_type), i.type);
            return find_convert(dtype_of(operand_type), dtype_of(reg_of(i.type)));
        }
        return find_function(i.op, operand_type, singles);
    }

    void random(std::size_t n) {
        const Instr& i = v_.body[n];
        const std::uint8_t c = v_.classes[n];
        const Section section = section_of(c, v_.constants[n]);
        const bool uniform = i.op == Opcode::RandomUniform, persistent = section != Section::Block;
        const std::int16_t out = new_slot(uniform ? 4 : 8, count_of_class(c), persistent);
        slot_[n] = out;
        if (i.aux < 0) {  // of bits that are there already
            add(section, call(find_uniform_of_bits(), count_of_class(c), out, own(i.a)));
            return;
        }
        const std::int16_t key = new_slot(16, Count::One, true);
        p_.arguments.push_back({key, Reg::Int64, true, i.aux});
        const std::int32_t source = v_.value(i.a);
        const Instr& counter = v_.body[at(source)];
        if (counter.op == Opcode::Iota && c == kFull && slot_[at(source)] < 0 &&
            dense(counter.aux, c)) {
            Step s;
            s.kind = Step::Kind::IotaStart;
            s.aux = counter.aux;
            s.out = new_slot(8, Count::One, true);
            add(section, s);
            add(section, call(find_random(uniform, true), Count::Full, out, s.out, key));
            return;
        }
        add(section, call(find_random(uniform, false), count_of_class(c), out, own(i.a), key));
    }

    void check(std::size_t n) {
        const Instr& i = v_.body[n];
        const auto v = at(v_.value(i.a));
        const Reg reg = v_.type(static_cast<std::int32_t>(v));
        if (reg != Reg::Int64 && reg != Reg::Int32) unsupported(i);
        p_.checks.push_back({reg, i.aux, i.imm_range[0], i.imm_range[1], i.int_imm});
        Step s;
        s.kind = Step::Kind::Check;
        s.a = own(i.a);
        s.count = count_of_class(v_.classes[v]);
        s.aux = static_cast<std::int32_t>(p_.checks.size() - 1);
        // Constants are checked where there is something to run over.
        const Section section = section_of(v_.classes[v], false);
        add(section, s);
    }

    // The live M2 of the same values, whose mean gives their sum for nothing; or -1.
    std::int32_t same_m2(std::size_t n) const {
        const Instr& i = v_.body[n];
        if (i.op != Opcode::ReduceSum || !is_floating(i.type)) return -1;
        for (std::size_t k = 0; k < v_.body.size(); ++k) {
            const Instr& m = v_.body[k];
            const bool wanted = part_rows() ? v_.live[k] : static_cast<bool>(v_.part.roots[k]);
            if (m.op == Opcode::ReduceM2 && wanted && v_.value(m.a) == v_.value(i.a) &&
                m.stage == i.stage && m.type == i.type)
                return static_cast<std::int32_t>(k);
        }
        return -1;
    }
    bool part_rows() const { return v_.part.reduce == Part::Reduce::Rows; }

    void reduce(std::size_t n) {
        if (reduced_[n]) return;
        reduced_[n] = true;
        p_.cost += kCheap;
        const Instr& i = v_.body[n];
        const Reducer* reducer = find_reducer(i.op, v_.type(i.a));
        if (!reducer) unsupported(i);
        const std::int32_t m2 = same_m2(n);
        if (m2 >= 0) reduce(at(m2));
        if (!part_rows()) {
            std::int32_t mean_of = -1;
            for (std::size_t r = 0; r < p_.reductions.size(); ++r)
                if (m2 >= 0 && p_.reductions[r].instr == m2) mean_of = static_cast<std::int32_t>(r);
            p_.reductions.push_back({static_cast<std::int32_t>(n), full(i.a), reducer, mean_of});
            return;
        }
        if (m2 >= 0) {
            Instr count;
            count.type = i.type;
            count.imm = static_cast<double>(p_.columns);
            const std::int16_t factor = new_slot(8, Count::One, true);
            p_.constants.push_back({factor, constant_bits(count)});
            slot_[n] = new_slot(size_of(reducer->result), Count::Rows, false);
            add(Section::Block, call(find_function(Opcode::Mul, reducer->result, 2), Count::Rows,
                                     slot_[n], companion_[at(m2)], factor));
            return;
        }
        Step s;
        s.kind = Step::Kind::ReduceRows;
        s.count = Count::Rows;
        s.reducer = reducer;
        s.a = full(i.a);
        s.out = new_slot(size_of(reducer->result), Count::Rows, false);
        if (reducer->has_companion) s.b = new_slot(size_of(reducer->companion), Count::Rows, false);
        companion_[n] = s.b;
        add(Section::Block, s);
        slot_[n] = s.out;
        if (reducer->result == reg_of(i.type)) return;
        slot_[n] = new_slot(size_of(reg_of(i.type)), Count::Rows, false);
        add(Section::Block, call(find_convert(dtype_of(reducer->result), dtype_of(reg_of(i.type))),
                                 Count::Rows, slot_[n], s.out));
    }

    void store(std::size_t n) {
        const Instr& i = v_.body[n];
        const bool kept = i.kept && v_.part.reduce == Part::Reduce::Rows;
        const std::uint8_t c = kept ? kRow : kFull;
        const Count count = count_of_class(c);
        const auto v = at(v_.value(i.a));
        const Reg reg = v_.type(static_cast<std::int32_t>(v));
        const DType memory = v_.part.views[at(i.aux)].dtype;
        const bool is_dense = dense(i.aux, c);
        if (c == kFull) p_.cost += is_dense ? kMemory : kMemory + kCopied;
        PendingStore s;
        s.view = i.aux;
        std::int16_t from = own(i.a);
        if (v_.classes[v] != c) {
            if (kept)
                from = splat_to(i.a, c, Section::Block);
            else
                from = full(i.a);
        }
        const auto element = static_cast<std::uint8_t>(size_of(memory));
        const bool computed =
            code_.slot(from).element != 0 && !code_.slot(from).persistent && !taken_[from];
        if (kept && (v_.classes[v] & kColumn))
            throw Error("fused program: a kept store of a full value");
        if (is_dense && memory == dtype_of(reg) && !computed) {
            // Through a register of its own, so that it is known when the value was read.
            const std::int16_t copy = new_slot(element, count, false);
            add(Section::Block, call(find_convert(memory, memory), count, copy, from));
            from = copy;
        }
        if (is_dense && memory == dtype_of(reg)) {
            s.direct_slot = from;
            taken_[from] = true;
            s.defined = definition(from);
            code_.stores.push_back(s);
            return;
        }
        if (code_.slot(from).element == 0 && several_stores()) {
            const std::int16_t copy = new_slot(size_of(reg), count, false);
            add(Section::Block,
                call(find_convert(dtype_of(reg), dtype_of(reg)), count, copy, from));
            from = copy;
        }
        s.defined = p_.block.empty() ? 0 : p_.block.size() - 1;
        std::int16_t to = from;
        if (is_dense) {
            to = new_slot(0, count, true);
            point(Section::Block, {to, i.aux, element, count});
            s.add(call(find_convert(dtype_of(reg), memory), count, to, from));
        } else {
            note_runs(i.aux, c);
            if (memory != dtype_of(reg)) {
                to = new_slot(size_of(memory), count, false);
                s.add(call(find_convert(dtype_of(reg), memory), count, to, from));
            }
            Step scatter;
            scatter.kind = Step::Kind::Scatter;
            scatter.count = count;
            scatter.a = to;
            scatter.aux = i.aux;
            scatter.copy = find_copy(size_of(memory));
            s.add(scatter);
        }
        code_.stores.push_back(s);
    }

    bool several_stores() const {
        int n = 0;
        for (std::size_t k = 0; k < v_.body.size(); ++k)
            n += v_.live[k] && v_.body[k].op == Opcode::Store;
        return n > 1;
    }

    std::size_t definition(std::int16_t slot) const {
        for (std::size_t n = p_.block.size(); n-- > 0;)
            if (p_.block[n].out == slot) return n;
        return 0;
    }

    void emit() {
        slot_.assign(v_.body.size(), -1);
        expanded_.assign(v_.body.size(), -1);
        companion_.assign(v_.body.size(), 0);
        reduced_.assign(v_.body.size(), false);

        new_slot(64, Count::One, true);  // slot 0 stands for operands that are not there

        for (std::size_t n = 0; n < v_.body.size(); ++n) {
            const Instr& i = v_.body[n];
            if (!v_.live[n]) continue;
            if (i.op == Opcode::CheckIndex && v_.part.roots[n]) check(n);
            if (v_.alias[n] >= 0 || i.op == Opcode::Load || i.op == Opcode::Iota) continue;
            if (i.op == Opcode::Const) {
                slot_[n] = new_slot(8, Count::One, true);
                p_.constants.push_back({slot_[n], constant_bits(i)});
            } else if (i.op == Opcode::Scalar) {
                slot_[n] = new_slot(8, Count::One, true);
                p_.arguments.push_back({slot_[n], reg_of(i.type), false, i.aux});
            } else if (i.op == Opcode::Store) {
                if (v_.part.roots[n]) store(n);
            } else if (plan::is_reduction(i.op)) {
                if (part_rows() || v_.part.roots[n]) reduce(n);
            } else {
                compute(n);
            }
        }
    }

    static std::uint64_t constant_bits(const Instr& i) {
        switch (reg_of(i.type)) {
            case Reg::Bool:
                return i.int_imm != 0 || i.imm != 0;
            case Reg::Int32:
                return static_cast<std::uint32_t>(i.int_imm);
            case Reg::Int64:
                return static_cast<std::uint64_t>(i.int_imm);
            case Reg::Float32:
                return std::bit_cast<std::uint32_t>(static_cast<float>(i.imm));
            case Reg::Float64:
                return std::bit_cast<std::uint64_t>(i.imm);
        }
        return 0;
    }

    BlockProgram& p_;
    const Values& v_;
    Code code_;
    std::vector<std::int16_t> slot_, expanded_;  // of each value
    std::vector<std::int16_t> companion_;        // of reductions
    std::vector<bool> reduced_;
    std::map<std::int16_t, bool> taken_;  // registers that are a buffer already
};

}  // namespace

Code emit(BlockProgram& program, const Values& values) { return Emitter(program, values).take(); }

}  // namespace pippin::cpu
