// Compiling a part: which values vary where, which vector function each instruction becomes, and
// where registers live.
#include <algorithm>
#include <bit>
#include <map>
#include <stdexcept>

#include "backends/cpu/program_block.h"
#include "pippin/error.h"

namespace pippin::cpu {
namespace {

using plan::Instr;
using plan::Opcode;

// Where a value varies: bits. In a tile of several rows a column value is the same for every row.
enum Class : std::uint8_t { kUniform = 0, kRow = 1, kColumn = 2, kFull = 3 };

constexpr std::size_t kScratchGoal = 28 * 1024;  // leaves room in a 48 or 32 KiB cache for operands
constexpr std::int64_t kMostElements = 1024, kFewestElements = 256;
constexpr std::int64_t kMostColumns = 256;  // of a block of columns to reduce

bool reads_memory(Opcode op) { return op == Opcode::Load; }

class Compiler {
  public:
    Compiler(BlockProgram& out, const Part& part, bool batched, std::int64_t elements)
        : p_(out), part_(part), body_(part.body), elements_(elements) {
        p_.dynamic = batched;
        geometry();
        views();
        simplify();
        find_live();
        classify();
        fuse_multiply_add();
        emit();
        order_stores();
        allocate();
    }

  private:
    enum class Section : std::uint8_t { Once, Setup, Row, Block };

    [[noreturn]] static void unsupported(const Instr& i) {
        throw Error(std::string("fused program: no CPU code for ") + plan::name_of(i.op) + " of " +
                    std::string(name_of(i.type)));
    }

    // ---- geometry ----

    void geometry() {
        p_.rows = part_.rows;
        p_.row_count = part_.row_count();
        p_.columns = part_.columns;
        const bool columnwise = part_.reduce == Part::Reduce::Columns;
        const std::int64_t columns =
            columnwise ? std::min(p_.columns, kMostColumns) : std::max<std::int64_t>(p_.columns, 1);
        const bool short_rows = columns <= elements_ / 2 && p_.row_count > 1;
        p_.tile = !p_.dynamic && (columnwise || part_.reduce == Part::Reduce::Rows || short_rows);
        if (p_.tile) {
            p_.block_columns = columns;
            std::int64_t rows = std::max<std::int64_t>(1, elements_ / columns);
            if (rows > 16) rows = rows / 16 * 16;  // whole vectors, whatever the columns
            p_.block_rows = std::clamp<std::int64_t>(p_.row_count, 1, rows);
        } else {
            p_.block_columns = elements_;
        }
        one_row_ = !p_.tile || p_.block_rows == 1;
    }

    void views() {
        for (const View& v : part_.views) {
            BlockProgram::ViewInfo info;
            info.row = v.row;
            info.column = v.column;
            info.offset = v.offset;
            info.element = static_cast<std::uint8_t>(size_of(v.dtype));
            info.linear = v.row.empty() ? 0 : v.row.back();
            for (std::size_t d = 0; d + 1 < v.row.size(); ++d)
                info.is_linear = info.is_linear && v.row[d] == v.row[d + 1] * part_.rows[d + 1];
            p_.views.push_back(std::move(info));
        }
    }

    // ---- the instructions ----

    Reg type(std::int32_t i) const {
        const Instr& instr = body_[at(i)];
        return reg_of(instr.type);
    }
    static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

    // Follows aliases.
    std::int32_t value(std::int32_t i) const {
        while (i >= 0 && alias_[at(i)] >= 0)
            i = alias_[at(i)];
        return i;
    }

    static int operands(Opcode op) {
        if (op <= Opcode::Iota) return 0;
        if (op == Opcode::Select || op == Opcode::Fma) return 3;
        if (op >= Opcode::Add && op <= Opcode::Xor) return 2;
        return 1;
    }

