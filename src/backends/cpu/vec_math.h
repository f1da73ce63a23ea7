// float32 functions on vectors. Polynomials and rationals are minimax fits of this project's own,
// or Cephes' (S. Moshier) where named; errors are measured in tests/programs.

// Included once per instruction set, hence no #pragma once.
#if defined(PIPPIN_CPU_VEC_MATH_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PIPPIN_CPU_VEC_MATH_H
#undef PIPPIN_CPU_VEC_MATH_H
#else
#define PIPPIN_CPU_VEC_MATH_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// On x86 a minimum or maximum gives its second operand when either is NaN, which the functions
// below rely on; elsewhere NaN is put back at the end.
template <class V>
HWY_INLINE V keep_nan(V x, V result) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
    (void)x;
    return result;
#else
    return hn::IfThenElse(hn::IsNaN(x), x, result);
#endif
}

template <class D, class V>
HWY_INLINE V clamp_to(D d, V x, float low, float high) {
    return hn::Min(hn::Set(d, high), hn::Max(hn::Set(d, low), x));
}

// c[0] + c[1] x + ... by Horner's rule
template <class D, class V, std::size_t N>
HWY_INLINE V polynomial(D d, V x, const float (&c)[N]) {
    V y = hn::Set(d, c[N - 1]);
    for (std::size_t i = N - 1; i-- > 0;)
        y = hn::MulAdd(y, x, hn::Set(d, c[i]));
    return y;
}

// p * 2^n for whole numbers n (given both as floats and integers), also where 2^n alone is no float
template <class D, class V, class I>
HWY_INLINE V scale_by_power(D d, V p, V n, I whole) {
#if HWY_TARGET == HWY_AVX3
    (void)d, (void)whole;
    return V{_mm512_scalef_ps(p.raw, n.raw)};
#else
    (void)n;
    const hn::RebindToSigned<D> di;
    const auto half = hn::ShiftRight<1>(whole);
    const auto bias = hn::Set(di, 127);
    const auto s1 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
    const auto s2 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
    return hn::Mul(hn::Mul(p, s1), s2);
#endif
}

// Adding this rounds to a whole number, which then sits in the lowest bits.
inline constexpr float kRounder = 12582912.0f;
inline constexpr std::int32_t kRounderBits = 0x4B400000;

// e^y for y in [-104, 89]
template <class D, class V>
HWY_INLINE V exp_within(D d, V y) {
    const hn::RebindToSigned<D> di;
    const V t = hn::MulAdd(y, hn::Set(d, 1.44269504f), hn::Set(d, kRounder));
    const V n = hn::Sub(t, hn::Set(d, kRounder));
    const auto whole = hn::Sub(hn::BitCast(di, t), hn::Set(di, kRounderBits));
    V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), y);
    r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
    // Cephes expf
    static constexpr float c[] = {5.0000001201e-1f, 1.6666665459e-1f, 4.1665795894e-2f,
                                  8.3334519073e-3f, 1.3981999507e-3f, 1.9875691500e-4f};
    const V q = hn::MulAdd(hn::Mul(r, r), polynomial(d, r, c), r);
    return scale_by_power(d, hn::Add(q, hn::Set(d, 1.0f)), n, whole);
}

template <class D, class V>
HWY_INLINE V vec_exp(D d, V x) {
    return keep_nan(x, exp_within(d, clamp_to(d, x, -104.0f, 89.0f)));
}

template <class D, class V>
HWY_INLINE V vec_log(D d, V x) {
    const hn::RebindToSigned<D> di;
    const auto tiny = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
    const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 8388608.0f)), x);
    // x = m * 2^e with m in [sqrt(1/2), sqrt(2))
    const auto root = hn::Set(di, 0x3F3504F3);
    const auto bits = hn::Sub(hn::BitCast(di, scaled), root);
    const V m = hn::BitCast(d, hn::Add(hn::And(bits, hn::Set(di, 0x007FFFFF)), root));
    V e = hn::ConvertTo(d, hn::ShiftRight<23>(bits));
    e = hn::IfThenElse(tiny, hn::Sub(e, hn::Set(d, 23.0f)), e);
    const V f = hn::Sub(m, hn::Set(d, 1.0f));
    const V z = hn::Mul(f, f);
    // Cephes logf
    static constexpr float c[] = {3.3333331174e-1f,  -2.4999993993e-1f, 2.0000714765e-1f,
                                  -1.6668057665e-1f, 1.4249322787e-1f,  -1.2420140846e-1f,
                                  1.1676998740e-1f,  -1.1514610310e-1f, 7.0376836292e-2f};
    V y = hn::Mul(hn::Mul(polynomial(d, f, c), f), z);
    y = hn::MulAdd(e, hn::Set(d, -2.12194440e-4f), y);
    y = hn::NegMulAdd(hn::Set(d, 0.5f), z, y);
    y = hn::MulAdd(e, hn::Set(d, 0.693359375f), hn::Add(f, y));
    const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
    // inf and NaN stay; zero gives -inf, what is below NaN
    y = hn::IfThenElse(hn::Lt(x, infinity), y, x);
    y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)),
                          hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
}

