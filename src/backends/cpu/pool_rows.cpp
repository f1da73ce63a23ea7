#include "backends/cpu/pool_rows.h"

#include <algorithm>
#include <limits>

// First, for it says which targets there are.
#include "backends/cpu/vec_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/pool_rows.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "backends/cpu/lanes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pippin::cpu {
namespace HWY_NAMESPACE {

using std::int64_t;

// Taps of a window that lie within the input: [first, last).
HWY_INLINE void taps(int64_t start, int64_t extent, int64_t kernel, int64_t dilation,
                     int64_t* first, int64_t* last) {
    int64_t u = 0;
    while (u < kernel && start + u * dilation < 0)
        ++u;
    int64_t v = kernel;
    while (v > u && start + (v - 1) * dilation >= extent)
        --v;
    *first = u;
    *last = v;
}

template <class T>
void max_row(const MaxWindow& g, const T* x, int64_t oh, T* y_row) {
    const hn::ScalableTag<T> d;
    const int64_t h = oh * g.stride[0] - g.pad[0];
    int64_t u0, u1;
    taps(h, g.h, g.kernel[0], g.dilation[0], &u0, &u1);
    for (int64_t q = 0; q < g.ow; ++q) {
        const int64_t z = q * g.stride[1] - g.pad[1];
        int64_t v0, v1;
        taps(z, g.w, g.kernel[1], g.dilation[1], &v0, &v1);
        over_vectors(d, g.c, [&](int64_t c, auto part) HWY_ATTR {
            auto best = hn::Set(d, -std::numeric_limits<T>::infinity());
            for (int64_t u = u0; u < u1; ++u)
                for (int64_t v = v0; v < v1; ++v) {
                    const auto value = part.load(
                        x + ((h + u * g.dilation[0]) * g.w + z + v * g.dilation[1]) * g.c + c);
                    const auto takes = hn::Or(hn::Gt(value, best), hn::IsNaN(value));
                    best = hn::IfThenElse(takes, value, best);
                }
            part.store(best, y_row + q * g.c + c);
        });
    }
}

template <class T, class Index>
void arg_max_row(const MaxWindow& g, const T* x, int64_t oh, Index* row) {
    const hn::ScalableTag<T> d;
    const hn::Rebind<Index, decltype(d)> di;
    const int64_t h = oh * g.stride[0] - g.pad[0];
    int64_t u0, u1;
    taps(h, g.h, g.kernel[0], g.dilation[0], &u0, &u1);
    for (int64_t q = 0; q < g.ow; ++q) {
        const int64_t z = q * g.stride[1] - g.pad[1];
        int64_t v0, v1;
        taps(z, g.w, g.kernel[1], g.dilation[1], &v0, &v1);
        over_vectors(d, g.c, [&](int64_t c, auto part) HWY_ATTR {
            auto best = hn::Set(d, -std::numeric_limits<T>::infinity());
            // Where all are -infinity, the first one counts.
            auto tap = hn::Set(di, static_cast<Index>(u0 * g.kernel[1] + v0));
            for (int64_t u = u0; u < u1; ++u)
                for (int64_t v = v0; v < v1; ++v) {
                    const auto value = part.load(
                        x + ((h + u * g.dilation[0]) * g.w + z + v * g.dilation[1]) * g.c + c);
                    const auto takes = hn::Or(hn::Gt(value, best), hn::IsNaN(value));
                    best = hn::IfThenElse(takes, value, best);
                    tap = hn::IfThenElse(hn::RebindMask(di, takes),
                                         hn::Set(di, static_cast<Index>(u * g.kernel[1] + v)), tap);
                }
            part.store(tap, row + q * g.c + c);
        });
    }
}

template <class T, class Index>
void max_grad_row(const MaxWindow& g, const T* dy, int64_t h, const Index* const* rows,
                  int64_t count, T* dx_row) {
    const hn::ScalableTag<T> d;
    const hn::Rebind<Index, decltype(d)> di;
    const int64_t reach_h = (g.kernel[0] - 1) * g.dilation[0];
    const int64_t reach_w = (g.kernel[1] - 1) * g.dilation[1];
    const auto first = [](int64_t at, int64_t pad, int64_t reach, int64_t stride) {
        const int64_t low = at + pad - reach;
        return low <= 0 ? int64_t{0} : (low + stride - 1) / stride;
    };
    const int64_t r0 = first(h, g.pad[0], reach_h, g.stride[0]);
    const int64_t r1 = std::min(g.oh, (h + g.pad[0]) / g.stride[0] + 1);
    for (int64_t z = 0; z < g.w; ++z) {
        const int64_t q0 = first(z, g.pad[1], reach_w, g.stride[1]);
        const int64_t q1 = std::min(g.ow, (z + g.pad[1]) / g.stride[1] + 1);
        over_vectors(d, g.c, [&](int64_t c, auto part) HWY_ATTR {
            auto sum = hn::Zero(d);
            for (int64_t r = r0; r < r1; ++r) {
                const int64_t u = h + g.pad[0] - r * g.stride[0];
                if (u % g.dilation[0] != 0) continue;
                const Index* taken = rows[r % count];
                for (int64_t q = q0; q < q1; ++q) {
                    const int64_t v = z + g.pad[1] - q * g.stride[1];
                    if (v % g.dilation[1] != 0) continue;
                    const auto tap = hn::Set(
                        di,
                        static_cast<Index>(u / g.dilation[0] * g.kernel[1] + v / g.dilation[1]));
                    const auto is_here = hn::Eq(part.load(taken + q * g.c + c), tap);
                    const auto grad = part.load(dy + (r * g.ow + q) * g.c + c);
                    sum = hn::Add(sum, hn::IfThenElseZero(hn::RebindMask(d, is_here), grad));
                }
            }
            part.store(sum, dx_row + z * g.c + c);
        });
    }
}

template <class T>
void average_row(const T* x, int64_t w, int64_t channels, int64_t ow, int64_t h0, int64_t h1,
                 const Ranges& columns, const T* scale, T* y_row) {
    const hn::ScalableTag<T> d;
    for (int64_t q = 0; q < ow; ++q) {
        const int64_t z0 = columns.begin[q], z1 = columns.end[q];
        over_vectors(d, channels, [&](int64_t c, auto part) HWY_ATTR {
            auto sum = hn::Zero(d);
            for (int64_t h = h0; h < h1; ++h)
                for (int64_t z = z0; z < z1; ++z)
                    sum = hn::Add(sum, part.load(x + (h * w + z) * channels + c));
            part.store(hn::Mul(sum, hn::Set(d, scale[q])), y_row + q * channels + c);
        });
    }
}

template <class T>
void average_grad_row(const T* dy, int64_t w, int64_t channels, int64_t ow, int64_t r0, int64_t r1,
                      const Ranges& columns, const T* scale, T* dx_row) {
    const hn::ScalableTag<T> d;
    for (int64_t z = 0; z < w; ++z) {
        const int64_t q0 = columns.out_begin[z], q1 = columns.out_end[z];
        over_vectors(d, channels, [&](int64_t c, auto part) HWY_ATTR {
            auto sum = hn::Zero(d);
            for (int64_t r = r0; r < r1; ++r)
                for (int64_t q = q0; q < q1; ++q)
                    sum = hn::MulAdd(part.load(dy + (r * ow + q) * channels + c),
                                     hn::Set(d, scale[r * ow + q]), sum);
            part.store(sum, dx_row + z * channels + c);
        });
    }
}

void float_rows(PoolRows<float, std::int32_t>* rows) {
    *rows = {max_row<float>, arg_max_row<float, std::int32_t>, max_grad_row<float, std::int32_t>,
             average_row<float>, average_grad_row<float>};
}

void double_rows(PoolRows<double, std::int64_t>* rows) {
#if HWY_HAVE_FLOAT64
    *rows = {max_row<double>, arg_max_row<double, std::int64_t>, max_grad_row<double, std::int64_t>,
             average_row<double>, average_grad_row<double>};
#else
    *rows = {};
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace pippin::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pippin::cpu {

HWY_EXPORT(float_rows);
HWY_EXPORT(double_rows);

template <>
PoolRows<float, std::int32_t> pool_rows() {
    PoolRows<float, std::int32_t> rows;
    HWY_DYNAMIC_DISPATCH(float_rows)(&rows);
    return rows;
}
template <>
PoolRows<double, std::int64_t> pool_rows() {
    PoolRows<double, std::int64_t> rows;
    HWY_DYNAMIC_DISPATCH(double_rows)(&rows);
    return rows;
}

}  // namespace pippin::cpu
#endif