    void simplify() {
        alias_.assign(body_.size(), -1);
        extra_.assign(body_.size(), -1);
        for (std::size_t n = 0; n < body_.size(); ++n) {
            Instr& i = body_[n];
            if (i.op == Opcode::Cast) {
                const bool rounds = i.type == DType::UInt8 || is_half(i.type);
                if (!rounds && reg_of(i.type) == type(i.a)) alias_[n] = i.a;
            } else if (i.op == Opcode::CheckIndex) {
                alias_[n] = i.a;
            } else if (i.op == Opcode::Pow && is_floating(i.type)) {
                const Instr& e = body_[at(value(i.b))];
                if (e.op == Opcode::Const) constant_power(n, e.imm);
            }
        }
    }

    void constant_power(std::size_t n, double exponent) {
        Instr& i = body_[n];
        if (exponent == 1) {
            alias_[n] = i.a;
        } else if (exponent == 2) {
            i.op = Opcode::Mul;
            i.b = i.a;
        } else if (exponent == -1) {
            i.op = Opcode::Reciprocal;
        } else if (exponent == 3 || exponent == 0.5 || exponent == -0.5) {
            extra_[n] = static_cast<int>(exponent == 3 ? Extra::Cube : Extra::PowHalf);
            i.op = exponent == -0.5 ? Opcode::Reciprocal : Opcode::Abs;  // any unary will do
            if (exponent == -0.5) extra_[n] = kInverseHalf;
        }
    }
    static constexpr int kInverseHalf = 100;

    void find_live() {
        live_.assign(body_.size(), false);
        uses_.assign(body_.size(), 0);
        for (std::size_t n = body_.size(); n-- > 0;) {
            if (part_.roots[n]) live_[n] = true;
            if (!live_[n]) continue;
            const Instr& i = body_[n];
            const std::int32_t in[] = {i.a, i.b, i.c};
            const int count = alias_[n] >= 0 ? 1 : operands(i.op);
            for (int k = 0; k < count; ++k) {
                const std::int32_t v = value(alias_[n] >= 0 ? alias_[n] : in[k]);
                if (v < 0) continue;
                live_[at(v)] = true;
                ++uses_[at(v)];
            }
        }
    }

    std::uint8_t class_of_view(std::int32_t view) const {
        const View& v = part_.views[at(view)];
        std::uint8_t c = v.column != 0 ? kColumn : kUniform;
        for (const auto s : v.row)
            if (s != 0) c |= kRow;
        return c;
    }

    void classify() {
        class_.assign(body_.size(), kUniform);
        constant_.assign(body_.size(), true);
        for (std::size_t n = 0; n < body_.size(); ++n) {
            const Instr& i = body_[n];
            std::uint8_t c = kUniform;
            bool constant = true;
            if (i.op == Opcode::Load || i.op == Opcode::Iota) {
                c = class_of_view(i.aux);
                constant = false;
            } else if (plan::is_reduction(i.op)) {
                c = kRow;
                constant = false;
            } else {
                const std::int32_t in[] = {i.a, i.b, i.c};
                for (int k = 0; k < operands(i.op); ++k) {
                    const auto v = at(value(in[k]));
                    c |= class_[v];
                    constant = constant && constant_[v];
                }
            }
            // With one row at a time a column's value is as good as a full one.
            if (one_row_ && (c & kColumn)) c = kFull;
            class_[n] = c;
            constant_[n] = constant;
        }
    }

    void fuse_multiply_add() {
        for (std::size_t n = 0; n < body_.size(); ++n) {
            Instr& i = body_[n];
            if (!live_[n] || i.op != Opcode::Add || !is_floating(i.type)) continue;
            for (int side = 0; side < 2; ++side) {
                const std::int32_t m = value(side ? i.b : i.a);
                const Instr& mul = body_[at(m)];
                if (mul.op != Opcode::Mul || uses_[at(m)] != 1 || class_[at(m)] != class_[n] ||
                    part_.roots[at(m)])
                    continue;
                const std::int32_t addend = side ? i.a : i.b;
                i.op = Opcode::Fma;
                i.a = mul.a;
                i.b = mul.b;
                i.c = addend;
                live_[at(m)] = false;
                break;
            }
        }
    }

