#include "programs/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace pippin::programs {
namespace {

using plan::Form;
using plan::Instr;
using plan::Opcode;
using plan::Program;

constexpr double kInf = std::numeric_limits<double>::infinity();

bool half_or_uint8(DType t) { return is_half(t) || t == DType::UInt8; }

DType register_type(DType t) {
    if (t == DType::UInt8) return DType::Int32;
    return is_half(t) ? DType::Float32 : t;
}

double unit(DType t) { return t == DType::Float64 ? 2.3e-16 : 1.2e-7; }

// To the precision of the register.
double settle(double x, DType t) {
    return t == DType::Float32 ? static_cast<double>(static_cast<float>(x)) : x;
}

std::int64_t wrap(std::int64_t x, DType t) {
    if (t == DType::Int32) return static_cast<std::int32_t>(static_cast<std::uint64_t>(x));
    if (t == DType::Bool) return x != 0;
    return x;
}

Value floating(double x, double error, DType t, double ulps) {
    Value v;
    v.f = settle(x, t);
    // Exact in double and a float: no rounding.
    if (t == DType::Float32 && ulps == 0.5 && v.f == x) ulps = 0;
    v.error = std::isfinite(x) ? error + ulps * unit(t) * std::abs(x) +
                                     (t == DType::Float32 && ulps > 0 ? 2e-45 : 0)
                               : error;
    if (std::isnan(v.error)) v.error = kInf;
    // An overflow that a rounding decides.
    if (t == DType::Float32 && ulps > 0 && std::abs(x) > 3.3e38 && std::isfinite(x) &&
        error + ulps > 1)
        v.error = kInf;
    return v;
}

Value whole(std::int64_t x, bool known, DType t) {
    Value v;
    v.i = wrap(x, t);
    v.error = known ? 0 : kInf;
    return v;
}

std::int64_t saturate(double x, DType t) {
    if (std::isnan(x)) return 0;
    const double low = t == DType::Int32 ? -0x1p31 : -0x1p63;
    if (x <= low)
        return t == DType::Int32 ? std::numeric_limits<std::int32_t>::min()
                                 : std::numeric_limits<std::int64_t>::min();
    if (x >= -low)
        return t == DType::Int32 ? std::numeric_limits<std::int32_t>::max()
                                 : std::numeric_limits<std::int64_t>::max();
    return static_cast<std::int64_t>(x);
}

double round_half(double x, DType t) {
    if (t == DType::BFloat16) return static_cast<float>(BFloat(static_cast<float>(x)));
    return static_cast<float>(Half(static_cast<float>(x)));
}

// The largest change of a value rounded to a half type, where it is uncertain itself.
double half_step(double x, DType t) {
    return t == DType::BFloat16 ? std::abs(x) * 0x1p-7 + 1e-40 : std::abs(x) * 0x1p-10 + 0x1p-24;
}

Value convert(const Value& v, DType from, DType to) {
    const bool known = v.error == 0;
    if (to == DType::Bool) {
        if (is_floating(from))
            return whole(std::isnan(v.f) || v.f != 0, known || std::abs(v.f) > v.error, to);
        return whole(v.i != 0, known, to);
    }
    if (!is_floating(to)) {
        if (!is_floating(from))
            return whole(to == DType::UInt8 ? v.i & 255 : v.i, known, register_type(to));
        const bool sure =
            known || (std::isfinite(v.f) && std::trunc(v.f - v.error) == std::trunc(v.f + v.error));
        if (to == DType::UInt8) return whole(saturate(v.f, DType::Int64) & 255, sure, DType::Int32);
        return whole(saturate(v.f, to), sure, to);
    }
    const double x = is_floating(from) ? v.f : static_cast<double>(v.i);
    const double error = is_floating(from) ? v.error : (known ? 0 : kInf);
    if (is_half(to)) {
        const double r = round_half(x, to);
        Value h = floating(r, 0, DType::Float32, 0);
        if (error > 0) h.error = error + half_step(x, to);
        return h;
    }
    // An int64 that float32 rounds is rounded once by both.
    Value r;
    r.f = to == DType::Float32
              ? (is_floating(from) ? settle(x, to) : static_cast<double>(static_cast<float>(v.i)))
              : (is_floating(from) ? x : static_cast<double>(v.i));
    r.error = error > 0 ? error + unit(to) * std::abs(x) : 0;
    return r;
}

double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

struct Ulps {
    double f32, f64;
    double of(DType t) const { return t == DType::Float64 ? f64 : f32; }
};

Value unary(const Instr& i, const Value& a, DType from) {
    const DType t = register_type(i.type);
    if (i.op == Opcode::Cast) return convert(a, from, i.type);
    if (i.op == Opcode::CheckIndex) return a;
    if (i.op == Opcode::LogicalNot) {
        if (is_floating(from)) return whole(a.f == 0, a.error == 0 || std::abs(a.f) > a.error, t);
        return whole(a.i == 0, a.error == 0, t);
    }
    if (i.op == Opcode::IsNan)
        return whole(is_floating(from) && std::isnan(a.f), a.error < kInf, t);
    if (i.op == Opcode::IsFinite)
        return whole(!is_floating(from) || std::isfinite(a.f), a.error < kInf, t);
    if (!is_floating(t)) {
        const auto u = static_cast<std::uint64_t>(a.i);
        std::int64_t r = a.i;
        if (i.op == Opcode::Neg)
            r = static_cast<std::int64_t>(0 - u);
        else if (i.op == Opcode::Abs)
            r = a.i < 0 ? static_cast<std::int64_t>(0 - u) : a.i;
        else if (i.op == Opcode::Sign)
            r = (a.i > 0) - (a.i < 0);
        else if (i.op == Opcode::Relu)
            r = std::max<std::int64_t>(a.i, 0);
        return whole(r, a.error == 0, t);
    }
    const double x = a.f, e = a.error;
    // f(x) with a bound for |f'| over the uncertainty, from both ends
    const auto smooth = [&](auto f, Ulps ulps) {
        const double r = f(x);
        double slack = 0;
        if (e > 0) slack = std::max(std::abs(f(x + e) - r), std::abs(f(x - e) - r));
        if (std::isnan(slack)) slack = kInf;
        return floating(r, slack, t, ulps.of(t));
    };
    const auto steps = [&](auto f) {
        const bool sure = e == 0 || f(x - e) == f(x + e);
        Value v = floating(f(x), 0, t, 0);
        if (!sure) v.error = kInf;
        return v;
    };
    switch (i.op) {
        case Opcode::Neg:
            return floating(-x, e, t, 0);
        case Opcode::Abs:
            return floating(std::abs(x), e, t, 0);
        case Opcode::Relu:
            return floating(x < 0 ? 0 : x, e, t, 0);
        case Opcode::Sign:
            return steps(sign_of);
        case Opcode::Floor:
            return steps([](double y) { return std::floor(y); });
        case Opcode::Ceil:
            return steps([](double y) { return std::ceil(y); });
        case Opcode::Round:
            return steps([](double y) { return std::nearbyint(y); });
        case Opcode::Exp:
            return smooth([](double y) { return std::exp(y); }, {2.5, 2});
        case Opcode::Log:
            return smooth([](double y) { return std::log(y); }, {2.5, 2});
        case Opcode::Sqrt:
            return smooth([](double y) { return std::sqrt(y); }, {1, 1});
        case Opcode::Rsqrt:
            return smooth([](double y) { return 1 / std::sqrt(y); }, {2, 2});
        case Opcode::Reciprocal:
            return smooth([](double y) { return 1 / y; }, {1, 1});
        case Opcode::Tanh:
            return smooth([](double y) { return std::tanh(y); }, {3.6, 2});
        case Opcode::Sigmoid:
            return smooth([](double y) { return 1 / (1 + std::exp(-y)); }, {3, 2});
        case Opcode::Erf:
            return smooth([](double y) { return std::erf(y); }, {4, 2});
        case Opcode::Sin: {
            Value v = floating(std::sin(x), e < kInf ? std::min(e, 2.0) : kInf, t, 2);
            v.error += std::isfinite(x) ? unit(t) * 0.1 : 0;
            return v;
        }
        case Opcode::Cos: {
            Value v = floating(std::cos(x), e < kInf ? std::min(e, 2.0) : kInf, t, 2);
            v.error += std::isfinite(x) ? unit(t) * 0.1 : 0;
            return v;
        }
        default:
            throw std::logic_error("oracle: unary");
    }
}

std::int64_t int_power(std::int64_t a, std::int64_t b, DType t) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    std::uint64_t r = 1, base = static_cast<std::uint64_t>(a);
    for (; b; b /= 2, base *= base)
        if (b % 2) r *= base;
    return wrap(static_cast<std::int64_t>(r), t);
}

