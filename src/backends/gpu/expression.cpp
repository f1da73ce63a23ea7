#include "backends/gpu/expression.h"

#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "pippin/error.h"

namespace pippin::gpu {

using plan::Instr;
using plan::Opcode;

DType register_type(DType t) {
    if (t == DType::UInt8) return DType::Int32;
    return is_half(t) ? DType::Float32 : t;
}

const char* type_name(DType reg) {
    switch (reg) {
        case DType::Bool:
            return "bool";
        case DType::Int32:
            return "int";
        case DType::Int64:
            return "I64";
        case DType::Float64:
            return "double";
        default:
            return "float";
    }
}

std::string constant(DType reg, double value, std::int64_t integer) {
    switch (reg) {
        case DType::Bool:
            return integer != 0 || value != 0 ? "true" : "false";
        case DType::Int32:
            return fmt::format("int(0x{:x}u)", static_cast<std::uint32_t>(integer));
        case DType::Int64:
            if (integer >= 0 && integer < (std::int64_t{1} << 31))
                return fmt::format("I64({})", integer);
            return fmt::format(
                "I64_BITS(0x{:x}u, 0x{:x}u)",
                static_cast<std::uint32_t>(static_cast<std::uint64_t>(integer) >> 32),
                static_cast<std::uint32_t>(integer));
        case DType::Float64:
            if (std::isfinite(value)) return fmt::format("double({:.17g})", value);
            [[fallthrough]];
        default: {
            const auto f = static_cast<float>(value);
            if (std::isfinite(f) && (f == 0 ? !std::signbit(f) : std::fabs(f) > 1e-30f)) {
                std::string s = fmt::format("{:.9g}", f);
                if (s.find_first_of(".e") == std::string::npos) s += ".0";
                return (f < 0 ? "(" + s + "f)" : s + "f");
            }
            return fmt::format("AS_FLOAT(0x{:x}u)", std::bit_cast<std::uint32_t>(f));
        }
    }
}

std::string load(DType memory, const std::string& p, const std::string& i) {
    switch (memory) {
        case DType::Bool:
            return fmt::format("(LD_U8({}, {}) != 0u)", p, i);
        case DType::UInt8:
            return fmt::format("int(LD_U8({}, {}))", p, i);
        case DType::Int32:
            return fmt::format("LD_I32({}, {})", p, i);
        case DType::Int64:
            return fmt::format("LD_I64({}, {})", p, i);
        case DType::Float16:
            return fmt::format("f16_to_f32(LD_U16({}, {}))", p, i);
        case DType::BFloat16:
            return fmt::format("bf16_to_f32(LD_U16({}, {}))", p, i);
        case DType::Float32:
            return fmt::format("LD_F32({}, {})", p, i);
        case DType::Float64:
            return fmt::format("LD_F64({}, {})", p, i);
    }
    return {};
}

std::string store(DType memory, const std::string& p, const std::string& i, const std::string& x) {
    switch (memory) {
        case DType::Bool:
            return fmt::format("ST_U8({}, {}, ({}) ? 1u : 0u)", p, i, x);
        case DType::UInt8:
            return fmt::format("ST_U8({}, {}, uint({}) & 255u)", p, i, x);
        case DType::Int32:
            return fmt::format("ST_I32({}, {}, {})", p, i, x);
        case DType::Int64:
            return fmt::format("ST_I64({}, {}, {})", p, i, x);
        case DType::Float16:
            return fmt::format("ST_U16({}, {}, f32_to_f16({}))", p, i, x);
        case DType::BFloat16:
            return fmt::format("ST_U16({}, {}, f32_to_bf16({}))", p, i, x);
        case DType::Float32:
            return fmt::format("ST_F32({}, {}, {})", p, i, x);
        case DType::Float64:
            return fmt::format("ST_F64({}, {}, {})", p, i, x);
    }
    return {};
}

std::string convert(const std::string& x, DType from, DType to) {
    if (from == to) return x;
    const bool floats = from == DType::Float32;
    switch (to) {
        case DType::Bool:
            return floats ? fmt::format("((AS_UINT({}) & 0x7fffffffu) != 0u)", x)
                          : fmt::format("({} != {}(0))", x, type_name(from));
        case DType::UInt8:
            if (floats) return fmt::format("int(f2l({}) & I64(255))", x);
            if (from == DType::Bool) return fmt::format("int({})", x);
            return fmt::format("(int({}) & 255)", x);
        case DType::Int32:
            return floats ? fmt::format("f2i({})", x) : fmt::format("int({})", x);
        case DType::Int64:
            if (from == DType::Bool) return fmt::format("I64(int({}))", x);
            return floats ? fmt::format("f2l({})", x) : fmt::format("I64({})", x);
        case DType::Float16:
            return fmt::format("f16_to_f32(f32_to_f16({}))", convert(x, from, DType::Float32));
        case DType::BFloat16:
            return fmt::format("bf16_to_f32(f32_to_bf16({}))", convert(x, from, DType::Float32));
        default:
            return fmt::format("{}({})", type_name(to), x);
    }
}

std::string report_index(const std::string& error, const std::string& number,
                         const std::string& index) {
    return fmt::format(
        "ST_U32({0}, 0, 1u);\nST_I64({0}, 2 * int({1}) + 2, I64(1));\n"
        "ST_I64({0}, 2 * int({1}) + 3, {2});\n",
        error, number, index);
}

void check_types(const plan::Program& p, const Features&) {
    const auto refuse = [](DType t) {
        if (t == DType::Float64) throw Error("it computes in float64");
    };
    for (const auto& a : p.accesses)
        refuse(a.dtype);
    for (const Instr& i : p.body) {
        refuse(i.type);
        refuse(i.from);
    }
}

namespace {

[[noreturn]] void refuse(const Instr& i) {
    throw Error(fmt::format("there is no {} of {} on a gpu", plan::name_of(i.op), name_of(i.type)));
}

std::string call(const char* name, const std::string& a) { return fmt::format("{}({})", name, a); }
std::string call(const char* name, const std::string& a, const std::string& b) {
    return fmt::format("{}({}, {})", name, a, b);
}

std::string unary(const Instr& i, const std::string& a) {
    const bool real = i.type == DType::Float32;
    const bool wide = i.type == DType::Int64;
    const std::string zero = wide ? "I64(0)" : "0", one = wide ? "I64(1)" : "1";
    if (!real && i.type != DType::Int32 && !wide) refuse(i);
    switch (i.op) {
        case Opcode::Neg:
            return real ? call("m_neg", a) : fmt::format("({} - {})", zero, a);
        case Opcode::Abs:
            return real ? call("m_abs", a) : fmt::format("({0} < {1} ? {1} - {0} : {0})", a, zero);
        case Opcode::Sign:
            return real ? call("m_sign", a)
                        : fmt::format("({0} > {1} ? {2} : {0} < {1} ? {1} - {2} : {1})", a, zero,
                                      one);
        case Opcode::Relu:
            return real ? call("m_relu", a) : fmt::format("({0} > {1} ? {0} : {1})", a, zero);
        default:
            break;
    }
    if (!real) refuse(i);
    switch (i.op) {
        case Opcode::Exp:
            return call("m_exp", a);
        case Opcode::Log:
            return call("m_log", a);
        case Opcode::Sqrt:
            return call("sqrt", a);
        case Opcode::Rsqrt:
            return call("m_rsqrt", a);
        case Opcode::Reciprocal:
            return fmt::format("(1.0f / {})", a);
        case Opcode::Tanh:
            return call("m_tanh", a);
        case Opcode::Sigmoid:
            return call("m_sigmoid", a);
        case Opcode::Erf:
            return call("m_erf", a);
        case Opcode::Sin:
            return call("m_sin", a);
        case Opcode::Cos:
            return call("m_cos", a);
        case Opcode::Floor:
            return call("floor", a);
        case Opcode::Ceil:
            return call("ceil", a);
        case Opcode::Round:
            return call("ROUND_EVEN", a);
        default:
            refuse(i);
    }
}

std::string binary(const Instr& i, DType from, const std::string& a, const std::string& b) {
    const bool real = i.type == DType::Float32, wide = i.type == DType::Int64;
    const bool logic = i.type == DType::Bool;
    const char* comparison = i.op == Opcode::Eq   ? "=="
                             : i.op == Opcode::Ne ? "!="
                             : i.op == Opcode::Lt ? "<"
                             : i.op == Opcode::Le ? "<="
                                                  : nullptr;
    if (comparison) {
        if (from == DType::Bool) return fmt::format("(int({}) {} int({}))", a, comparison, b);
        if (from == DType::Float32 && i.op == Opcode::Lt) return call("LESS", a, b);
        if (from == DType::Float32 && i.op == Opcode::Le) return call("AT_MOST", a, b);
        return fmt::format("({} {} {})", a, comparison, b);
    }
    const auto infix = [&](const char* op) { return fmt::format("({} {} {})", a, op, b); };
    switch (i.op) {
        case Opcode::Add:
            return logic ? infix("||") : infix("+");
        case Opcode::Sub:
            if (logic) refuse(i);
            return infix("-");
        case Opcode::Mul:
            return logic ? infix("&&") : infix("*");
        case Opcode::Div:
            if (logic) refuse(i);
            return real ? infix("/") : call(wide ? "div_l" : "div_i", a, b);
        case Opcode::Pow:
            if (logic) refuse(i);
            return call(real ? "m_pow" : wide ? "pow_l" : "pow_i", a, b);
        case Opcode::Remainder:
            if (logic) refuse(i);
            return call(real ? "m_remainder" : wide ? "rem_l" : "rem_i", a, b);
        case Opcode::Maximum:
            if (logic) return infix("||");
            return real ? call("max_nan", a, b) : fmt::format("({0} > {1} ? {0} : {1})", a, b);
        case Opcode::Minimum:
            if (logic) return infix("&&");
            return real ? call("min_nan", a, b) : fmt::format("({0} < {1} ? {0} : {1})", a, b);
        case Opcode::And:
            return logic ? infix("&&") : infix("&");
        case Opcode::Or:
            return logic ? infix("||") : infix("|");
        case Opcode::Xor:
            return logic ? infix("!=") : infix("^");
        default:
            refuse(i);
    }
}

// x to a constant power that is cheaper as products.
std::string constant_power(const std::string& a, double e) {
    if (e == 1) return a;
    if (e == 2) return fmt::format("({0} * {0})", a);
    if (e == 3) return fmt::format("({0} * {0} * {0})", a);
    if (e == -1) return fmt::format("(1.0f / {})", a);
    return {};
}

}  // namespace

std::string expression(const Instr& i, DType from, const std::string& a, const std::string& b,
                       const std::string& c) {
    switch (i.op) {
        case Opcode::Cast:
            return convert(a, from, i.type);
        case Opcode::LogicalNot:
            if (from == DType::Bool) return fmt::format("(!{})", a);
            return fmt::format("(!{})", convert(a, from, DType::Bool));
        case Opcode::IsNan:
            return from == DType::Float32 ? call("is_nan", a) : "false";
        case Opcode::IsFinite:
            return from == DType::Float32 ? call("is_finite", a) : "true";
        case Opcode::Select:
            return fmt::format("({} ? {} : {})", a, b, c);
        case Opcode::Fma:
            if (i.type != DType::Float32) refuse(i);
            return fmt::format("FMA({}, {}, {})", a, b, c);
        default:
            break;
    }
    if (i.op == Opcode::Pow && i.type == DType::Float32) {
        // the operand's text may be a constant of ours
        for (const double e : {1.0, 2.0, 3.0, -1.0})
            if (b == constant(DType::Float32, e, 0)) return constant_power(a, e);
    }
    return i.b >= 0 ? binary(i, from, a, b) : unary(i, a);
}

}  // namespace pippin::gpu
