// Creation, random, arithmetic and activations on tensors.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "graph/build.h"
#include "pippin/ops.h"
#include "runtime/backend.h"
#include "tensor/promote.h"
#include "tensor/site.h"
#include "tensor/variable.h"

namespace pippin {

namespace g = graph;
using graph::NodePtr;

namespace {

Device device_of(const Options& o) {
    if (!o.device) return default_device();
    runtime::backend(*o.device);  // raises when there is none
    return *o.device;
}

void check_shape(const Shape& s) {
    for (auto e : s)
        if (e < 0) throw ValueError(fmt::format("negative extent in shape {}", s.str()));
}

Tensor finished(NodePtr n, const Options& o) {
    Tensor t = wrap(std::move(n));
    if (o.requires_grad) t.requires_grad_();
    return t;
}

// Float32 random values in the dtype that was asked for.
Tensor random_result(NodePtr n, const Options& o) {
    const DType t = o.dtype.value_or(DType::Float32);
    if (!is_floating(t))
        throw TypeError(fmt::format("random numbers of dtype {}: use randint", name_of(t)));
    return finished(g::cast(n, t), o);
}

template <class F>
Tensor binary(const Operand& a, const Operand& b, F f, const DType* dtype = nullptr) {
    return at_site(a.site, [&] {
        const Pair p = promoted(a, b, dtype);
        return wrap(f(p.a, p.b));
    });
}

NodePtr node_of_operand(const Operand& x) {
    if (x.kind == Operand::Kind::Tensor) return node_of(x.tensor);
    return operand_node(x, result_type(x, x), {}, default_device());
}

template <class F>
Tensor unary(const Operand& x, F f) {
    return at_site(x.site, [&] { return wrap(f(node_of_operand(x))); });
}

// For functions that give floating-point results.
template <class F>
Tensor float_unary(const Operand& x, F f) {
    return at_site(x.site, [&] {
        const NodePtr n = node_of_operand(x);
        return wrap(f(g::cast(n, float_type(n->dtype))));
    });
}

void reject_bool(const NodePtr& n, const char* op) {
    if (n->dtype == DType::Bool)
        throw TypeError(fmt::format(
            "{}: not defined on bool tensors; cast to an integer or use the logical ops", op));
}

bool is_bool(const Operand& o) {
    if (o.kind == Operand::Kind::Tensor)
        return o.tensor.defined() && o.tensor.dtype() == DType::Bool;
    return o.kind == Operand::Kind::Bool;
}

}  // namespace

// --- creation ---

Tensor full(const Shape& shape, double value, Options o) {
    check_shape(shape);
    return finished(g::full(value, o.dtype.value_or(DType::Float32), shape, device_of(o)), o);
}
Tensor zeros(const Shape& shape, Options o) { return full(shape, 0, o); }
Tensor ones(const Shape& shape, Options o) { return full(shape, 1, o); }
Tensor full_like(const Tensor& t, double value) { return wrap(g::full_like(node_of(t), value)); }
Tensor zeros_like(const Tensor& t) { return full_like(t, 0); }
Tensor ones_like(const Tensor& t) { return full_like(t, 1); }
Tensor scalar(double value, Options o) { return full({}, value, o); }

Tensor arange(double start, double end, double step, Options o) {
    if (step == 0 || !std::isfinite(start) || !std::isfinite(end) || !std::isfinite(step))
        throw ValueError(
            fmt::format("arange: bounds must be finite and the step not zero, got {}, {}, {}",
                        start, end, step));
    if ((end - start) / step < 0)
        throw ValueError(
            fmt::format("arange: step {} leads away from {} starting at {}", step, end, start));
    const auto n = static_cast<std::int64_t>(std::ceil((end - start) / step));
    const bool whole =
        start == std::floor(start) && end == std::floor(end) && step == std::floor(step);
    const DType t = o.dtype.value_or(whole ? DType::Int64 : DType::Float32);
    // Computed in int64 or float64 from the index, so that no error adds up. A GPU has no float64.
    const double most = std::max(std::fabs(start), std::fabs(end));
    const DType c = is_floating(t) && !(whole && most < 0x1p53) ? DType::Float64 : DType::Int64;
    const Shape s{n};
    const Device d = device_of(o);
    NodePtr i = g::iota(s, 0, c, d);
    i = g::add(g::mul(i, g::full(step, c, s, d)), g::full(start, c, s, d));
    return finished(g::cast(i, t), o);
}
Tensor arange(std::int64_t end, Options o) { return arange(0, static_cast<double>(end), 1, o); }

Tensor linspace(double start, double end, std::int64_t steps, Options o) {
    if (steps < 0) throw ValueError(fmt::format("linspace: {} steps", steps));
    const Shape s{steps};
    const Device d = device_of(o);
    const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
    NodePtr i = g::iota(s, 0, DType::Float64, d);
    i = g::add_scalar(g::mul_scalar(i, step), start);
    return finished(g::cast(i, o.dtype.value_or(DType::Float32)), o);
}

Tensor eye(std::int64_t n, Options o) {
    if (n < 0) throw ValueError(fmt::format("eye: negative size {}", n));
    const Shape s{n, n};
    const Device d = device_of(o);
    NodePtr same = g::eq(g::iota(s, 0, DType::Int64, d), g::iota(s, 1, DType::Int64, d));
    return finished(g::cast(same, o.dtype.value_or(DType::Float32)), o);
}

Tensor runtime_scalar(double value, Options o) {
    return wrap(g::run_scalar(value, o.dtype.value_or(DType::Float32), device_of(o)));
}

// --- random ---

Tensor rand(const Shape& shape, Options o) {
    check_shape(shape);
    const DType dtype = o.dtype.value_or(DType::Float32);
    NodePtr u = g::random_uniform(shape, device_of(o));
    // As many bits as the half type has: rounding to it would give 1.
    if (const double steps = is_half(dtype) ? (dtype == DType::Float16 ? 2048 : 256) : 0; steps > 0)
        u = g::mul_scalar(g::floor(g::mul_scalar(u, steps)), 1 / steps);
    return random_result(u, o);
}

Tensor uniform(const Shape& shape, double low, double high, Options o) {
    check_shape(shape);
    if (!(low <= high))
        throw ValueError(fmt::format("uniform: low {} is above high {}", low, high));
    NodePtr v =
        g::add_scalar(g::mul_scalar(g::random_uniform(shape, device_of(o)), high - low), low);
    // What rounds up to `high`, which is no part of the range, starts again at `low`.
    const DType dtype = o.dtype.value_or(DType::Float32);
    if (low < high) {
        const NodePtr rounded = is_half(dtype) ? g::cast(g::cast(v, dtype), DType::Float32) : v;
        v = g::select(g::lt(rounded, g::full_like(v, high)), v, g::full_like(v, low));
    }
    return random_result(v, o);
}

Tensor randn(const Shape& shape, Options o) {
    check_shape(shape);
    // Box and Muller 1958; 1 - u keeps the logarithm's argument above 0.
    const Device d = device_of(o);
    const NodePtr u = g::random_uniform(shape, d), v = g::random_uniform(shape, d);
    const NodePtr radius = g::sqrt(g::mul_scalar(g::log(g::add_scalar(g::neg(u), 1)), -2));
    return random_result(g::mul(radius, g::cos(g::mul_scalar(v, 2 * std::numbers::pi))), o);
}

Tensor normal(const Shape& shape, double mean, double std, Options o) {
    if (!(std >= 0)) throw ValueError(fmt::format("normal: negative standard deviation {}", std));
    const NodePtr n = node_of(randn(shape, device_of(o)));
    return random_result(g::add_scalar(g::mul_scalar(n, std), mean), o);
}

Tensor bernoulli(const Shape& shape, double p, Options o) {
    check_shape(shape);
    if (!(p >= 0 && p <= 1))
        throw ValueError(fmt::format("bernoulli: probability {} is not in [0, 1]", p));
    const NodePtr u = g::random_uniform(shape, device_of(o));
    return finished(g::cast(g::lt(u, g::full_like(u, p)), o.dtype.value_or(DType::Float32)), o);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Options o) {
    check_shape(shape);
    if (high <= low) throw ValueError(fmt::format("randint: empty range [{}, {})", low, high));
    if (high - low > (std::int64_t{1} << 31))
        throw ValueError("randint: ranges above 2^31 are not supported");
    // bits * range / 2^32: a bias below range / 2^32.
    const Device d = device_of(o);
    const NodePtr bits = g::cast(g::random_bits(shape, d), DType::Float64);
    const NodePtr x = g::floor(g::mul_scalar(bits, static_cast<double>(high - low) / 4294967296.0));
    return finished(
        g::cast(g::add_scalar(x, static_cast<double>(low)), o.dtype.value_or(DType::Int64)), o);
}

// --- arithmetic ---

Tensor operator+(const Operand& a, const Operand& b) { return binary(a, b, g::add); }
Tensor operator*(const Operand& a, const Operand& b) { return binary(a, b, g::mul); }
Tensor operator-(const Operand& a, const Operand& b) {
    return at_site(a.site, [&] {
        if (is_bool(a) || is_bool(b))
            throw TypeError("sub: not defined on bool; cast to an integer or use the logical ops");
        const Pair p = promoted(a, b);
        return wrap(g::sub(p.a, p.b));
    });
}
Tensor operator/(const Operand& a, const Operand& b) {
    const DType t = float_type(result_type(a, b));
    return binary(a, b, g::div, &t);
}
Tensor operator==(const Operand& a, const Operand& b) { return binary(a, b, g::eq); }
Tensor operator!=(const Operand& a, const Operand& b) { return binary(a, b, g::ne); }
Tensor operator<(const Operand& a, const Operand& b) { return binary(a, b, g::lt); }
Tensor operator<=(const Operand& a, const Operand& b) { return binary(a, b, g::le); }
Tensor operator>(const Operand& a, const Operand& b) { return binary(b, a, g::lt); }
Tensor operator>=(const Operand& a, const Operand& b) { return binary(b, a, g::le); }
Tensor add(const Operand& a, const Operand& b, double alpha) {
    return binary(a, b, [&](const NodePtr& x, const NodePtr& y) {
        return g::add(x, alpha == 1 ? y : g::mul(y, g::full_like(y, alpha)));
    });
}
Tensor pow(const Operand& a, const Operand& b) { return binary(a, b, g::pow); }
Tensor remainder(const Operand& a, const Operand& b) { return binary(a, b, g::remainder); }
Tensor maximum(const Operand& a, const Operand& b) { return binary(a, b, g::maximum); }
Tensor minimum(const Operand& a, const Operand& b) { return binary(a, b, g::minimum); }

namespace {
constexpr DType kBool = DType::Bool;
}
Tensor logical_and(const Operand& a, const Operand& b) { return binary(a, b, g::bit_and, &kBool); }
Tensor logical_or(const Operand& a, const Operand& b) { return binary(a, b, g::bit_or, &kBool); }
Tensor logical_xor(const Operand& a, const Operand& b) { return binary(a, b, g::bit_xor, &kBool); }
Tensor logical_not(const Operand& a) { return unary(a, g::logical_not); }
Tensor bitwise_and(const Operand& a, const Operand& b) { return binary(a, b, g::bit_and); }
Tensor bitwise_or(const Operand& a, const Operand& b) { return binary(a, b, g::bit_or); }
Tensor bitwise_xor(const Operand& a, const Operand& b) { return binary(a, b, g::bit_xor); }

Tensor where(const Tensor& condition, const Operand& a, const Operand& b, Site site) {
    return at_site(site, [&] {
        const NodePtr& c = node_of(condition, "where: the condition");
        if (c->dtype != DType::Bool)
            throw TypeError(
                fmt::format("where: the condition must be bool, not {}", name_of(c->dtype)));
        const DType t = result_type(a, b);
        Shape shape = c->shape;
        for (const Operand* o : {&a, &b})
            if (o->kind == Operand::Kind::Tensor)
                shape = broadcast_shapes(shape, node_of(o->tensor)->shape);
        return wrap(g::select(g::expand_to(c, shape), operand_node(a, t, shape, c->device),
                              operand_node(b, t, shape, c->device)));
    });
}

Tensor clamp(const Operand& x, std::optional<double> low, std::optional<double> high) {
    if (!low && !high) throw ValueError("clamp: give at least one bound");
    return at_site(x.site, [&] {
        NodePtr n = node_of_operand(x);
        // A fractional bound makes an integer tensor float32, as any number would.
        for (auto bound : {low, high})
            if (bound && *bound != std::floor(*bound)) n = g::cast(n, float_type(n->dtype));
        // By comparison, so that NaN stays; the gradient passes strictly inside of the bounds
        // alone.
        NodePtr y = g::detach(n), inside;
        if (low) {
            const NodePtr l = g::full_like(n, *low);
            inside = g::lt(l, n);
            y = g::select(g::lt(y, l), l, y);
        }
        if (high) {
            const NodePtr h = g::full_like(n, *high), below = g::lt(n, h);
            inside = inside ? g::bit_and(inside, below) : below;
            y = g::select(g::lt(h, y), h, y);
        }
        return wrap(n->requires_grad ? g::select(inside, n, y) : y);
    });
}

Tensor neg(const Operand& x) {
    return unary(x, [](const NodePtr& n) {
        reject_bool(n, "neg");
        return g::neg(n);
    });
}
Tensor abs(const Operand& x) { return unary(x, g::abs); }
Tensor sign(const Operand& x) { return unary(x, g::sign); }
Tensor exp(const Operand& x) { return float_unary(x, g::exp); }
Tensor log(const Operand& x) { return float_unary(x, g::log); }
Tensor sqrt(const Operand& x) { return float_unary(x, g::sqrt); }
Tensor rsqrt(const Operand& x) { return float_unary(x, g::rsqrt); }
Tensor reciprocal(const Operand& x) { return float_unary(x, g::reciprocal); }
Tensor square(const Operand& x) {
    return unary(x, [](const NodePtr& n) { return g::mul(n, n); });
}
Tensor sin(const Operand& x) { return float_unary(x, g::sin); }
Tensor cos(const Operand& x) { return float_unary(x, g::cos); }
Tensor erf(const Operand& x) { return float_unary(x, g::erf); }

namespace {
// Rounding leaves integers alone.
template <class F>
Tensor rounding(const Operand& x, F f) {
    return unary(x, [&](const NodePtr& n) { return is_floating(n->dtype) ? f(n) : n; });
}
}  // namespace
Tensor floor(const Operand& x) { return rounding(x, g::floor); }
Tensor ceil(const Operand& x) { return rounding(x, g::ceil); }
Tensor round(const Operand& x) { return rounding(x, g::round); }
Tensor isnan(const Operand& x) { return float_unary(x, g::isnan); }
Tensor isfinite(const Operand& x) { return float_unary(x, g::isfinite); }

Tensor cast(const Tensor& x, DType dtype, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x, "cast: the tensor");
        return n->dtype == dtype ? x : wrap(g::cast(n, dtype));
    });
}

