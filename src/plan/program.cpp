#include "plan/program.h"

#include <sstream>

namespace pippin::plan {
namespace {

void write_list(std::ostream& out, const std::array<std::int64_t, 8>& values, int count) {
    out << '[';
    for (int d = 0; d < count; ++d)
        out << (d ? ", " : "") << values[static_cast<std::size_t>(d)];
    out << ']';
}

bool has_access(Opcode op) {
    return op == Opcode::Load || op == Opcode::Store || op == Opcode::Iota;
}

}  // namespace

const char* name_of(Opcode op) {
    static constexpr const char* names[] = {"load",
                                            "const",
                                            "scalar",
                                            "iota",
                                            "random_bits",
                                            "random_uniform",
                                            "neg",
                                            "abs",
                                            "sign",
                                            "exp",
                                            "log",
                                            "sqrt",
                                            "rsqrt",
                                            "reciprocal",
                                            "tanh",
                                            "sigmoid",
                                            "erf",
                                            "sin",
                                            "cos",
                                            "floor",
                                            "ceil",
                                            "round",
                                            "relu",
                                            "logical_not",
                                            "is_nan",
                                            "is_finite",
                                            "cast",
                                            "check_index",
                                            "add",
                                            "sub",
                                            "mul",
                                            "div",
                                            "pow",
                                            "remainder",
                                            "maximum",
                                            "minimum",
                                            "eq",
                                            "ne",
                                            "lt",
                                            "le",
                                            "and",
                                            "or",
                                            "xor",
                                            "select",
                                            "fma",
                                            "reduce_sum",
                                            "reduce_prod",
                                            "reduce_max",
                                            "reduce_min",
                                            "reduce_m2",
                                            "reduce_argmax",
                                            "reduce_argmin",
                                            "store"};
    static_assert(sizeof(names) / sizeof(names[0]) == static_cast<std::size_t>(Opcode::Store) + 1);
    return names[static_cast<std::size_t>(op)];
}

std::string Program::str() const {
    std::ostringstream out;
    out << (form == Form::Map         ? "map"
            : form == Form::RowReduce ? "reduce rows"
                                      : "reduce columns")
        << " over ";
    write_list(out, extents, rank);
    if (form != Form::Map) out << " split " << split;
    out << '\n';
    for (std::size_t a = 0; a < accesses.size(); ++a) {
        out << "  @" << a << ' ' << (accesses[a].writes ? "out " : "in  ")
            << name_of(accesses[a].dtype) << " strides ";
        write_list(out, accesses[a].strides, rank);
        if (accesses[a].offset) out << " + " << accesses[a].offset;
        out << '\n';
    }
    int stage = 0;
    for (std::size_t n = 0; n < body.size(); ++n) {
        const Instr& i = body[n];
        if (i.stage != stage) {
            stage = i.stage;
            out << "  stage " << stage << '\n';
        }
        out << "  %" << n << (i.kept ? " kept " : " ") << name_of(i.op) << ' ' << name_of(i.type);
        for (const std::int32_t v : {i.a, i.b, i.c})
            if (v >= 0) out << " %" << v;
        if (i.op == Opcode::Const)
            out << ' ' << (is_floating(i.type) ? i.imm : static_cast<double>(i.int_imm));
        if (has_access(i.op))
            out << " @" << i.aux;
        else if (i.op == Opcode::CheckIndex)
            out << " in [" << i.imm_range[0] << ", " << i.imm_range[1] << ") or " << i.int_imm
                << " of "
                << (i.aux >= 0 && static_cast<std::size_t>(i.aux) < index_ops.size()
                        ? index_ops[static_cast<std::size_t>(i.aux)]
                        : "?");
        else if (i.aux >= 0)
            out << " $" << i.aux;
        out << '\n';
    }
    return out.str();
}

}  // namespace pippin::plan