std::int64_t int_binary(Opcode op, std::int64_t a, std::int64_t b, DType t) {
    const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
    switch (op) {
        case Opcode::Add:
            return t == DType::Bool ? a | b : static_cast<std::int64_t>(ua + ub);
        case Opcode::Sub:
            return static_cast<std::int64_t>(ua - ub);
        case Opcode::Mul:
            return static_cast<std::int64_t>(ua * ub);
        case Opcode::Div:
            return b == 0 ? 0 : b == -1 ? static_cast<std::int64_t>(0 - ua) : a / b;
        case Opcode::Remainder: {
            if (b == 0 || b == -1) return 0;
            const std::int64_t r = a % b;
            return r != 0 && (r < 0) != (b < 0) ? r + b : r;
        }
        case Opcode::Pow:
            return int_power(a, b, t);
        case Opcode::Maximum:
            return std::max(a, b);
        case Opcode::Minimum:
            return std::min(a, b);
        case Opcode::And:
            return a & b;
        case Opcode::Or:
            return a | b;
        case Opcode::Xor:
            return a ^ b;
        default:
            throw std::logic_error("oracle: integer binary");
    }
}

Value binary(const Instr& i, const Value& a, const Value& b, DType from) {
    const DType t = register_type(i.type);
    const bool known = a.error == 0 && b.error == 0;
    if (i.op >= Opcode::Eq && i.op <= Opcode::Le) {
        bool r;
        if (is_floating(from))
            r = i.op == Opcode::Eq   ? a.f == b.f
                : i.op == Opcode::Ne ? a.f != b.f
                : i.op == Opcode::Lt ? a.f < b.f
                                     : a.f <= b.f;
        else
            r = i.op == Opcode::Eq   ? a.i == b.i
                : i.op == Opcode::Ne ? a.i != b.i
                : i.op == Opcode::Lt ? a.i < b.i
                                     : a.i <= b.i;
        return whole(r, known || std::abs(a.f - b.f) > a.error + b.error, t);
    }
    if (!is_floating(t)) return whole(int_binary(i.op, a.i, b.i, t), known, t);
    const double x = a.f, y = b.f, ex = a.error, ey = b.error;
    const double ulps = known && i.op != Opcode::Pow ? 0.5 : 1;
    switch (i.op) {
        case Opcode::Add:
            return floating(x + y, ex + ey, t, ulps);
        case Opcode::Sub:
            return floating(x - y, ex + ey, t, ulps);
        case Opcode::Mul: {
            const auto term = [](double f, double e) { return e == 0 ? 0 : std::abs(f) * e; };
            return floating(x * y, term(x, ey) + term(y, ex) + term(ex, ey), t, ulps);
        }
        case Opcode::Div: {
            const double r = x / y;
            double slack = 0;
            if (!known)
                slack = std::abs(y) <= ey ? kInf : (ex + std::abs(r) * ey) / (std::abs(y) - ey);
            return floating(r, slack, t, ulps);
        }
        case Opcode::Pow: {
            const double r = std::pow(x, y);
            double slack = 0;
            if (!known)
                for (const double p : {x - ex, x + ex})
                    for (const double q : {y - ey, y + ey})
                        slack = std::max(slack, std::abs(std::pow(p, q) - r));
            if (!known && (!std::isfinite(slack) || (x < 0 && ey > 0))) slack = kInf;
            return floating(r, slack, t, 4);
        }
        case Opcode::Remainder: {
            double r = std::fmod(x, y);
            if (r != 0 && (r < 0) != (y < 0)) r += y;
            return floating(r, known ? 0 : kInf, t, 1);
        }
        case Opcode::Maximum:
        case Opcode::Minimum: {
            if (std::isnan(x) || std::isnan(y)) return floating(std::nan(""), 0, t, 0);
            return floating(i.op == Opcode::Maximum ? std::max(x, y) : std::min(x, y),
                            std::max(ex, ey), t, 0);
        }
        default:
            throw std::logic_error("oracle: binary");
    }
}