// --- activations ---

Tensor tanh(const Operand& x) { return float_unary(x, g::tanh); }
Tensor sigmoid(const Operand& x) { return float_unary(x, g::sigmoid); }
Tensor relu(const Operand& x) { return unary(x, g::relu); }
Tensor leaky_relu(const Operand& x, double slope) {
    return float_unary(x, [&](const NodePtr& n) {
        return g::select(g::lt(g::full_like(n, 0), n), n, g::mul_scalar(n, slope));
    });
}
Tensor gelu(const Operand& x, Gelu kind) {
    return float_unary(x, [&](const NodePtr& n) {
        if (kind == Gelu::Erf) {
            const NodePtr inner = g::erf(g::mul_scalar(n, std::numbers::sqrt2 / 2));
            return g::mul(g::mul_scalar(n, 0.5), g::add_scalar(inner, 1));
        }
        // (1 + tanh(u)) / 2 = sigmoid(2u), without the cancellation far from zero.
        const NodePtr cubic = g::mul_scalar(g::mul(g::mul(n, n), n), 0.044715);
        const NodePtr u2 = g::mul_scalar(g::add(n, cubic), 2 * std::sqrt(2 / std::numbers::pi));
        return g::mul(n, g::sigmoid(u2));
    });
}
Tensor silu(const Operand& x) {
    return float_unary(x, [](const NodePtr& n) { return g::mul(n, g::sigmoid(n)); });
}

Tensor operator-(const Operand& x) { return neg(x); }
Tensor Tensor::abs() const { return pippin::abs(*this); }
Tensor Tensor::exp() const { return pippin::exp(*this); }
Tensor Tensor::log() const { return pippin::log(*this); }
Tensor Tensor::sqrt() const { return pippin::sqrt(*this); }
Tensor Tensor::tanh() const { return pippin::tanh(*this); }
Tensor Tensor::relu() const { return pippin::relu(*this); }
Tensor Tensor::sigmoid() const { return pippin::sigmoid(*this); }
Tensor Tensor::pow(double e) const { return pippin::pow(*this, e); }

}  // namespace pippin
