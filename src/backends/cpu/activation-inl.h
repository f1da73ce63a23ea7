// The activations of an epilogue on vectors. Included once per Highway target.
#if defined(PIPPIN_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PIPPIN_ACTIVATION_INL_H_
#undef PIPPIN_ACTIVATION_INL_H_
#else
#define PIPPIN_ACTIVATION_INL_H_
#endif

#include "backends/cpu/lanes-inl.h"
#include "backends/cpu/vec_math.h"
#include "hwy/highway.h"
#include "plan/plan.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// In place. A loop of its own, for unrolled tiles would repeat the polynomials many times over.
inline HWY_NOINLINE void activate(float* values, std::int64_t count, plan::Activation activation) {
    const hn::ScalableTag<float> d;
    over_vectors(d, count, [&](std::int64_t i, auto part) HWY_ATTR {
        auto v = part.load(values + i);
        switch (activation) {
            case plan::Activation::None:
                break;
            case plan::Activation::Relu:  // NaN stays
                v = hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v);
                break;
            case plan::Activation::Tanh:
                v = vec_tanh(d, v);
                break;
            case plan::Activation::Gelu: {
                const auto e = vec_erf(d, hn::Mul(v, hn::Set(d, 0.70710678f)));
                v = hn::Mul(hn::Mul(v, hn::Set(d, 0.5f)), hn::Add(e, hn::Set(d, 1.0f)));
                break;
            }
        }
        part.store(v, values + i);
    });
}

}  // namespace HWY_NAMESPACE
}  // namespace pippin::cpu
HWY_AFTER_NAMESPACE();

#endif