// ---- reductions ----

Value reduce(const Instr& i, const std::vector<Value>& v, DType from) {
    const DType t = register_type(i.type);
    double worst = 0;
    for (const auto& x : v)
        worst = std::max(worst, x.error);
    if (worst == kInf) {
        Value unknown;
        unknown.error = kInf;
        return unknown;
    }
    const bool fl = is_floating(from);
    switch (i.op) {
        case Opcode::ReduceSum:
        case Opcode::ReduceProd: {
            const bool sum = i.op == Opcode::ReduceSum;
            if (!fl) {
                std::uint64_t s = sum ? 0 : 1;
                for (const auto& x : v)
                    s = sum ? s + static_cast<std::uint64_t>(x.i)
                            : s * static_cast<std::uint64_t>(x.i);
                return whole(static_cast<std::int64_t>(s), true, t);
            }
            double s = sum ? 0 : 1, size = 0, error = 0, most = 1, least = 1;
            for (const auto& x : v) {
                s = sum ? s + x.f : s * x.f;
                size += std::abs(x.f);
                most *= std::max(1.0, std::abs(x.f));
                if (x.f != 0) least *= std::min(1.0, std::abs(x.f));
                error += sum ? x.error : x.f == 0 ? x.error : x.error / std::abs(x.f);
            }
            // A pairwise sum of blocks of 16 or so.
            const double rounds = sum ? 16 + std::log2(static_cast<double>(v.size()) + 1)
                                      : static_cast<double>(v.size()) + 1;
            Value r = floating(s, 0, t, 0);
            r.error =
                sum ? error + rounds * unit(t) * size
                    : (error + rounds * unit(t)) * std::abs(s) + (error > 0 && s == 0 ? kInf : 0);
            if (!std::isfinite(s)) r.error = std::isfinite(size) && error > 0 ? kInf : 0;
            // In another order a product may pass through infinity or the smallest numbers.
            const double limit = t == DType::Float32 ? 1e37 : 1e300;
            if (!sum && !(most < limit && least > 1 / limit)) r.error = kInf;
            return r;
        }
        case Opcode::ReduceM2: {
            double mean = 0, m2 = 0, size = 0, error = 0;
            for (const auto& x : v)
                mean += x.f, size = std::max(size, std::abs(x.f));
            mean /= std::max<double>(1, static_cast<double>(v.size()));
            for (const auto& x : v) {
                const double d = x.f - mean;
                m2 += d * d;
                const double e = 2 * x.error + 4 * worst + 8 * unit(t) * size;
                error += 2 * std::abs(d) * e + e * e;
            }
            Value r = floating(m2, error, t, 32);
            return r;
        }
        default:
            break;
    }
    const bool maximum = i.op == Opcode::ReduceMax || i.op == Opcode::ReduceArgMax;
    const bool arg = i.op == Opcode::ReduceArgMax || i.op == Opcode::ReduceArgMin;
    std::size_t best = 0;
    bool found = false, nan = false;
    for (std::size_t k = 0; k < v.size(); ++k) {
        if (fl && std::isnan(v[k].f)) {
            best = k;
            nan = found = true;
            break;
        }
        const bool better = fl ? (maximum ? v[k].f > v[best].f : v[k].f < v[best].f)
                               : (maximum ? v[k].i > v[best].i : v[k].i < v[best].i);
        if (!found || better) best = k;
        found = true;
    }
    if (arg) {
        bool sure = true;
        if (worst > 0 && !nan)
            for (std::size_t k = 0; k < v.size(); ++k)
                sure = sure && (k == best || std::abs(v[k].f - v[best].f) > 2 * worst);
        return whole(static_cast<std::int64_t>(best), sure, DType::Int64);
    }
    if (!found) {
        if (fl) return floating(maximum ? -kInf : kInf, 0, t, 0);
        const std::int64_t low = t == DType::Bool    ? 0
                                 : t == DType::Int32 ? std::numeric_limits<std::int32_t>::min()
                                                     : std::numeric_limits<std::int64_t>::min();
        const std::int64_t high = t == DType::Bool    ? 1
                                  : t == DType::Int32 ? std::numeric_limits<std::int32_t>::max()
                                                      : std::numeric_limits<std::int64_t>::max();
        return whole(maximum ? low : high, true, t);
    }
    Value r = v[best];
    if (fl) r.error = worst;
    return r;
}

