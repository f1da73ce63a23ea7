// Elementwise ops of one tensor. A line of the table below is an op's whole story.
#include "graph/ops/check.h"
#include "graph/ops/records.h"
#include "graph/ops/ref.h"
#include "plan/program.h"

namespace pippin::graph::ops {
namespace {

using Nodes = std::span<const NodePtr>;

// Type rules.
Type floating(Nodes in, const Attrs&) {
    need_floating(*in[0]);
    return {in[0]->dtype, in[0]->shape};
}
Type number(Nodes in, const Attrs&) {
    if (in[0]->dtype == DType::Bool)
        bad_type("bool tensors have no arithmetic; use logical_not or cast");
    return {in[0]->dtype, in[0]->shape};
}
Type predicate(Nodes in, const Attrs&) { return {DType::Bool, in[0]->shape}; }

double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }  // 0 for NaN
double relu_of(double x) { return x < 0 ? 0 : x; }               // NaN stays
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

constexpr double kTwoBySqrtPi = 1.12837916709551257390;

// The slopes of functions that are constant but for jumps. As in PyTorch a gradient exists: zeros.
NodePtr flat(const NodePtr& dy) { return full_like(dy, 0); }

}  // namespace

// record, name, opcode, type rule, value of double x, gradient from x (the input), y (the node) and
// dy.
#define PIPPIN_UNARY(record, name, opcode, rule, value, gradient)                           \
    const OpRecord record{name,                                                             \
                          Kind::Elementwise,                                                \
                          rule,                                                             \
                          [](const NodePtr& y, const NodePtr& dy) -> Inputs {               \
                              [[maybe_unused]] const NodePtr& x = y->inputs[0];             \
                              return {gradient};                                            \
                          },                                                                \
                          [](const Node&, Refs in) {                                        \
                              return map1(in[0], [](double x) -> double { return value; }); \
                          },                                                                \
                          nullptr,                                                          \
                          static_cast<int>(plan::Opcode::opcode)};

// clang-format off
PIPPIN_UNARY(kNeg,        "neg",        Neg,        number,   -x,                neg(dy))
PIPPIN_UNARY(kAbs,        "abs",        Abs,        number,   std::fabs(x),      mul(dy, sign(x)))
PIPPIN_UNARY(kSign,       "sign",       Sign,       number,   sign_of(x),        flat(dy))
PIPPIN_UNARY(kExp,        "exp",        Exp,        floating, std::exp(x),       mul(dy, y))
PIPPIN_UNARY(kLog,        "log",        Log,        floating, std::log(x),       div(dy, x))
PIPPIN_UNARY(kSqrt,       "sqrt",       Sqrt,       floating, std::sqrt(x),      mul_scalar(div(dy, y), 0.5))
PIPPIN_UNARY(kRsqrt,      "rsqrt",      Rsqrt,      floating, 1 / std::sqrt(x),  mul(mul_scalar(dy, -0.5), mul(mul(y, y), y)))
PIPPIN_UNARY(kReciprocal, "reciprocal", Reciprocal, floating, 1 / x,             neg(mul(dy, mul(y, y))))
PIPPIN_UNARY(kTanh,       "tanh",       Tanh,       floating, std::tanh(x),      mul(dy, sub(full_like(y, 1), mul(y, y))))
PIPPIN_UNARY(kSigmoid,    "sigmoid",    Sigmoid,    floating, sigmoid_of(x),     mul(dy, mul(sub(full_like(y, 1), y), y)))
PIPPIN_UNARY(kErf,        "erf",        Erf,        floating, std::erf(x),       mul(mul_scalar(dy, kTwoBySqrtPi), exp(neg(mul(x, x)))))
PIPPIN_UNARY(kSin,        "sin",        Sin,        floating, std::sin(x),       mul(dy, cos(x)))
PIPPIN_UNARY(kCos,        "cos",        Cos,        floating, std::cos(x),       neg(mul(dy, sin(x))))
PIPPIN_UNARY(kFloor,      "floor",      Floor,      number,   std::floor(x),     flat(dy))
PIPPIN_UNARY(kCeil,       "ceil",       Ceil,       number,   std::ceil(x),      flat(dy))
PIPPIN_UNARY(kRound,      "round",      Round,      number,   std::nearbyint(x), flat(dy))
// By the output, so that x need not be kept; a NaN lets the gradient pass, as in PyTorch.
PIPPIN_UNARY(kRelu,       "relu",       Relu,       number,   relu_of(x),        select(le(y, full_like(y, 0)), full_like(dy, 0), dy))
// clang-format on

#undef PIPPIN_UNARY

// Predicates: bool of any dtype; no gradient.
#define PIPPIN_PREDICATE(record, name, opcode, value)                                       \
    const OpRecord record{name,                                                             \
                          Kind::Elementwise,                                                \
                          predicate,                                                        \
                          nullptr,                                                          \
                          [](const Node&, Refs in) {                                        \
                              return map1(in[0], [](double x) -> double { return value; }); \
                          },                                                                \
                          nullptr,                                                          \
                          static_cast<int>(plan::Opcode::opcode)};

PIPPIN_PREDICATE(kLogicalNot, "logical_not", LogicalNot, x == 0)
PIPPIN_PREDICATE(kIsNan, "isnan", IsNan, std::isnan(x))
PIPPIN_PREDICATE(kIsFinite, "isfinite", IsFinite, std::isfinite(x))

#undef PIPPIN_PREDICATE

// --- cast: to an integer cuts off towards zero, to bool is `!= 0` ---

const OpRecord kCast{"cast",
                     Kind::Elementwise,
                     [](Nodes in, const Attrs& a) -> Type {
                         return {dtype_attr(a), in[0]->shape};
                     },
                     [](const NodePtr& y, const NodePtr& dy) -> Inputs {
                         const NodePtr& x = y->inputs[0];
                         return {is_floating(x->dtype) ? cast(dy, x->dtype) : nullptr};
                     },
                     [](const Node& n, Refs in) {
                         return map1(in[0], [&](double x) { return stored_as(n.dtype, x); });
                     },
                     nullptr,
                     static_cast<int>(plan::Opcode::Cast)};

}  // namespace pippin::graph::ops
