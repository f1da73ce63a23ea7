// Elementwise ops of two tensors of one shape and dtype. A line of the table is an op's whole
// story.
#include "graph/ops/check.h"
#include "graph/ops/records.h"
#include "graph/ops/ref.h"
#include "plan/program.h"

namespace pippin::graph::ops {
namespace {

using Nodes = std::span<const NodePtr>;

// Type rules.
Type equal_types(Nodes in) {
    need_same_dtype(*in[0], *in[1]);
    need_same_shape(*in[0], *in[1]);
    return {in[0]->dtype, in[0]->shape};
}
Type number(Nodes in, const Attrs&) {
    const Type t = equal_types(in);
    if (t.dtype == DType::Bool)
        bad_type("bool tensors have no such arithmetic; use the bitwise or logical ops, or cast");
    return t;
}
Type floating(Nodes in, const Attrs&) {
    const Type t = equal_types(in);
    need_floating(*in[0]);
    return t;
}
Type integer(Nodes in, const Attrs&) {
    const Type t = equal_types(in);
    if (is_floating(t.dtype)) bad_type("needs an integer or bool dtype, not ", t.dtype);
    return t;
}
Type comparison(Nodes in, const Attrs&) { return {DType::Bool, equal_types(in).shape}; }

// Values that need more than an expression.
double power(const Node& n, double a, double b) {
    if (is_floating(n.dtype) || b >= 0) return std::pow(a, b);
    return a == 1    ? 1
           : a == -1 ? (std::fmod(b, 2) == 0 ? 1 : -1)
                     : 0;  // integers: 1 / a^|b| cut off
}
double modulo(const Node& n, double a, double b) {  // the sign of b, as Python's %
    if (!is_floating(n.dtype) && b == 0) return 0;  // integers: defined, where C++ would trap
    const double r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }  // NaN if either is
double smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double bits(double a, double b, char op) {
    const auto x = static_cast<std::int64_t>(a), y = static_cast<std::int64_t>(b);
    return static_cast<double>(op == '&' ? x & y : op == '|' ? x | y : x ^ y);
}

// d(a**b)/da; 0 where b is 0, whatever a is. Constant exponents give short expressions.
NodePtr pow_slope_a(const NodePtr& a, const NodePtr& b, const NodePtr& dy) {
    if (b->op == &kFull && !b->requires_grad) {
        const double e = full_value(*b);
        if (e == 0) return full_like(dy, 0);
        if (e == 1) return dy;
        if (e == 2) return mul(dy, mul_scalar(a, 2));
        return mul(dy, mul_scalar(pow(a, full_like(b, e - 1)), e));
    }
    const NodePtr zero = full_like(b, 0);
    const NodePtr slope = mul(dy, mul(b, pow(a, add_scalar(b, -1))));
    return select(eq(b, zero), zero, slope);
}
// d(a**b)/db; 0 at base 0 with b >= 0, where log(a) is infinite.
NodePtr pow_slope_b(const NodePtr& y, const NodePtr& a, const NodePtr& b, const NodePtr& dy) {
    const NodePtr zero = full_like(b, 0);
    const NodePtr none = bit_and(eq(a, zero), le(zero, b));
    return select(none, zero, mul(dy, mul(y, log(a))));
}

// A maximum's or minimum's gradient for one side: none where it lost, half where both are equal.
NodePtr winner(const NodePtr& lost, const NodePtr& a, const NodePtr& b, const NodePtr& dy) {
    return select(lost, full_like(dy, 0), select(eq(a, b), mul_scalar(dy, 0.5), dy));
}

}  // namespace

// record, name, opcode, type rule, value of doubles a and b, gradients for a and for b from a, b,
// y, dy. A gradient is emitted only for an input that requires one.
#define PIPPIN_BINARY(record, name, opcode, rule, value, for_a, for_b)                             \
    const OpRecord record{name,                                                                    \
                          Kind::Elementwise,                                                       \
                          rule,                                                                    \
                          [](const NodePtr& y, const NodePtr& dy) -> Inputs {                      \
                              [[maybe_unused]] const NodePtr &a = y->inputs[0], &b = y->inputs[1]; \
                              Inputs g;                                                            \
                              g.push_back(a->requires_grad ? for_a : nullptr);                     \
                              g.push_back(b->requires_grad ? for_b : nullptr);                     \
                              return g;                                                            \
                          },                                                                       \
                          [](const Node& n, Refs in) {                                             \
                              (void)n;                                                             \
                              return map2(in[0], in[1],                                            \
                                          [&](double a, double b) -> double { return value; });    \
                          },                                                                       \
                          nullptr,                                                                 \
                          static_cast<int>(plan::Opcode::opcode)};

// clang-format off
PIPPIN_BINARY(kAdd,       "add",       Add,       number,   a + b,           dy,         dy)
PIPPIN_BINARY(kSub,       "sub",       Sub,       number,   a - b,           dy,         neg(dy))
PIPPIN_BINARY(kMul,       "mul",       Mul,       number,   a * b,           mul(dy, b), mul(dy, a))
PIPPIN_BINARY(kDiv,       "div",       Div,       floating, a / b,           div(dy, b), neg(mul(dy, div(y, b))))
PIPPIN_BINARY(kPow,       "pow",       Pow,       number,   power(n, a, b),  pow_slope_a(a, b, dy), pow_slope_b(y, a, b, dy))
PIPPIN_BINARY(kRemainder, "remainder", Remainder, number,   modulo(n, a, b), dy,         neg(mul(dy, round(div(sub(a, y), b)))))
PIPPIN_BINARY(kMaximum,   "maximum",   Maximum,   number,   larger(a, b),    winner(lt(a, b), a, b, dy), winner(lt(b, a), a, b, dy))
PIPPIN_BINARY(kMinimum,   "minimum",   Minimum,   number,   smaller(a, b),   winner(lt(b, a), a, b, dy), winner(lt(a, b), a, b, dy))
// clang-format on

#undef PIPPIN_BINARY

// Comparisons and bitwise ops: no gradient.
#define PIPPIN_BINARY_PLAIN(record, name, opcode, rule, value)                                 \
    const OpRecord record{name,                                                                \
                          Kind::Elementwise,                                                   \
                          rule,                                                                \
                          nullptr,                                                             \
                          [](const Node&, Refs in) {                                           \
                              return map2(in[0], in[1],                                        \
                                          [](double a, double b) -> double { return value; }); \
                          },                                                                   \
                          nullptr,                                                             \
                          static_cast<int>(plan::Opcode::opcode)};

PIPPIN_BINARY_PLAIN(kEq, "eq", Eq, comparison, a == b)
PIPPIN_BINARY_PLAIN(kNe, "ne", Ne, comparison, a != b)
PIPPIN_BINARY_PLAIN(kLt, "lt", Lt, comparison, a < b)
PIPPIN_BINARY_PLAIN(kLe, "le", Le, comparison, a <= b)
PIPPIN_BINARY_PLAIN(kAnd, "bit_and", And, integer, bits(a, b, '&'))
PIPPIN_BINARY_PLAIN(kOr, "bit_or", Or, integer, bits(a, b, '|'))
PIPPIN_BINARY_PLAIN(kXor, "bit_xor", Xor, integer, bits(a, b, '^'))

#undef PIPPIN_BINARY_PLAIN

}  // namespace pippin::graph::ops
