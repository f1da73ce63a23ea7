// Plain loops for what is not float32 arithmetic: integers, booleans, doubles, comparisons,
// selection, powers. Compilers vectorise most of them for each instruction set.
#include "backends/cpu/vec_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/program_other.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/cpu/program_functions.h"
#include "backends/cpu/vec_loops.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu::HWY_NAMESPACE {
namespace {

using Byte = std::uint8_t;  // a Bool, 0 or 1
template <class T>
constexpr bool kFloat = std::is_floating_point_v<T>;
template <class T>
constexpr bool kByte = std::is_same_v<T, Byte>;

// Signed overflow wraps.
template <class T>
struct Wrapping {
    using type = std::make_unsigned_t<T>;
};
template <>
struct Wrapping<float> {
    using type = float;
};
template <>
struct Wrapping<double> {
    using type = double;
};
template <class T>
using W = typename Wrapping<T>::type;

#define PIPPIN_RUN1(Name, expression)     \
    struct Name {                         \
        template <class T>                \
        HWY_INLINE static auto run(T a) { \
            return expression;            \
        }                                 \
    }
#define PIPPIN_RUN2(Name, expression)          \
    struct Name {                              \
        template <class T>                     \
        HWY_INLINE static auto run(T a, T b) { \
            return expression;                 \
        }                                      \
    }

PIPPIN_RUN1(NegOp, static_cast<T>(W<T>{} - static_cast<W<T>>(a)));
struct NegFloatOp {
    template <class T>
    HWY_INLINE static T run(T a) {
        return -a;
    }
};
PIPPIN_RUN1(AbsOp, a < T{} ? static_cast<T>(W<T>{} - static_cast<W<T>>(a)) : a);
PIPPIN_RUN1(AbsFloatOp, std::abs(a));
PIPPIN_RUN1(SignOp, static_cast<T>((a > T{}) - (a < T{})));
PIPPIN_RUN1(ExpOp, std::exp(a));
PIPPIN_RUN1(LogOp, std::log(a));
PIPPIN_RUN1(SqrtOp, std::sqrt(a));
PIPPIN_RUN1(RsqrtOp, T{1} / std::sqrt(a));
PIPPIN_RUN1(ReciprocalOp, T{1} / a);
PIPPIN_RUN1(TanhOp, std::tanh(a));
PIPPIN_RUN1(ErfOp, std::erf(a));
PIPPIN_RUN1(SinOp, std::sin(a));
PIPPIN_RUN1(CosOp, std::cos(a));
PIPPIN_RUN1(FloorOp, std::floor(a));
PIPPIN_RUN1(CeilOp, std::ceil(a));
PIPPIN_RUN1(RoundOp, std::nearbyint(a));
PIPPIN_RUN1(ReluOp, a < T{} ? T{} : a);
PIPPIN_RUN1(SameOp, a);
PIPPIN_RUN1(NotOp, static_cast<Byte>(a == T{}));
PIPPIN_RUN1(IsNanOp, static_cast<Byte>(a != a));
PIPPIN_RUN1(IsFiniteOp, static_cast<Byte>(std::abs(a) <= std::numeric_limits<T>::max()));
PIPPIN_RUN1(FalseOp, static_cast<Byte>((void(a), 0)));
PIPPIN_RUN1(TrueOp, static_cast<Byte>((void(a), 1)));
struct SigmoidOp {
    template <class T>
    HWY_INLINE static T run(T a) {
        const T e = std::exp(-std::abs(a));
        return (a < T{} ? e : T{1}) / (T{1} + e);
    }
};

PIPPIN_RUN2(AddOp, static_cast<T>(static_cast<W<T>>(a) + static_cast<W<T>>(b)));
PIPPIN_RUN2(SubOp, static_cast<T>(static_cast<W<T>>(a) - static_cast<W<T>>(b)));
PIPPIN_RUN2(MulOp, static_cast<T>(static_cast<W<T>>(a) * static_cast<W<T>>(b)));
PIPPIN_RUN2(MaximumOp, ((a > b) | (a != a)) ? a : b);
PIPPIN_RUN2(MinimumOp, ((a < b) | (a != a)) ? a : b);
PIPPIN_RUN2(EqOp, static_cast<Byte>(a == b));
PIPPIN_RUN2(NeOp, static_cast<Byte>(a != b));
PIPPIN_RUN2(LtOp, static_cast<Byte>(a < b));
PIPPIN_RUN2(LeOp, static_cast<Byte>(a <= b));
PIPPIN_RUN2(AndOp, static_cast<T>(a& b));
PIPPIN_RUN2(OrOp, static_cast<T>(a | b));
PIPPIN_RUN2(XorOp, static_cast<T>(a ^ b));
PIPPIN_RUN2(DivFloatOp, a / b);

// Truncates; zero where C has no answer.
struct DivOp {
    template <class T>
    HWY_INLINE static T run(T a, T b) {
        if (b == 0) return 0;
        if (b == -1) return NegOp::run(a);
        return static_cast<T>(a / b);
    }
};
// The divisor's sign, as Python and PyTorch have it.
struct RemainderOp {
    template <class T>
    HWY_INLINE static T run(T a, T b) {
        if constexpr (kFloat<T>) {
            T r = std::fmod(a, b);
            if (r != T{} && ((r < T{}) != (b < T{}))) r += b;
            return r;
        } else {
            if (b == 0 || b == -1) return 0;
            const T r = static_cast<T>(a % b);
            return static_cast<T>(r != 0 && ((r < 0) != (b < 0)) ? r + b : r);
        }
    }
};
struct PowOp {
    template <class T>
    HWY_INLINE static T run(T a, T b) {
        if constexpr (kFloat<T>) {
            return std::pow(a, b);
        } else {
            // A negative power of a whole number is whole only for 1 and -1.
            if (b < 0) return static_cast<T>(a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0);
            W<T> result = 1, base = static_cast<W<T>>(a);
            for (; b > 0; b >>= 1) {
                if (b & 1) result *= base;
                base *= base;
            }
            return static_cast<T>(result);
        }
    }
};

template <class T, unsigned kScalars>
void select(void* out, const void* pa, const void* pb, const void* pc, std::size_t n) {
    auto* o = static_cast<T*>(out);
    const auto* a = static_cast<const Byte*>(pa);
    const auto* b = static_cast<const T*>(pb);
    const auto* c = static_cast<const T*>(pc);
    constexpr bool sb = (kScalars & 2) != 0, sc = (kScalars & 4) != 0;
    const T vb = *b, vc = *c;
    for (std::size_t i = 0; i < n; ++i) {
        const T x = sb ? vb : b[i], y = sc ? vc : c[i];
        o[i] = a[i] ? x : y;
    }
}

template <class T, unsigned kScalars>
void fma(void* out, const void* pa, const void* pb, const void* pc, std::size_t n) {
    auto* o = static_cast<T*>(out);
    const auto* a = static_cast<const T*>(pa);
    const auto* b = static_cast<const T*>(pb);
    const auto* c = static_cast<const T*>(pc);
    constexpr bool sb = (kScalars & 2) != 0, sc = (kScalars & 4) != 0;
    const T vb = *b, vc = *c;
    for (std::size_t i = 0; i < n; ++i)
        o[i] = AddOp::run(MulOp::run(a[i], sb ? vb : b[i]), sc ? vc : c[i]);
}

template <class Op, class O, class T>
Fn two(unsigned scalars) {
    if (scalars == 0) return &plain2<Op, O, T, 0>;
    if (scalars == 1) return &plain2<Op, O, T, 1>;
    if (scalars == 2) return &plain2<Op, O, T, 2>;
    return nullptr;
}

template <class T>
Fn find_binary(plan::Opcode op, unsigned scalars) {
    using O = plan::Opcode;
    switch (op) {
        case O::Maximum:
            return two<MaximumOp, T, T>(scalars);
        case O::Minimum:
            return two<MinimumOp, T, T>(scalars);
        case O::Eq:
            return two<EqOp, Byte, T>(scalars);
        case O::Ne:
            return two<NeOp, Byte, T>(scalars);
        case O::Lt:
            return two<LtOp, Byte, T>(scalars);
        case O::Le:
            return two<LeOp, Byte, T>(scalars);
        default:
            break;
    }
    if constexpr (kByte<T>) {
        // PyTorch's sums and products of booleans are their disjunction and conjunction.
        if (op == O::Add) return two<OrOp, T, T>(scalars);
        if (op == O::Mul) return two<AndOp, T, T>(scalars);
    } else {
        if (op == O::Add) return two<AddOp, T, T>(scalars);
        if (op == O::Sub) return two<SubOp, T, T>(scalars);
        if (op == O::Mul) return two<MulOp, T, T>(scalars);
        if (op == O::Pow) return two<PowOp, T, T>(scalars);
        if (op == O::Remainder) return two<RemainderOp, T, T>(scalars);
        if constexpr (kFloat<T>) {
            if (op == O::Div) return two<DivFloatOp, T, T>(scalars);
        } else {
            if (op == O::Div) return two<DivOp, T, T>(scalars);
        }
    }
    if constexpr (!kFloat<T>) {
        if (op == O::And) return two<AndOp, T, T>(scalars);
        if (op == O::Or) return two<OrOp, T, T>(scalars);
        if (op == O::Xor) return two<XorOp, T, T>(scalars);
    }
    return nullptr;
}

template <class T>
Fn find_unary(plan::Opcode op) {
    using O = plan::Opcode;
    if (op == O::LogicalNot) return &plain1<NotOp, Byte, T>;
    if (op == O::Relu) return &plain1<ReluOp, T, T>;
    if (op == O::Sign) return &plain1<SignOp, T, T>;
    if constexpr (kFloat<T>) {
        switch (op) {
            case O::Neg:
                return &plain1<NegFloatOp, T, T>;
            case O::Abs:
                return &plain1<AbsFloatOp, T, T>;
            case O::Exp:
                return &plain1<ExpOp, T, T>;
            case O::Log:
                return &plain1<LogOp, T, T>;
            case O::Sqrt:
                return &plain1<SqrtOp, T, T>;
            case O::Rsqrt:
                return &plain1<RsqrtOp, T, T>;
            case O::Reciprocal:
                return &plain1<ReciprocalOp, T, T>;
            case O::Tanh:
                return &plain1<TanhOp, T, T>;
            case O::Sigmoid:
                return &plain1<SigmoidOp, T, T>;
            case O::Erf:
                return &plain1<ErfOp, T, T>;
            case O::Sin:
                return &plain1<SinOp, T, T>;
            case O::Cos:
                return &plain1<CosOp, T, T>;
            case O::Floor:
                return &plain1<FloorOp, T, T>;
            case O::Ceil:
                return &plain1<CeilOp, T, T>;
            case O::Round:
                return &plain1<RoundOp, T, T>;
            case O::IsNan:
                return &plain1<IsNanOp, Byte, T>;
            case O::IsFinite:
                return &plain1<IsFiniteOp, Byte, T>;
            default:
                return nullptr;
        }
    } else {
        switch (op) {
            case O::Neg:
                return kByte<T> ? nullptr : &plain1<NegOp, T, T>;
            case O::Abs:
                return kByte<T> ? &plain1<SameOp, T, T> : &plain1<AbsOp, T, T>;
            case O::Floor:
            case O::Ceil:
            case O::Round:
                return &plain1<SameOp, T, T>;
            case O::IsNan:
                return &plain1<FalseOp, Byte, T>;
            case O::IsFinite:
                return &plain1<TrueOp, Byte, T>;
            default:
                return nullptr;
        }
    }
}

template <class T>
Fn find_typed(plan::Opcode op, unsigned scalars) {
    using O = plan::Opcode;
    if (op == O::Select) {
        if (scalars == 0) return &select<T, 0>;
        if (scalars == 2) return &select<T, 2>;
        if (scalars == 4) return &select<T, 4>;
        if (scalars == 6) return &select<T, 6>;
        return nullptr;
    }
    if constexpr (!kByte<T>) {
        if (op == O::Fma) {
            if (scalars == 0) return &fma<T, 0>;
            if (scalars == 2) return &fma<T, 2>;
            if (scalars == 4) return &fma<T, 4>;
            if (scalars == 6) return &fma<T, 6>;
            return nullptr;
        }
    }
    if (Fn f = find_binary<T>(op, scalars)) return f;
    return scalars ? nullptr : find_unary<T>(op);
}

Fn find(plan::Opcode op, Reg type, unsigned scalars) {
    switch (type) {
        case Reg::Bool:
            return find_typed<Byte>(op, scalars);
        case Reg::Int32:
            return find_typed<std::int32_t>(op, scalars);
        case Reg::Int64:
            return find_typed<std::int64_t>(op, scalars);
        case Reg::Float32:
            return find_typed<float>(op, scalars);
        case Reg::Float64:
            return find_typed<double>(op, scalars);
    }
    return nullptr;
}

template <class T>
std::int64_t outside(const T* a, std::size_t n, std::int64_t low, std::int64_t high,
                     std::int64_t also) {
    // All in one go first: bad values are rare.
    bool bad = false;
    for (std::size_t i = 0; i < n; ++i)
        bad |= ((a[i] < low) | (a[i] >= high)) & (a[i] != also);
    if (!bad) return -1;
    for (std::size_t i = 0;; ++i)
        if ((a[i] < low || a[i] >= high) && a[i] != also) return static_cast<std::int64_t>(i);
}

std::int64_t check(const void* a, Reg type, std::size_t n, std::int64_t low, std::int64_t high,
                   std::int64_t also) {
    if (type == Reg::Int64) return outside(static_cast<const std::int64_t*>(a), n, low, high, also);
    return outside(static_cast<const std::int32_t*>(a), n, low, high, also);
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pippin::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pippin::cpu {
namespace {
HWY_EXPORT(find);
HWY_EXPORT(check);
}  // namespace

Fn find_other(plan::Opcode op, Reg type, unsigned scalars) {
    return HWY_DYNAMIC_DISPATCH(find)(op, type, scalars);
}

std::int64_t find_outside(const void* a, Reg type, std::size_t n, std::int64_t low,
                          std::int64_t high, std::int64_t also) {
    return HWY_DYNAMIC_DISPATCH(check)(a, type, n, low, high, also);
}

}  // namespace pippin::cpu
#endif
