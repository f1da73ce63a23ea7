// What is known of a part's values before any code is made: their types, where they vary, what they
// are needed for; and the few rewrites that make cheaper code.
#include "backends/cpu/program_values.h"

#include <algorithm>

namespace pippin::cpu {

using plan::Instr;
using plan::Opcode;

namespace {
constexpr std::int64_t kMostColumns = 256;  // of a block of columns to reduce
constexpr std::int64_t kMostKept = 8192;    // columns whose values are kept from row to row
}  // namespace

Values::Values(BlockProgram& program, const Part& of, bool batched, std::int64_t block_elements)
    : part(of), body(of.body), p_(program), elements(block_elements) {
    p_.dynamic = batched;
    geometry();
    views();
    simplify();
    find_live();
    classify();
    fuse_multiply_add();
}

int Values::operands(Opcode op) {
    if (op <= Opcode::Iota) return 0;
    if (op == Opcode::Select || op == Opcode::Fma) return 3;
    if (op >= Opcode::Add && op <= Opcode::Xor) return 2;
    return 1;
}

std::int32_t Values::value(std::int32_t i) const {
    while (i >= 0 && alias[at(i)] >= 0)
        i = alias[at(i)];
    return i;
}

void Values::geometry() {
    p_.rows = part.rows;
    p_.row_count = part.row_count();
    p_.columns = part.columns;
    const bool columnwise = part.reduce == Part::Reduce::Columns;
    const std::int64_t columns =
        columnwise ? std::min(p_.columns, kMostColumns) : std::max<std::int64_t>(p_.columns, 1);
    const bool short_rows = columns <= elements / 2 && p_.row_count > 1;
    p_.tile = !p_.dynamic && (columnwise || part.reduce == Part::Reduce::Rows || short_rows);
    if (p_.tile) {
        p_.block_columns = columns;
        std::int64_t rows = std::max<std::int64_t>(1, elements / columns);
        if (rows > 16) rows = rows / 16 * 16;  // whole vectors, whatever the columns
        p_.block_rows = std::clamp<std::int64_t>(p_.row_count, 1, rows);
    } else {
        p_.block_columns = elements;
    }
    one_row = !p_.tile || p_.block_rows == 1;
    keeps_columns = !one_row || (!p_.dynamic && p_.row_count > 1 && columns <= kMostKept);
}

void Values::views() {
    for (const View& v : part.views) {
        BlockProgram::ViewInfo info;
        info.row = v.row;
        info.column = v.column;
        info.offset = v.offset;
        info.element = static_cast<std::uint8_t>(size_of(v.dtype));
        info.linear = v.row.empty() ? 0 : v.row.back();
        for (std::size_t d = 0; d + 1 < v.row.size(); ++d)
            info.is_linear = info.is_linear && v.row[d] == v.row[d + 1] * part.rows[d + 1];
        p_.views.push_back(std::move(info));
    }
}

void Values::simplify() {
    alias.assign(body.size(), -1);
    extra.assign(body.size(), -1);
    for (std::size_t n = 0; n < body.size(); ++n) {
        Instr& i = body[n];
        if (i.op == Opcode::Cast) {
            const bool rounds = i.type == DType::UInt8 || is_half(i.type);
            if (!rounds && reg_of(i.type) == type(i.a)) alias[n] = i.a;
        } else if (i.op == Opcode::CheckIndex) {
            alias[n] = i.a;
        } else if (i.op == Opcode::Pow && is_floating(i.type)) {
            const Instr& e = body[at(value(i.b))];
            if (e.op == Opcode::Const) constant_power(n, e.imm);
        }
    }
}

void Values::constant_power(std::size_t n, double exponent) {
    Instr& i = body[n];
    if (exponent == 1) {
        alias[n] = i.a;
    } else if (exponent == 2) {
        i.op = Opcode::Mul;
        i.b = i.a;
    } else if (exponent == -1) {
        i.op = Opcode::Reciprocal;
    } else if (exponent == 3 || exponent == 0.5 || exponent == -0.5) {
        extra[n] = static_cast<int>(exponent == 3 ? Extra::Cube : Extra::PowHalf);
        i.op = exponent == -0.5 ? Opcode::Reciprocal : Opcode::Abs;  // any unary will do
        if (exponent == -0.5) extra[n] = kInverseHalf;
    }
}
void Values::find_live() {
    live.assign(body.size(), false);
    uses.assign(body.size(), 0);
    for (std::size_t n = body.size(); n-- > 0;) {
        if (part.roots[n]) live[n] = true;
        if (!live[n]) continue;
        const Instr& i = body[n];
        const std::int32_t in[] = {i.a, i.b, i.c};
        const int count = alias[n] >= 0 ? 1 : operands(i.op);
        for (int k = 0; k < count; ++k) {
            const std::int32_t v = value(alias[n] >= 0 ? alias[n] : in[k]);
            if (v < 0) continue;
            live[at(v)] = true;
            ++uses[at(v)];
        }
    }
}

std::uint8_t Values::class_of_view(std::int32_t view) const {
    const View& v = part.views[at(view)];
    std::uint8_t c = v.column != 0 ? kColumn : kUniform;
    for (const auto s : v.row)
        if (s != 0) c |= kRow;
    return c;
}

void Values::classify() {
    classes.assign(body.size(), kUniform);
    constants.assign(body.size(), true);
    for (std::size_t n = 0; n < body.size(); ++n) {
        const Instr& i = body[n];
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
                c |= classes[v];
                constant = constant && constants[v];
            }
        }
        if (!keeps_columns && (c & kColumn)) c = kFull;
        classes[n] = c;
        constants[n] = constant;
    }
}

void Values::fuse_multiply_add() {
    for (std::size_t n = 0; n < body.size(); ++n) {
        Instr& i = body[n];
        if (!live[n] || i.op != Opcode::Add || !is_floating(i.type)) continue;
        for (int side = 0; side < 2; ++side) {
            const std::int32_t m = value(side ? i.b : i.a);
            const Instr& mul = body[at(m)];
            if (mul.op != Opcode::Mul || uses[at(m)] != 1 || classes[at(m)] != classes[n] ||
                part.roots[at(m)])
                continue;
            const std::int32_t addend = side ? i.a : i.b;
            i.op = Opcode::Fma;
            i.a = mul.a;
            i.b = mul.b;
            i.c = addend;
            live[at(m)] = false;
            break;
        }
    }
}

}  // namespace pippin::cpu