// x P(x^2) / Q(x^2), which is x for small x; 1 where tanh is nearer to 1 than to the float below
template <class D, class V>
HWY_INLINE V vec_tanh(D d, V x) {
    static constexpr float p[] = {1.0f, 0.133839754f, 0.00349899026f, 2.06611664e-05f,
                                  1.34196909e-08f};
    static constexpr float q[] = {1.0f, 0.467172969f, 0.0258901843f, 0.000329102882f,
                                  7.80467513e-07f};
    const V y = clamp_to(d, x, -9.0f, 9.0f);
    const V z = hn::Mul(y, y);
    const V t = hn::Div(hn::Mul(y, polynomial(d, z, p)), polynomial(d, z, q));
    const V one = hn::CopySign(hn::Set(d, 1.0f), x);
    const auto far = hn::Gt(hn::Abs(x), hn::Set(d, 9.01f));
    return keep_nan(x, hn::IfThenElse(far, one, clamp_to(d, t, -1.0f, 1.0f)));
}

// x + x S(x^2) for small x, else 1 - e^(-t + t L(t)) of t = |x|
template <class D, class V>
HWY_INLINE V vec_erf(D d, V x) {
    static constexpr float small[] = {0.12837915f,    -0.376124965f,  0.112818461f,
                                      -0.0267677226f, 0.00499483346f, -0.00059994194f};
    static constexpr float large[] = {-0.128516602f, -0.635711248f,   -0.105270504f,
                                      0.0228951241f, -0.00321645113f, 0.00021415381f};
    const V z = hn::Mul(x, x);
    const V one = hn::Set(d, 1.0f);
    const V t = hn::Min(hn::Set(d, 3.95f), hn::Abs(x));
    const V power = hn::Sub(hn::Mul(t, polynomial(d, t, large)), t);
    const V far = hn::CopySign(hn::Sub(one, exp_within(d, power)), x);
    const V inner = hn::MulAdd(x, polynomial(d, z, small), x);
    return keep_nan(x, hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.92f)), inner, far));
}

// Through e = exp(-|x|), so that it is accurate on both sides
template <class D, class V>
HWY_INLINE V vec_sigmoid(D d, V x) {
    const V one = hn::Set(d, 1.0f);
    const V e = vec_exp(d, hn::Neg(hn::Abs(x)));
    const V top = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
    return hn::Div(top, hn::Add(one, e));
}

// sin(x + quarter * pi / 2) where the reduction by multiples of pi / 2 is exact enough; the C
// library elsewhere
template <int kQuarter, class D, class V>
HWY_INLINE V vec_sin(D d, V x) {
#if HWY_NATIVE_FMA
    const hn::RebindToSigned<D> di;
    const V t = hn::MulAdd(x, hn::Set(d, 0.636619772f), hn::Set(d, kRounder));
    const V n = hn::Sub(t, hn::Set(d, kRounder));
    const auto quarter = hn::Add(hn::BitCast(di, t), hn::Set(di, kQuarter));
    V r = hn::NegMulAdd(n, hn::Set(d, 1.57079637e+0f), x);
    r = hn::NegMulAdd(n, hn::Set(d, -4.37113883e-8f), r);
    r = hn::NegMulAdd(n, hn::Set(d, -1.71512451e-15f), r);
    const V z = hn::Mul(r, r);
    // Cephes sinf and cosf
    static constexpr float s[] = {-1.6666654611e-1f, 8.3321608736e-3f, -1.9515295891e-4f};
    static constexpr float c[] = {4.166664568298827e-2f, -1.388731625493765e-3f,
                                  2.443315711809948e-5f};
    const V sine = hn::MulAdd(hn::Mul(r, z), polynomial(d, z, s), r);
    const V cosine = hn::MulAdd(hn::Mul(z, z), polynomial(d, z, c),
                                hn::NegMulAdd(hn::Set(d, 0.5f), z, hn::Set(d, 1.0f)));
    const auto odd = hn::Ne(hn::And(quarter, hn::Set(di, 1)), hn::Zero(di));
    const auto sign = hn::ShiftLeft<30>(hn::And(quarter, hn::Set(di, 2)));
    V result = hn::IfThenElse(hn::RebindMask(d, odd), cosine, sine);
    result = hn::Xor(result, hn::BitCast(d, sign));
    if (hn::AllFalse(d, hn::Gt(hn::Abs(x), hn::Set(d, 1048576.0f)))) return result;
#endif
    HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(x, d, lanes);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i)
        lanes[i] = kQuarter ? std::cos(lanes[i]) : std::sin(lanes[i]);
    return hn::Load(d, lanes);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pippin::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
