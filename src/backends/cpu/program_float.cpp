// float32 arithmetic on blocks.
#include "backends/cpu/vec_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/program_float.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/program_functions.h"
#include "backends/cpu/vec_loops.h"
#include "backends/cpu/vec_math.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu::HWY_NAMESPACE {
namespace {

#define PIPPIN_OP1(Name, expression)                               \
    struct Name {                                                  \
        template <class D, class V>                                \
        HWY_INLINE V operator()([[maybe_unused]] D d, V a) const { \
            return expression;                                     \
        }                                                          \
    }
#define PIPPIN_OP2(Name, expression)                                    \
    struct Name {                                                       \
        template <class D, class V>                                     \
        HWY_INLINE V operator()([[maybe_unused]] D d, V a, V b) const { \
            return expression;                                          \
        }                                                               \
    }

PIPPIN_OP1(NegOp, hn::Neg(a));
PIPPIN_OP1(AbsOp, hn::Abs(a));
// sign of NaN is NaN's own comparison result in PyTorch: zero
PIPPIN_OP1(SignOp, hn::Sub(hn::IfThenElseZero(hn::Gt(a, hn::Zero(d)), hn::Set(d, 1.0f)),
                           hn::IfThenElseZero(hn::Lt(a, hn::Zero(d)), hn::Set(d, 1.0f))));
PIPPIN_OP1(ExpOp, vec_exp(d, a));
PIPPIN_OP1(LogOp, vec_log(d, a));
PIPPIN_OP1(SqrtOp, hn::Sqrt(a));
PIPPIN_OP1(RsqrtOp, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(a)));
PIPPIN_OP1(ReciprocalOp, hn::Div(hn::Set(d, 1.0f), a));
PIPPIN_OP1(TanhOp, vec_tanh(d, a));
PIPPIN_OP1(SigmoidOp, vec_sigmoid(d, a));
PIPPIN_OP1(ErfOp, vec_erf(d, a));
PIPPIN_OP1(SinOp, (vec_sin<0>(d, a)));
PIPPIN_OP1(CosOp, (vec_sin<1>(d, a)));
PIPPIN_OP1(FloorOp, hn::Floor(a));
PIPPIN_OP1(CeilOp, hn::Ceil(a));
PIPPIN_OP1(RoundOp, hn::Round(a));
PIPPIN_OP1(ReluOp, hn::IfThenElse(hn::Lt(a, hn::Zero(d)), hn::Zero(d), a));
PIPPIN_OP1(CubeOp, hn::Mul(hn::Mul(a, a), a));
// C's pow(a, 0.5): +0 for -0 and inf for -inf
PIPPIN_OP1(PowHalfOp, hn::IfThenElse(hn::Eq(a, hn::Set(d, -std::numeric_limits<float>::infinity())),
                                     hn::Set(d, std::numeric_limits<float>::infinity()),
                                     hn::Sqrt(hn::Add(a, hn::Zero(d)))));

PIPPIN_OP2(AddOp, hn::Add(a, b));
PIPPIN_OP2(SubOp, hn::Sub(a, b));
PIPPIN_OP2(MulOp, hn::Mul(a, b));
PIPPIN_OP2(DivOp, hn::Div(a, b));
PIPPIN_OP2(MaximumOp, hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b));
PIPPIN_OP2(MinimumOp, hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b));

struct FmaOp {
    template <class D, class V>
    HWY_INLINE V operator()(D, V a, V b, V c) const {
        return hn::MulAdd(a, b, c);
    }
};

template <class Op>
Fn two(unsigned scalars) {
    if (scalars == 0) return &vector2<Op, float, 0>;
    if (scalars == 1) return &vector2<Op, float, 1>;
    if (scalars == 2) return &vector2<Op, float, 2>;
    return nullptr;
}

Fn find(plan::Opcode op, unsigned scalars) {
    using O = plan::Opcode;
    switch (op) {
        case O::Add:
            return two<AddOp>(scalars);
        case O::Sub:
            return two<SubOp>(scalars);
        case O::Mul:
            return two<MulOp>(scalars);
        case O::Div:
            return two<DivOp>(scalars);
        case O::Maximum:
            return two<MaximumOp>(scalars);
        case O::Minimum:
            return two<MinimumOp>(scalars);
        case O::Fma:
            if (scalars == 0) return &vector3<FmaOp, float, 0>;
            if (scalars == 2) return &vector3<FmaOp, float, 2>;
            if (scalars == 4) return &vector3<FmaOp, float, 4>;
            if (scalars == 6) return &vector3<FmaOp, float, 6>;
            return nullptr;
        default:
            break;
    }
    if (scalars) return nullptr;
    switch (op) {
        case O::Neg:
            return &vector1<NegOp, float>;
        case O::Abs:
            return &vector1<AbsOp, float>;
        case O::Sign:
            return &vector1<SignOp, float>;
        case O::Exp:
            return &vector1<ExpOp, float>;
        case O::Log:
            return &vector1<LogOp, float>;
        case O::Sqrt:
            return &vector1<SqrtOp, float>;
        case O::Rsqrt:
            return &vector1<RsqrtOp, float>;
        case O::Reciprocal:
            return &vector1<ReciprocalOp, float>;
        case O::Tanh:
            return &vector1<TanhOp, float>;
        case O::Sigmoid:
            return &vector1<SigmoidOp, float>;
        case O::Erf:
            return &vector1<ErfOp, float>;
        case O::Sin:
            return &vector1<SinOp, float>;
        case O::Cos:
            return &vector1<CosOp, float>;
        case O::Floor:
            return &vector1<FloorOp, float>;
        case O::Ceil:
            return &vector1<CeilOp, float>;
        case O::Round:
            return &vector1<RoundOp, float>;
        case O::Relu:
            return &vector1<ReluOp, float>;
        default:
            return nullptr;
    }
}

Fn extra(Extra op) {
    return op == Extra::Cube ? &vector1<CubeOp, float> : &vector1<PowHalfOp, float>;
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pippin::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pippin::cpu {
namespace {
HWY_EXPORT(find);
HWY_EXPORT(extra);
double pow_half(double x) { return std::pow(x, 0.5); }
void pow_half64(void* out, const void* a, const void*, const void*, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
        static_cast<double*>(out)[i] = pow_half(static_cast<const double*>(a)[i]);
}
void cube64(void* out, const void* a, const void*, const void*, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const double x = static_cast<const double*>(a)[i];
        static_cast<double*>(out)[i] = x * x * x;
    }
}
}  // namespace

Fn find_float32(plan::Opcode op, unsigned scalars) {
    return HWY_DYNAMIC_DISPATCH(find)(op, scalars);
}

Fn find_extra(Extra op, Reg type) {
    if (type == Reg::Float32) return HWY_DYNAMIC_DISPATCH(extra)(op);
    if (type == Reg::Float64) return op == Extra::Cube ? &cube64 : &pow_half64;
    return nullptr;
}

}  // namespace pippin::cpu
#endif