    // ---- steps ----

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

    struct Slot {
        std::size_t element = 0;  // 0: a pointer into a buffer
        Count count = Count::One;
        bool persistent = true;
        std::size_t extra_bytes = 0;
    };

    std::int16_t new_slot(std::size_t element, Count count, bool persistent) {
        slots_.push_back({element, count, persistent, 0});
        if (slots_.size() > 32000) throw Error("fused program: too many values");
        return static_cast<std::int16_t>(slots_.size() - 1);
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
        const Instr& i = body_[n];
        const std::uint8_t c = class_[n];
        const Section section = section_of(c, false);
        const bool persistent = section != Section::Block;
        const DType memory = part_.views[at(i.aux)].dtype;
        const Reg reg = reg_of(i.type);
        const Count count = count_of_class(c);
        std::int16_t slot;
        if (dense(i.aux, c)) {
            slot = new_slot(0, count, true);
            const auto element = static_cast<std::uint8_t>(size_of(memory));
            point(section, {slot, -1, i.aux, element, count});
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
        view_of_slot_[slot] = i.aux;
        if (memory == dtype_of(reg)) return slot;
        const std::int16_t out = new_slot(size_of(reg), count, persistent);
        add(section, call(find_convert(memory, dtype_of(reg)), count, out, slot));
        return out;
    }

    std::int16_t iota(std::size_t n) {
        const Instr& i = body_[n];
        const std::uint8_t c = class_[n];
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
        const auto n = at(value(index));
        if (slot_[n] < 0) {
            if (reads_memory(body_[n].op)) slot_[n] = load(n);
            if (body_[n].op == Opcode::Iota) slot_[n] = iota(n);
            if (slot_[n] < 0) throw Error("fused program: a value is used before it is there");
        }
        return slot_[n];
    }

    // A value where a full block is needed.
    std::int16_t full(std::int32_t index) {
        const auto n = at(value(index));
        const std::int16_t from = own(index);
        const std::uint8_t c = class_[n];
        if (c == kFull) return from;
        if (expanded_[n] >= 0) return expanded_[n];
        const std::size_t element = size_of(type(value(index)));
        if (c == kUniform) {
            const std::int16_t out = new_slot(element, Count::Full, true);
            add(Section::Setup, call(find_splat(element), Count::Full, out, from));
            return expanded_[n] = out;
        }
        const bool by_rows = c == kRow;
        if (by_rows && one_row_) {
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

    // Whether a value of class `from` is a single one in a computation of class `to`.
    bool is_single(std::uint8_t from, std::uint8_t to) const {
        if (from == to) return false;
        return from == kUniform || (from == kRow && one_row_);
    }
    bool one_element(std::uint8_t c) const { return c == kUniform || (c == kRow && one_row_); }

    void compute(std::size_t n) {
        Instr i = body_[n];
        const std::uint8_t c = class_[n];
        const Section section = section_of(c, constant_[n]);
        const int count = operands(i.op);
        std::int32_t in[] = {i.a, i.b, i.c};
        const Reg operand_type = i.op == Opcode::Select ? type(value(i.b)) : type(value(i.a));

        if (i.op == Opcode::RandomBits || i.op == Opcode::RandomUniform) return random(n);

        // The first operand of a fused multiply-add must be a vector.
        if (i.op == Opcode::Fma && !one_element(c) && is_single(class_[at(value(in[0]))], c))
            std::swap(in[0], in[1]);

        std::int16_t slots[3] = {0, 0, 0};
        unsigned singles = 0;
        for (int k = 0; k < count; ++k) {
            const std::uint8_t from = class_[at(value(in[k]))];
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
            const std::uint8_t from = class_[at(value(in[k]))];
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
        if (extra_[n] == kInverseHalf) {
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
        const std::size_t element = size_of(type(value(index)));
        const std::int16_t out = new_slot(element, count_of_class(c), section != Section::Block);
        add(section, call(find_splat(element), count_of_class(c), out, own(index)));
        return out;
    }

    Fn function(std::size_t n, Reg operand_type, unsigned singles) const {
        const Instr& i = body_[n];
        if (extra_[n] >= 0 && extra_[n] != kInverseHalf)
            return singles ? nullptr : find_extra(static_cast<Extra>(extra_[n]), operand_type);
        if (i.op == Opcode::Cast) {
            if (singles) return nullptr;
            if (is_half(i.type)) return find_round(DType::Float32, i.type);
            if (i.type == DType::UInt8) return find_round(dtype_of(operand_type), i.type);
            return find_convert(dtype_of(operand_type), dtype_of(reg_of(i.type)));
        }
        return find_function(i.op, operand_type, singles);
    }

    void random(std::size_t n) {
        const Instr& i = body_[n];
        const std::uint8_t c = class_[n];
        const Section section = section_of(c, constant_[n]);
        const bool uniform = i.op == Opcode::RandomUniform, persistent = section != Section::Block;
        const std::int16_t out = new_slot(uniform ? 4 : 8, count_of_class(c), persistent);
        slot_[n] = out;
        if (i.aux < 0) {  // of bits that are there already
            add(section, call(find_uniform_of_bits(), count_of_class(c), out, own(i.a)));
            return;
        }
        const std::int16_t key = new_slot(16, Count::One, true);
        p_.arguments.push_back({key, Reg::Int64, true, i.aux});
        const std::int32_t source = value(i.a);
        const Instr& counter = body_[at(source)];
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
        const Instr& i = body_[n];
        const auto v = at(value(i.a));
        const Reg reg = type(static_cast<std::int32_t>(v));
        if (reg != Reg::Int64 && reg != Reg::Int32) unsupported(i);
        p_.checks.push_back({reg, i.aux, i.imm_range[0], i.imm_range[1], i.int_imm});
        Step s;
        s.kind = Step::Kind::Check;
        s.a = own(i.a);
        s.count = count_of_class(class_[v]);
        s.aux = static_cast<std::int32_t>(p_.checks.size() - 1);
        // Constants are checked where there is something to run over.
        const Section section = section_of(class_[v], false);
        add(section, s);
    }

    void reduce(std::size_t n) {
        const Instr& i = body_[n];
        const Reg reg = type(value(i.a));
        const Reducer* reducer = find_reducer(i.op, reg);
        if (!reducer) unsupported(i);
        const std::int16_t operand = full(i.a);
        if (part_.reduce != Part::Reduce::Rows) {
            p_.reductions.push_back({static_cast<std::int32_t>(n), operand, reducer});
            return;
        }
        Step s;
        s.kind = Step::Kind::ReduceRows;
        s.count = Count::Rows;
        s.reducer = reducer;
        s.a = operand;
        s.out = new_slot(size_of(reducer->result), Count::Rows, false);
        if (reducer->has_companion) s.b = new_slot(size_of(reducer->companion), Count::Rows, false);
        add(Section::Block, s);
        slot_[n] = s.out;
        if (reducer->result != reg_of(i.type)) {
            const std::int16_t out = new_slot(size_of(reg_of(i.type)), Count::Rows, false);
            add(Section::Block,
                call(find_convert(dtype_of(reducer->result), dtype_of(reg_of(i.type))), Count::Rows,
                     out, s.out));
            slot_[n] = out;
        }
    }

    struct StoreSteps {
        std::int32_t view;
        std::size_t value_defined;    // block step that computes the value
        std::array<Step, 2> steps{};  // run when the value is there
        std::ptrdiff_t count = 0;
        void add(const Step& s) { steps[static_cast<std::size_t>(count++)] = s; }
        std::int16_t direct_slot = -1;  // or: the value's register is the buffer itself
    };

    void store(std::size_t n) {
        const Instr& i = body_[n];
        const bool kept = i.kept && part_.reduce == Part::Reduce::Rows;
        const std::uint8_t c = kept ? kRow : kFull;
        const Count count = count_of_class(c);
        const auto v = at(value(i.a));
        const Reg reg = type(static_cast<std::int32_t>(v));
        const DType memory = part_.views[at(i.aux)].dtype;
        const bool is_dense = dense(i.aux, c);
        StoreSteps s;
        s.view = i.aux;
        std::int16_t from = own(i.a);
        if (class_[v] != c) {
            if (kept)
                from = splat_to(i.a, c, Section::Block);
            else
                from = full(i.a);
        }
        const auto element = static_cast<std::uint8_t>(size_of(memory));
        const bool computed =
            slots_[at16(from)].element != 0 && !slots_[at16(from)].persistent && !taken_[from];
        if (kept && (class_[v] & kColumn))
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
            s.value_defined = definition(from);
            stores_.push_back(s);
            return;
        }
        if (slots_[at16(from)].element == 0 && several_stores()) {
            const std::int16_t copy = new_slot(size_of(reg), count, false);
            add(Section::Block,
                call(find_convert(dtype_of(reg), dtype_of(reg)), count, copy, from));
            from = copy;
        }
        s.value_defined = p_.block.empty() ? 0 : p_.block.size() - 1;
        std::int16_t to = from;
        if (is_dense) {
            to = new_slot(0, count, true);
            point(Section::Block, {to, -1, i.aux, element, count});
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
        stores_.push_back(s);
    }

    bool several_stores() const {
        int n = 0;
        for (std::size_t k = 0; k < body_.size(); ++k)
            n += live_[k] && body_[k].op == Opcode::Store;
        return n > 1;
    }

    static std::size_t at16(std::int16_t s) { return static_cast<std::size_t>(s); }

    std::size_t definition(std::int16_t slot) const {
        for (std::size_t n = p_.block.size(); n-- > 0;)
            if (p_.block[n].out == slot) return n;
        return 0;
    }

    void emit() {
        slot_.assign(body_.size(), -1);
        expanded_.assign(body_.size(), -1);
        slots_.clear();
        new_slot(64, Count::One, true);  // slot 0 stands for operands that are not there
        taken_.clear();
        for (std::size_t n = 0; n < body_.size(); ++n) {
            const Instr& i = body_[n];
            if (!live_[n]) continue;
            if (i.op == Opcode::CheckIndex && part_.roots[n]) check(n);
            if (alias_[n] >= 0 || i.op == Opcode::Load || i.op == Opcode::Iota) continue;
            if (i.op == Opcode::Const) {
                slot_[n] = new_slot(8, Count::One, true);
                p_.constants.push_back({slot_[n], constant_bits(i)});
            } else if (i.op == Opcode::Scalar) {
                slot_[n] = new_slot(8, Count::One, true);
                p_.arguments.push_back({slot_[n], reg_of(i.type), false, i.aux});
            } else if (i.op == Opcode::Store) {
                if (part_.roots[n]) store(n);
            } else if (plan::is_reduction(i.op)) {
                if (part_.reduce == Part::Reduce::Rows || part_.roots[n]) reduce(n);
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

    // ---- order of stores ----

    // The last block step that reads memory of a view, or -1.
    std::ptrdiff_t last_read(std::int32_t view) const {
        std::ptrdiff_t last = -1;
        for (std::size_t n = 0; n < p_.block.size(); ++n) {
            const Step& s = p_.block[n];
            const bool gathers = s.kind == Step::Kind::Gather && s.aux == view;
            bool points = false;
            for (const std::int16_t slot : {s.a, s.b, s.c}) {
                const auto v = view_of_slot_.find(slot);
                points = points || (v != view_of_slot_.end() && v->second == view &&
                                    slots_[at16(slot)].element == 0);
            }
            if (gathers || points) last = static_cast<std::ptrdiff_t>(n);
        }
        // Reductions read their operands after the block.
        for (const auto& r : p_.reductions) {
            const auto v = view_of_slot_.find(r.slot);
            if (v != view_of_slot_.end() && v->second == view)
                last = static_cast<std::ptrdiff_t>(p_.block.size());
        }
        return last;
    }

    // A buffer given to the output may be an input's own. A store must not come before the last
    // read of a view like its own; one that writes directly is redirected at run time if they are
    // the same.
    void order_stores() {
        std::vector<std::int32_t> reads;
        for (std::size_t n = 0; n < body_.size(); ++n)
            if (live_[n] && body_[n].op == Opcode::Load) reads.push_back(body_[n].aux);
        std::vector<std::vector<Step>> after(p_.block.size() + 1);
        std::int16_t direct_number = 0;
        std::vector<Step> last_steps;
        for (StoreSteps& s : stores_) {
            std::vector<std::int32_t> risky;
            for (const auto r : reads)
                if (part_.views[at(r)] == part_.views[at(s.view)] &&
                    last_read(r) > static_cast<std::ptrdiff_t>(s.value_defined))
                    risky.push_back(r);
            if (s.direct_slot >= 0) {
                const Slot& slot = slots_[at16(s.direct_slot)];
                const auto number = static_cast<std::int32_t>(p_.block_direct.size());
                const std::int16_t store = direct_number++;
                p_.block_direct.push_back({s.direct_slot, store, s.view,
                                           static_cast<std::uint8_t>(slot.element), slot.count});
                for (const auto r : risky)
                    p_.conflicts.push_back({store, s.view, r});
                if (risky.empty()) {
                    slots_[at16(s.direct_slot)].element = 0;
                } else {
                    Step back;
                    back.kind = Step::Kind::StoreBack;
                    back.a = s.direct_slot;
                    back.aux = number;
                    last_steps.push_back(back);
                }
            } else if (risky.empty() && !p_.block.empty()) {
                auto& list = after[s.value_defined];
                list.insert(list.end(), s.steps.begin(), s.steps.begin() + s.count);
            } else {
                last_steps.insert(last_steps.end(), s.steps.begin(), s.steps.begin() + s.count);
            }
        }
        std::vector<Step> ordered;
        for (std::size_t n = 0; n < p_.block.size(); ++n) {
            ordered.push_back(p_.block[n]);
            ordered.insert(ordered.end(), after[n].begin(), after[n].end());
        }
        ordered.insert(ordered.end(), last_steps.begin(), last_steps.end());
        p_.block = std::move(ordered);
    }

    // ---- registers ----

    std::size_t bytes_of(const Slot& s) const {
        const std::int64_t columns = p_.block_columns;
        const std::int64_t rows = p_.tile ? p_.block_rows : 1;
        std::int64_t n = 1;
        if (s.count == Count::Rows) n = rows;
        if (s.count == Count::Columns) n = columns;
        if (s.count == Count::Full) n = rows * columns;
        // some room behind, and no two registers at the same place of a page
        return (static_cast<std::size_t>(n) * s.element + 63) / 64 * 64 + 64;
    }

    void allocate() {
        const std::size_t n = slots_.size();
        p_.slot_offsets.assign(n, BlockProgram::kNowhere);
        std::size_t top = 0;
        for (std::size_t s = 0; s < n; ++s) {
            if (slots_[s].element == 0 || !slots_[s].persistent) continue;
            p_.slot_offsets[s] = top;
            top += bytes_of(slots_[s]);
        }
        std::vector<std::size_t> last(n, 0), first(n, ~std::size_t{0});
        for (std::size_t k = 0; k < p_.block.size(); ++k) {
            const Step& s = p_.block[k];
            for (const std::int16_t slot : {s.out, s.a, s.b, s.c}) {
                last[at16(slot)] = k;
                first[at16(slot)] = std::min(first[at16(slot)], k);
            }
        }
        for (const auto& r : p_.reductions)
            last[at16(r.slot)] = p_.block.size();
        // registers by size that are free again
        std::map<std::pair<std::size_t, std::size_t>, std::vector<std::size_t>> free;
        const auto key = [&](std::size_t s) {
            return std::pair(bytes_of(slots_[s]), slots_[s].element);
        };
        const auto is_register = [&](std::int16_t s) {
            return slots_[at16(s)].element != 0 && !slots_[at16(s)].persistent;
        };
        for (std::size_t k = 0; k < p_.block.size(); ++k) {
            const Step& s = p_.block[k];
            const auto take = [&](std::int16_t slot) {
                if (!is_register(slot) || first[at16(slot)] != k) return;
                auto& list = free[key(at16(slot))];
                if (list.empty()) {
                    p_.slot_offsets[at16(slot)] = top;
                    top += bytes_of(slots_[at16(slot)]);
                } else {
                    p_.slot_offsets[at16(slot)] = list.back();
                    list.pop_back();
                }
            };
            const auto release = [&] {
                std::vector<std::int16_t> ended;
                for (const std::int16_t slot : {s.out, s.a, s.b, s.c})
                    if (is_register(slot) && last[at16(slot)] == k &&
                        std::find(ended.begin(), ended.end(), slot) == ended.end())
                        ended.push_back(slot);
                for (const auto slot : ended)
                    if (p_.slot_offsets[at16(slot)] != BlockProgram::kNowhere && slot != s.out)
                        free[key(at16(slot))].push_back(p_.slot_offsets[at16(slot)]);
            };
            // Element by element a result may take its operand's place.
            const bool in_place = s.kind == Step::Kind::Call && elementwise(s);
            if (in_place) release();
            take(s.out);
            if (s.kind == Step::Kind::ReduceRows) take(s.b);
            if (!in_place) release();
            if (is_register(s.out) && last[at16(s.out)] == k)
                free[key(at16(s.out))].push_back(p_.slot_offsets[at16(s.out)]);
        }
        p_.scratch_bytes = top + 64;
        p_.cost = std::max<std::int64_t>(1, static_cast<std::int64_t>(p_.block.size()));
    }

    bool elementwise(const Step& s) const {
        const Slot& out = slots_[at16(s.out)];
        for (const std::int16_t slot : {s.a, s.b, s.c})
            if (is_scratch(slot) && slots_[at16(slot)].count != out.count) return false;
        return true;
    }
    bool is_scratch(std::int16_t s) const {
        return slots_[at16(s)].element != 0 && !slots_[at16(s)].persistent;
    }

    BlockProgram& p_;
    const Part& part_;
    std::vector<Instr> body_;
    std::int64_t elements_;
    bool one_row_ = true;
    std::vector<std::int32_t> alias_;
    std::vector<int> extra_, uses_;
    std::vector<bool> live_, constant_;
    std::vector<std::uint8_t> class_;
    std::vector<std::int16_t> slot_, expanded_;
    std::vector<Slot> slots_;
    std::map<std::int16_t, bool> taken_;
    std::map<std::int16_t, std::int32_t> view_of_slot_;
    std::vector<StoreSteps> stores_;
};

}  // namespace

BlockProgram::BlockProgram(const Part& part, bool batched) {
    std::int64_t elements = kMostElements;
    if (part.reduce == Part::Reduce::Rows) elements = std::max(elements, part.columns);
    for (;;) {
        BlockProgram compiled;
        Compiler(compiled, part, batched, elements);
        const bool fits = compiled.scratch_bytes <= kScratchGoal;
        const bool fixed = compiled.tile && compiled.block_rows == 1;
        if (fits || fixed || elements <= kFewestElements) {
            *this = std::move(compiled);
            return;
        }
        elements /= 2;
    }
}

}  // namespace pippin::cpu
