#include "backends/gpu/program_writer.h"

#include <algorithm>

#include <fmt/format.h>

#include "pippin/error.h"

namespace pippin::gpu {

using plan::Instr;
using plan::Opcode;

bool needs_wide_indices(const plan::Program& p) {
    constexpr std::int64_t kLimit = (std::int64_t{1} << 31) - 65536;
    if (p.outer() * p.inner() >= kLimit) return true;
    for (const auto& a : p.accesses) {
        std::int64_t reach = 0;
        for (int d = 0; d < p.rank; ++d) {
            const auto k = static_cast<std::size_t>(d);
            reach += std::abs(a.strides[k]) * std::max<std::int64_t>(p.extents[k] - 1, 0);
        }
        if (reach >= kLimit) return true;
    }
    return false;
}

namespace {

// Sums with a constant of sums with a constant, (x + 1) - 1 say, which are there for what rounding
// does: compilers would make one of them.
std::vector<char> exact_sums(const plan::Program& p) {
    std::vector<char> exact(p.body.size(), 0);
    // The operand that is no constant, of what is such a sum; -1 else.
    const auto term = [&](std::int32_t n) -> std::int32_t {
        const Instr& i = p.body[static_cast<std::size_t>(n)];
        if (i.type != DType::Float32 || (i.op != Opcode::Add && i.op != Opcode::Sub)) return -1;
        const auto is_constant = [&](std::int32_t o) {
            return p.body[static_cast<std::size_t>(o)].op == Opcode::Const;
        };
        return is_constant(i.b) ? i.a : is_constant(i.a) ? i.b : -1;
    };
    for (std::size_t n = 0; n < p.body.size(); ++n) {
        const std::int32_t inner = term(static_cast<std::int32_t>(n));
        if (inner >= 0 && term(inner) >= 0) exact[n] = exact[static_cast<std::size_t>(inner)] = 1;
    }
    return exact;
}

}  // namespace

ProgramWriter::ProgramWriter(Work& work, const plan::Program& program, std::string name)
    : work_(work), p_(program), wide_(needs_wide_indices(program)), exact_(exact_sums(program)) {
    kernel.name = std::move(name);
    kernel.wide = wide_;
    args.push_back(value_arg(0));  // the number of groups, known at the end
}

std::string ProgramWriter::arg(const Arg& a) {
    const std::string key = fmt::format("{} {} {} {}", static_cast<int>(a.kind), a.index, a.value,
                                        static_cast<int>(a.dtype));
    auto [it, fresh] = known_.emplace(key, static_cast<int>(args.size()));
    if (fresh) args.push_back(a);
    return fmt::format("ARG({})", it->second);
}

std::string ProgramWriter::address(const Arg& a) {
    const std::size_t before = args.size();
    const std::string text = arg(a);
    const std::string number = text.substr(4, text.size() - 5);
    const std::string name = "p" + number;
    if (args.size() != before) head += fmt::format("PTR {} = ADDRESS({});\n", name, number);
    return name;
}

std::string ProgramWriter::index_constant(std::int64_t v) const {
    return wide_ ? constant(DType::Int64, 0, v) : fmt::format("{}", v);
}

std::string ProgramWriter::coordinates(const std::string& linear, int begin, int end,
                                       const std::string& prefix) const {
    std::string out;
    const auto extent = [&](int d) {
        const auto e = std::max<std::int64_t>(p_.extents[static_cast<std::size_t>(d)], 1);
        return wide_ ? constant(DType::Int64, 0, e) : fmt::format("{}u", e);
    };
    const std::string rest = prefix + "rest";
    bool first = true;
    for (int d = end; d-- > begin;) {
        const std::string from = first ? fmt::format("{}({})", linear_type(), linear) : rest;
        if (d == begin) {
            out += fmt::format("{0} {1}{2} = {0}({3});\n", index_type(), prefix, d, from);
            break;
        }
        out +=
            fmt::format("{0} {1}{2} = {0}({3} % {4});\n", index_type(), prefix, d, from, extent(d));
        if (first)
            out += fmt::format("{} {} = {} / {};\n", linear_type(), rest, from, extent(d));
        else
            out += fmt::format("{0} = {0} / {1};\n", rest, extent(d));
        first = false;
    }
    return out;
}

std::string ProgramWriter::offset(const plan::Access& a, int begin, int end,
                                  const std::string& prefix) const {
    std::string out;
    for (int d = begin; d < end; ++d) {
        const auto k = static_cast<std::size_t>(d);
        if (a.strides[k] == 0 || p_.extents[k] == 1) continue;
        const std::string c = fmt::format("{}{}", prefix, d);
        out += out.empty() ? "" : " + ";
        out += a.strides[k] == 1 ? c : fmt::format("{} * {}", c, index_constant(a.strides[k]));
    }
    return out.empty() ? "0" : out;
}

std::int64_t ProgramWriter::shift(const plan::Access& a) const {
    std::int64_t back = 0;
    for (int d = 0; d < p_.rank; ++d) {
        const auto k = static_cast<std::size_t>(d);
        if (a.strides[k] < 0) back -= a.strides[k] * std::max<std::int64_t>(p_.extents[k] - 1, 0);
    }
    return back;
}

DType ProgramWriter::value_type(std::int32_t instr) const {
    return register_type(p_.body[static_cast<std::size_t>(instr)].type);
}

std::string ProgramWriter::value(std::int32_t instr, const Point& at) const {
    const Instr& i = p_.body[static_cast<std::size_t>(instr)];
    if (i.op == Opcode::Const) return constant(register_type(i.type), i.imm, i.int_imm);
    if (i.op == Opcode::Scalar) return fmt::format("s{}", instr);
    if (i.kept || plan::is_reduction(i.op)) return fmt::format("v{}", instr);
    return fmt::format("v{}{}", instr, at.suffix);
}

std::string ProgramWriter::check(const Instr& i, const std::string& v) {
    Check c;
    const auto name = static_cast<std::size_t>(std::max(i.aux, 0));
    c.op = name < p_.index_ops.size() ? p_.index_ops[name] : "index";
    c.low = i.imm_range[0];
    c.high = i.imm_range[1];
    // The number goes in as an argument, so that equal programs of other plans are equal text.
    const std::string error = address(error_arg());
    const std::string number = arg(value_arg(static_cast<std::int64_t>(work_.checks.size())));
    work_.checks.push_back(std::move(c));
    const std::string x = fmt::format("I64({})", v);
    return fmt::format("if (({0} < {1} || {0} >= {2}) && {0} != {3}) {{ {4}}}\n", x,
                       int_constant(i.imm_range[0]), int_constant(i.imm_range[1]),
                       int_constant(i.int_imm), report_index(error, number, x));
}

std::string ProgramWriter::statement(std::int32_t n, const Point& at) {
    const Instr& i = p_.body[static_cast<std::size_t>(n)];
    const DType t = register_type(i.type);
    if (i.op == Opcode::Const) return {};
    if (i.op == Opcode::Scalar) {
        const std::string a = arg(scalar_arg(i.aux, t));
        const std::string text = t == DType::Float32 ? fmt::format("AS_FLOAT(uint({}))", a)
                                 : t == DType::Bool  ? fmt::format("({} != I64(0))", a)
                                                     : fmt::format("{}({})", type_name(t), a);
        const std::string line = fmt::format("{} s{} = {};\n", type_name(t), n, text);
        if (head.find(line) == std::string::npos) head += line;
        return {};
    }
    const auto index = [&]() -> const std::string& {
        return at.index[static_cast<std::size_t>(i.aux)];
    };
    if (i.op == Opcode::Store) {
        const plan::Access& a = p_.accesses[static_cast<std::size_t>(i.aux)];
        std::string x = value(i.a, at);
        const DType from = value_type(i.a), memory = register_type(a.dtype);
        if (a.dtype == DType::UInt8)
            x = convert(x, from, DType::UInt8);
        else if (from != memory)
            x = convert(x, from, memory);
        const std::string text = store(a.dtype, pointer(i.aux), index(), x);
        return at.ok.empty() ? text + ";\n" : fmt::format("if ({}) {};\n", at.ok, text);
    }
    std::string x;
    switch (i.op) {
        case Opcode::Load: {
            const DType memory = p_.accesses[static_cast<std::size_t>(i.aux)].dtype;
            x = convert(load(memory, pointer(i.aux), index()), register_type(memory), t);
            break;
        }
        case Opcode::Iota:
            x = fmt::format(
                "(I64({}) + {})", index(),
                int_constant(first_element(p_.accesses[static_cast<std::size_t>(i.aux)])));
            break;
        case Opcode::RandomBits:
        case Opcode::RandomUniform: {
            const std::string word =
                fmt::format("random_word({}, {}, {})", arg(scalar_arg(i.aux, DType::Float64)),
                            arg(scalar_arg(i.aux + 1, DType::Float64)), value(i.a, at));
            x = i.op == Opcode::RandomBits
                    ? fmt::format("I64({})", word)
                    : fmt::format("(float({} >> 8) * 5.9604644775390625e-8f)", word);
            break;
        }
        case Opcode::CheckIndex:
            x = value(i.a, at);
            break;
        default:
            x = expression(i, value_type(i.a), value(i.a, at), i.b >= 0 ? value(i.b, at) : "",
                           i.c >= 0 ? value(i.c, at) : "");
    }
    std::string out =
        fmt::format("{}{} {} = {};\n", exact_[static_cast<std::size_t>(n)] ? "EXACT " : "",
                    type_name(t), value(n, at), x);
    if (i.op == Opcode::CheckIndex) out += check(i, value(n, at));
    return out;
}

void ProgramWriter::finish(Step& step, std::int64_t groups) {
    kernel.body = head + kernel.body;
    args[0] = value_arg(groups);
    Dispatch d;
    d.groups = groups;
    d.args = std::move(args);
    d.kernel = work_.add(std::move(kernel));
    step.dispatches.push_back(std::move(d));
}

}  // namespace pippin::gpu