// ---- a whole program ----

class Interpreter {
  public:
    Interpreter(const Program& p, const std::vector<Buffer>& buffers,
                const std::vector<std::uint64_t>& scalars)
        : p_(p), buffers_(buffers), scalars_(scalars), values_(p.body.size()) {}

    std::vector<Expected> run() {
        const std::int64_t outer = p_.outer(), inner = p_.inner();
        kept_is_outer_ = p_.form != Form::ColReduce;
        kept_ = p_.form == Form::Map ? 0 : kept_is_outer_ ? outer : inner;
        for (std::size_t n = 0; n < p_.body.size(); ++n) {
            const Instr& i = p_.body[n];
            if (plan::is_reduction(i.op)) {
                for (std::int64_t k = 0; k < kept_; ++k) {
                    std::vector<Value> column;
                    const std::int64_t m = kept_is_outer_ ? inner : outer;
                    for (std::int64_t r = 0; r < m; ++r)
                        column.push_back(get(i.a, kept_is_outer_ ? k * inner + r : r * inner + k));
                    values_[n].push_back(reduce(i, column, type(i.a)));
                }
                continue;
            }
            const std::int64_t points = i.kept ? kept_ : outer * inner;
            for (std::int64_t k = 0; k < points; ++k)
                evaluate(n, i, k);
        }
        return out_;
    }

