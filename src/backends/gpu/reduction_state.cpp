#include "backends/gpu/reduction_state.h"

#include <limits>

#include <fmt/format.h>

#include "backends/gpu/expression.h"
#include "pippin/error.h"

namespace pippin::gpu {

using plan::Opcode;

namespace {

// Booleans are carried as 0 and 1.
DType carried(DType t) { return t == DType::Bool ? DType::Int32 : t; }

std::string least(DType from) {
    switch (from) {
        case DType::Bool:
            return "0";
        case DType::Int32:
            return constant(DType::Int32, 0, std::numeric_limits<std::int32_t>::min());
        case DType::Int64:
            return constant(DType::Int64, 0, std::numeric_limits<std::int64_t>::min());
        default:
            return "AS_FLOAT(0xff800000u)";
    }
}
std::string most(DType from) {
    switch (from) {
        case DType::Bool:
            return "1";
        case DType::Int32:
            return constant(DType::Int32, 0, std::numeric_limits<std::int32_t>::max());
        case DType::Int64:
            return constant(DType::Int64, 0, std::numeric_limits<std::int64_t>::max());
        default:
            return "AS_FLOAT(0x7f800000u)";
    }
}

}  // namespace

ReductionState::ReductionState(const plan::Instr& i, DType operand, bool wide)
    : op_(i.op), type_(register_type(i.type)), from_(operand), wide_(wide) {
    switch (op_) {
        case Opcode::ReduceSum:
        case Opcode::ReduceProd:
            if (type_ == DType::Bool) throw Error("a sum of booleans has no type");
            from_ = type_;  // converted before it is added
            parts.push_back({type_name(type_), constant(type_, op_ == Opcode::ReduceProd,
                                                        op_ == Opcode::ReduceProd)});
            break;
        case Opcode::ReduceMax:
            parts.push_back({type_name(carried(from_)), least(from_)});
            break;
        case Opcode::ReduceMin:
            parts.push_back({type_name(carried(from_)), most(from_)});
            break;
        case Opcode::ReduceM2:
            if (from_ != DType::Float32) throw Error("deviations are of floats");
            parts = {{"float", "0.0f"}, {"float", "0.0f"}, {"float", "0.0f"}};  // mean, m2, count
            break;
        default:
            parts = {{type_name(carried(from_)), constant(carried(from_), 0, 0)},
                     {wide_ ? "I64" : "int", wide_ ? "I64(-1)" : "-1"}};
    }
}

bool ReductionState::in_blocks() const {
    return op_ == Opcode::ReduceSum && type_ == DType::Float32;
}

std::string ReductionState::combine(const std::string& a, const std::string& b) const {
    const bool real = from_ == DType::Float32;
    switch (op_) {
        case Opcode::ReduceSum:
            return fmt::format("({} + {})", a, b);
        case Opcode::ReduceProd:
            return fmt::format("({} * {})", a, b);
        case Opcode::ReduceMax:
            return real ? fmt::format("max_nan({}, {})", a, b)
                        : fmt::format("({0} > {1} ? {0} : {1})", a, b);
        case Opcode::ReduceMin:
            return real ? fmt::format("min_nan({}, {})", a, b)
                        : fmt::format("({0} < {1} ? {0} : {1})", a, b);
        default:
            return {};
    }
}

std::string ReductionState::add(const std::vector<std::string>& a, const std::string& x,
                                const std::string& position) const {
    const std::string v = from_ == DType::Bool ? fmt::format("int({})", x) : x;
    switch (op_) {
        case Opcode::ReduceM2:
            // Welford (1962)
            return fmt::format(
                "{{ {2} = {2} + 1.0f; float delta = {3} - {0}; {0} = {0} + delta / {2}; "
                "{1} = FMA(delta, {3} - {0}, {1}); }}\n",
                a[0], a[1], a[2], v);
        case Opcode::ReduceArgMax:
        case Opcode::ReduceArgMin: {
            const char* better = op_ == Opcode::ReduceArgMax ? ">" : "<";
            std::string test = fmt::format("{} {} {}", v, better, a[0]);
            if (from_ == DType::Float32)
                test = fmt::format("({}) || (is_nan({}) && !is_nan({}))", test, v, a[0]);
            if (from_ == DType::Float32) test = fmt::format("!is_nan({}) && ({})", a[0], test);
            return fmt::format("if ({1} < {3}(0) || ({4})) {{ {0} = {2}; {1} = {5}; }}\n", a[0],
                               a[1], v, parts[1].type, test, position);
        }
        default:
            return fmt::format("{} = {};\n", a[0], combine(a[0], v));
    }
}

std::string ReductionState::merge(const std::vector<std::string>& a,
                                  const std::vector<std::string>& b) const {
    switch (op_) {
        case Opcode::ReduceM2:
            // Chan, Golub and LeVeque (1979)
            return fmt::format(
                "{{ float both = {2} + {5}; if ({5} > 0.0f) {{ float delta = {3} - {0}; "
                "float share = {5} / both; {1} = {1} + {4} + delta * delta * {2} * share; "
                "{0} = FMA(delta, share, {0}); {2} = both; }} }}\n",
                a[0], a[1], a[2], b[0], b[1], b[2]);
        case Opcode::ReduceArgMax:
        case Opcode::ReduceArgMin: {
            const char* better = op_ == Opcode::ReduceArgMax ? ">" : "<";
            const std::string zero = parts[1].type + "(0)";
            std::string test = fmt::format("{0} {2} {1} || ({0} == {1} && {3} < {4})", b[0], a[0],
                                           better, b[1], a[1]);
            if (from_ == DType::Float32)
                test =
                    fmt::format("is_nan({1}) ? (is_nan({0}) && {3} < {2}) : (is_nan({0}) || {4})",
                                b[0], a[0], a[1], b[1], test);
            return fmt::format(
                "if ({3} >= {4} && ({1} < {4} || ({5}))) {{ {0} = {2}; {1} = {3}; }}\n", a[0], a[1],
                b[0], b[1], zero, test);
        }
        default:
            return fmt::format("{} = {};\n", a[0], combine(a[0], b[0]));
    }
}

std::string ReductionState::result(const std::vector<std::string>& a) const {
    switch (op_) {
        case Opcode::ReduceM2:
            return a[1];
        case Opcode::ReduceArgMax:
        case Opcode::ReduceArgMin:
            return fmt::format("({0} < {1}(0) ? I64(0) : I64({0}))", a[1], parts[1].type);
        default:
            return from_ == DType::Bool ? fmt::format("({} != 0)", a[0]) : a[0];
    }
}

}  // namespace pippin::gpu
