// The activations of an epilogue on vectors. Included once per Highway target.
#if defined(PIPPIN_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PIPPIN_ACTIVATION_INL_H_
#undef PIPPIN_ACTIVATION_INL_H_
#else
#define PIPPIN_ACTIVATION_INL_H_
#endif

#include "backends/cpu/vec_math.h"
#include "hwy/highway.h"
#include "plan/plan.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class Tag, class Vector = hn::Vec<Tag>>
HWY_INLINE Vector activated(Tag d, Vector v, plan::Activation activation) {
    switch (activation) {
        case plan::Activation::None:
            break;
        case plan::Activation::Relu:  // NaN stays
            return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v);
        case plan::Activation::Tanh:
            return vec_tanh(d, v);
        case plan::Activation::Gelu: {
            const Vector e = vec_erf(d, hn::Mul(v, hn::Set(d, 0.70710678f)));
            return hn::Mul(hn::Mul(v, hn::Set(d, 0.5f)), hn::Add(e, hn::Set(d, 1.0f)));
        }
    }
    return v;
}

}  // namespace HWY_NAMESPACE
}  // namespace pippin::cpu
HWY_AFTER_NAMESPACE();

#endif