  private:
    DType type(std::int32_t v) const {
        return register_type(p_.body[static_cast<std::size_t>(v)].type);
    }
    bool is_kept(std::int32_t v) const {
        const Instr& i = p_.body[static_cast<std::size_t>(v)];
        return i.kept || plan::is_reduction(i.op);
    }
    // The value of v at point `k` of the full space.
    const Value& get(std::int32_t v, std::int64_t k) const {
        const auto& list = values_[static_cast<std::size_t>(v)];
        if (!is_kept(v)) return list[static_cast<std::size_t>(k)];
        const std::int64_t inner = p_.inner();
        return list[static_cast<std::size_t>(kept_is_outer_ ? k / inner : k % inner)];
    }

    std::int64_t element(std::int32_t access, std::int64_t k, bool kept) const {
        const auto& a = p_.accesses[static_cast<std::size_t>(access)];
        int begin = 0, end = p_.rank;
        if (kept && kept_is_outer_) end = p_.split;
        if (kept && !kept_is_outer_) begin = p_.split;
        std::int64_t at = a.offset;
        for (int d = end; d-- > begin;) {
            const auto e = p_.extents[static_cast<std::size_t>(d)];
            at += a.strides[static_cast<std::size_t>(d)] * (k % e);
            k /= e;
        }
        return at;
    }

    void evaluate(std::size_t n, const Instr& i, std::int64_t k) {
        const DType t = register_type(i.type);
        const auto operand = [&](std::int32_t v) -> const Value& {
            return i.kept ? values_[static_cast<std::size_t>(v)][static_cast<std::size_t>(k)]
                          : get(v, k);
        };
        Value r;
        switch (i.op) {
            case Opcode::Load: {
                const DType memory = p_.accesses[static_cast<std::size_t>(i.aux)].dtype;
                const auto at = element(i.aux, k, i.kept);
                Value raw;
                const auto& buffer = buffers_[static_cast<std::size_t>(i.aux)];
                if (is_floating(memory))
                    raw.f = read_float(buffer, at, memory);
                else
                    raw.i = read_int(buffer, at, memory);
                r = convert(raw, register_type(memory), t);
                break;
            }
            case Opcode::Const:
                r.f = settle(i.imm, t);
                r.i = t == DType::Bool ? i.int_imm != 0 || i.imm != 0 : wrap(i.int_imm, t);
                break;
            case Opcode::Scalar: {
                const std::uint64_t bits = scalars_[static_cast<std::size_t>(i.aux)];
                std::memcpy(&r.f, &bits, 8);
                r.i = wrap(static_cast<std::int64_t>(bits), t);
                r.f = settle(r.f, t);
                break;
            }
            case Opcode::Iota:
                r.i = element(i.aux, k, i.kept);
                break;
            case Opcode::RandomBits:
            case Opcode::RandomUniform: {
                const auto at = static_cast<std::size_t>(i.aux);
                const std::uint32_t word = philox_word(scalars_[at], scalars_[at + 1],
                                                       static_cast<std::uint64_t>(operand(i.a).i));
                r.i = word;
                r.f = static_cast<double>(word >> 8) * 0x1p-24;
                break;
            }
            case Opcode::Select: {
                const Value& c = operand(i.a);
                r = c.i ? operand(i.b) : operand(i.c);
                if (c.error > 0) r.error = kInf;
                break;
            }
            case Opcode::Fma: {
                Instr part = i;
                part.op = Opcode::Mul;
                Value product = binary(part, operand(i.a), operand(i.b), t);
                part.op = Opcode::Add;
                r = binary(part, product, operand(i.c), t);
                // One rounding or two decide whether this overflows.
                if (t == DType::Float32 && std::isinf(product.f)) r.error = kInf;
                break;
            }
            case Opcode::Store: {
                const DType memory = p_.accesses[static_cast<std::size_t>(i.aux)].dtype;
                Value v = operand(i.a);
                if (register_type(memory) != t || half_or_uint8(memory))
                    v = convert(v, type(i.a), memory);
                out_.push_back(
                    {static_cast<std::size_t>(i.aux), element(i.aux, k, i.kept), memory, v});
                break;
            }
            default:
                if (i.b >= 0)
                    r = binary(i, operand(i.a), operand(i.b), type(i.a));
                else
                    r = unary(i, operand(i.a), type(i.a));
                // What may be anything may be NaN, too.
                if (operand(i.a).error == kInf || (i.b >= 0 && operand(i.b).error == kInf))
                    r.error = kInf;
        }
        values_[n].push_back(r);
    }

