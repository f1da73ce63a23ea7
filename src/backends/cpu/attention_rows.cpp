// Vector code over rows of attention scores.
#include <limits>

#include "backends/cpu/attention.h"
// First among Highway's headers, for it says which targets there are.
#include "backends/cpu/vec_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention_rows.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "backends/cpu/lanes-inl.h"
#include "backends/cpu/vec_math.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu {
namespace HWY_NAMESPACE {
namespace {

using std::int64_t;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr float kInf = std::numeric_limits<float>::infinity();

// Lanes behind the end of a row hold `other`.
template <class L>
HWY_INLINE V only(const L& lanes, V v, float other) {
    if constexpr (requires { lanes.count; })
        return hn::IfThenElse(hn::FirstN(D(), lanes.count), v, hn::Set(D(), other));
    else
        return v;
}

float scores(float* s, int64_t n, float scale, const float* added, const std::uint8_t* seen) {
    const D d;
    const V factor = hn::Set(d, scale);
    V most = hn::Set(d, -kInf), sum = hn::Zero(d);
    over_vectors(d, n, [&](int64_t i, auto lanes) HWY_ATTR {
        V v = hn::Mul(lanes.load(s + i), factor);
        if (added) v = hn::Add(v, lanes.load(added + i));
        if (seen) {
            HWY_ALIGN float keep[HWY_MAX_BYTES / sizeof(float)] = {};
            const auto count = static_cast<std::size_t>(
                std::min<int64_t>(n - i, static_cast<int64_t>(hn::Lanes(d))));
            for (std::size_t k = 0; k < count; ++k)
                keep[k] = seen[static_cast<std::size_t>(i) + k] ? 1.0f : 0.0f;
            v = hn::IfThenElse(hn::Gt(hn::Load(d, keep), hn::Zero(d)), v, hn::Set(d, -kInf));
        }
        lanes.store(v, s + i);
        v = only(lanes, v, -kInf);
        // 0 where v is a number, however large, and NaN where it is none.
        sum = hn::Add(sum, hn::IfThenElseZero(hn::IsNaN(v), v));
        most = hn::Max(most, v);
    });
    const float nan = hn::GetLane(hn::SumOfLanes(d, sum));
    return nan != nan ? nan : hn::GetLane(hn::MaxOfLanes(d, most));
}

float exponents(float* s, int64_t n, float shift) {
    const D d;
    const V by = hn::Set(d, shift);
    V sum = hn::Zero(d);
    over_vectors(d, n, [&](int64_t i, auto lanes) HWY_ATTR {
        const V e = vec_exp(d, hn::Sub(lanes.load(s + i), by));
        lanes.store(e, s + i);
        sum = hn::Add(sum, only(lanes, e, 0));
    });
    return hn::GetLane(hn::SumOfLanes(d, sum));
}

void scale_row(float* s, int64_t n, float f) {
    const D d;
    const V factor = hn::Set(d, f);
    over_vectors(d, n, [&](int64_t i, auto lanes) HWY_ATTR {
        lanes.store(hn::Mul(lanes.load(s + i), factor), s + i);
    });
}

void drop(float* to, const float* s, const float* u, int64_t n, float p, float f) {
    const D d;
    const V limit = hn::Set(d, p), factor = hn::Set(d, f);
    over_vectors(d, n, [&](int64_t i, auto lanes) HWY_ATTR {
        const V v = hn::Mul(lanes.load(s + i), factor);
        lanes.store(hn::IfThenElseZero(hn::Ge(lanes.load(u + i), limit), v), to + i);
    });
}

void gradient(float* dp, const float* w, int64_t n, float scale) {
    const D d;
    V sum = hn::Zero(d);
    over_vectors(d, n, [&](int64_t i, auto lanes) HWY_ATTR {
        sum = hn::MulAdd(lanes.load(w + i), lanes.load(dp + i), sum);
    });
    const V dot = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, sum))), factor = hn::Set(d, scale);
    over_vectors(d, n, [&](int64_t i, auto lanes) HWY_ATTR {
        const V part = hn::Mul(lanes.load(w + i), factor);
        lanes.store(hn::Mul(part, hn::Sub(lanes.load(dp + i), dot)), dp + i);
    });
}

void row_functions(AttentionRowFunctions* f) {
    *f = {scores, exponents, scale_row, drop, gradient};
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace pippin::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pippin::cpu {

HWY_EXPORT(row_functions);
AttentionRowFunctions attention_row_functions() {
    AttentionRowFunctions f{};
    HWY_DYNAMIC_DISPATCH(row_functions)(&f);
    return f;
}

}  // namespace pippin::cpu
#endif