    const Program& p_;
    const std::vector<Buffer>& buffers_;
    const std::vector<std::uint64_t>& scalars_;
    std::vector<std::vector<Value>> values_;
    std::vector<Expected> out_;
    std::int64_t kept_ = 0;
    bool kept_is_outer_ = true;
};

template <class T>
T read_as(const Buffer& buffer, std::int64_t element) {
    T x;
    std::memcpy(&x, buffer.data() + element * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return x;
}

template <class T>
void write_as(Buffer& buffer, std::int64_t element, T x) {
    std::memcpy(buffer.data() + element * static_cast<std::int64_t>(sizeof(T)), &x, sizeof(T));
}

}  // namespace

std::vector<Expected> interpret(const Program& program, const std::vector<Buffer>& buffers,
                                const std::vector<std::uint64_t>& scalars) {
    return Interpreter(program, buffers, scalars).run();
}

double read_float(const Buffer& b, std::int64_t e, DType t) {
    switch (t) {
        case DType::Float16:
            return static_cast<float>(read_as<Half>(b, e));
        case DType::BFloat16:
            return static_cast<float>(read_as<BFloat>(b, e));
        case DType::Float32:
            return read_as<float>(b, e);
        case DType::Float64:
            return read_as<double>(b, e);
        default:
            return static_cast<double>(read_int(b, e, t));
    }
}

std::int64_t read_int(const Buffer& b, std::int64_t e, DType t) {
    switch (t) {
        case DType::Bool:
        case DType::UInt8:
            return read_as<std::uint8_t>(b, e);
        case DType::Int32:
            return read_as<std::int32_t>(b, e);
        case DType::Int64:
            return read_as<std::int64_t>(b, e);
        default:
            throw std::logic_error("oracle: read_int");
    }
}

void write_value(Buffer& b, std::int64_t e, DType t, double x) {
    switch (t) {
        case DType::Bool:
            return write_as<std::uint8_t>(b, e, x != 0);
        case DType::UInt8:
            return write_as(b, e, static_cast<std::uint8_t>(static_cast<std::int64_t>(x)));
        case DType::Int32:
            return write_as(b, e, static_cast<std::int32_t>(x));
        case DType::Int64:
            return write_as(b, e, static_cast<std::int64_t>(x));
        case DType::Float16:
            return write_as(b, e, Half(static_cast<float>(x)));
        case DType::BFloat16:
            return write_as(b, e, BFloat(static_cast<float>(x)));
        case DType::Float32:
            return write_as(b, e, static_cast<float>(x));
        case DType::Float64:
            return write_as(b, e, x);
    }
}

std::string compare(const Expected& x, const Buffer& buffer) {
    if (x.value.error == kInf) return {};
    std::ostringstream out;
    out.precision(9);
    if (is_floating(x.dtype)) {
        const double got = read_float(buffer, x.element, x.dtype);
        if (std::isnan(x.value.f) ? std::isnan(got) : got == x.value.f) return {};
        if (std::abs(got - x.value.f) <= 1.05 * x.value.error) return {};
        out << "expected " << x.value.f << " +- " << x.value.error << ", got " << got;
    } else {
        const std::int64_t got = read_int(buffer, x.element, x.dtype);
        if (got == x.value.i) return {};
        out << "expected " << x.value.i << ", got " << got;
    }
    out << " at element " << x.element << " of access " << x.access;
    return out.str();
}

std::uint32_t philox_word(std::uint64_t key, std::uint64_t stream, std::uint64_t index) {
    const std::uint64_t block = index / 4;
    std::uint32_t c[4] = {
        static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
        static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)};
    auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0],
                            p1 = std::uint64_t{0xCD9E8D57} * c[2];
        const std::uint32_t next[4] = {
            static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
            static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
        std::copy(next, next + 4, c);
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    return c[index % 4];
}

}  // namespace pippin::programs
