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

// The window of one output: its first tap within the input, and its extents.
struct Window {
    int64_t u0, u1, v0, v1;
    int64_t origin;  ///< element of tap (u0, v0), channel 0
    int64_t down, right;
};

HWY_INLINE Window window_of(const MaxWindow& g, int64_t r, int64_t q) {
    Window k{g.rows[r].first, g.rows[r].last, g.columns[q].first, g.columns[q].last, 0, 0, 0};
    const int64_t h = r * g.stride[0] - g.pad[0] + k.u0 * g.dilation[0];
    const int64_t z = q * g.stride[1] - g.pad[1] + k.v0 * g.dilation[1];
    k.origin = (h * g.w + z) * g.c;
    k.down = g.dilation[0] * g.w * g.c;
    k.right = g.dilation[1] * g.c;
    return k;
}

template <class M>
HWY_INLINE auto takes(M value, M best) {
    return hn::Or(hn::Gt(value, best), hn::IsNaN(value));  // NaN wins, and stays
}

// A whole window of K x K.
template <int K, class T, class D>
HWY_INLINE void max_whole(D d, const MaxWindow& g, const Window& k, const T* x, T* y) {
    over_vectors(d, g.c, [&](int64_t c, auto part) HWY_ATTR {
        auto best = part.load(x + c);
        for (int u = 0; u < K; ++u)
            for (int v = 0; v < K; ++v) {
                if (u + v == 0) continue;
                const auto value = part.load(x + u * k.down + v * k.right + c);
                best = hn::IfThenElse(takes(value, best), value, best);
            }
        part.store(best, y + c);
    });
}

template <int K, class T, class Index, class D, class F>
HWY_INLINE void arg_max_whole(D d, const MaxWindow& g, const Window& k, const T* x, const F& f) {
    const hn::Rebind<Index, D> di;
    over_vectors(d, g.c, [&](int64_t c, auto part) HWY_ATTR {
        auto best = part.load(x + c);
        auto tap = hn::Zero(di);
        for (int u = 0; u < K; ++u)
            for (int v = 0; v < K; ++v) {
                if (u + v == 0) continue;
                const auto value = part.load(x + u * k.down + v * k.right + c);
                const auto take = takes(value, best);
                best = hn::IfThenElse(take, value, best);
                tap = hn::IfThenElse(hn::RebindMask(di, take),
                                     hn::Set(di, static_cast<Index>(u * K + v)), tap);
            }
        f(c, part, tap);
    });
}

// Any window, which may be cut off by the input's edges.
template <class T, class Index, class D, class F>
HWY_INLINE void arg_max_any(D d, const MaxWindow& g, const Window& k, const T* x, const F& f) {
    const hn::Rebind<Index, D> di;
    over_vectors(d, g.c, [&](int64_t c, auto part) HWY_ATTR {
        auto best = part.load(x + c);
        // Where all are -infinity, the first one counts.
        auto tap = hn::Set(di, static_cast<Index>(k.u0 * g.kernel[1] + k.v0));
        for (int64_t u = k.u0; u < k.u1; ++u)
            for (int64_t v = k.v0; v < k.v1; ++v) {
                const auto value = part.load(x + (u - k.u0) * k.down + (v - k.v0) * k.right + c);
                const auto take = takes(value, best);
                best = hn::IfThenElse(take, value, best);
                tap = hn::IfThenElse(hn::RebindMask(di, take),
                                     hn::Set(di, static_cast<Index>(u * g.kernel[1] + v)), tap);
            }
        f(c, part, best, tap);
    });
}

HWY_INLINE bool is_whole(const MaxWindow& g, const Window& k, int64_t size) {
    return g.kernel[0] == size && g.kernel[1] == size && k.u1 - k.u0 == size && k.v1 - k.v0 == size;
}

// Windows of 2 x 2 side by side, with few channels: all in one vector, nothing to find out per
// window.
HWY_INLINE bool is_narrow(const MaxWindow& g, int64_t lanes) {
    bool narrow = g.c <= lanes;
    for (int i = 0; i < 2; ++i)
        narrow =
            narrow && g.kernel[i] == 2 && g.stride[i] == 2 && g.pad[i] == 0 && g.dilation[i] == 1;
    return narrow && 2 * g.ow <= g.w && 2 * g.oh <= g.h;
}

template <class T>
void max_narrow_row(const MaxWindow& g, const T* x, T* y) {
    const hn::ScalableTag<typename LaneOf<T>::type> d;
    const PartVector<decltype(d)> part{static_cast<std::size_t>(g.c)};
    const T* below = x + g.w * g.c;
    for (int64_t q = 0; q < g.ow; ++q, x += 2 * g.c, below += 2 * g.c, y += g.c) {
        auto best = part.load(x);
        for (const T* from : {x + g.c, below, below + g.c}) {
            const auto value = part.load(from);
            best = hn::IfThenElse(takes(value, best), value, best);
        }
        part.store(best, y);
    }
}

template <class T>
void max_grad_narrow_row(const MaxWindow& g, const T* x, const T* dy, T* dx) {
    const hn::ScalableTag<typename LaneOf<T>::type> d;
    const PartVector<decltype(d)> part{static_cast<std::size_t>(g.c)};
    const int64_t down = g.w * g.c, c = g.c;
    for (int64_t q = 0; q < g.ow; ++q, x += 2 * c, dx += 2 * c, dy += c) {
        const auto v0 = part.load(x), v1 = part.load(x + c);
        const auto v2 = part.load(x + down), v3 = part.load(x + down + c);
        const auto take1 = takes(v1, v0);
        const auto best1 = hn::IfThenElse(take1, v1, v0);
        const auto take2 = takes(v2, best1);
        const auto best2 = hn::IfThenElse(take2, v2, best1);
        const auto take3 = takes(v3, best2);
        // The last one that took over has the maximum.
        const auto grad = part.load(dy);
        part.store(hn::IfThenElseZero(take3, grad), dx + down + c);
        const auto rest2 = hn::IfThenZeroElse(take3, grad);
        part.store(hn::IfThenElseZero(take2, rest2), dx + down);
        const auto rest1 = hn::IfThenZeroElse(take2, rest2);
        part.store(hn::IfThenElseZero(take1, rest1), dx + c);
        part.store(hn::IfThenZeroElse(take1, rest1), dx);
    }
}

template <class T, class Index>
void max_row(const MaxWindow& g, const T* x, int64_t oh, T* y_row) {
    const hn::ScalableTag<typename LaneOf<T>::type> d;
    if (is_narrow(g, static_cast<int64_t>(hn::Lanes(d))))
        return max_narrow_row(g, x + 2 * oh * g.w * g.c, y_row);
    for (int64_t q = 0; q < g.ow; ++q) {
        const Window k = window_of(g, oh, q);
        T* y = y_row + q * g.c;
        if (is_whole(g, k, 2))
            max_whole<2>(d, g, k, x + k.origin, y);
        else if (is_whole(g, k, 3))
            max_whole<3>(d, g, k, x + k.origin, y);
        else
            arg_max_any<T, Index>(d, g, k, x + k.origin,
                                  [&](int64_t c, auto part, auto best, auto)
                                      HWY_ATTR { part.store(best, y + c); });
    }
}

template <class T, class Index>
void arg_max_row(const MaxWindow& g, const T* x, int64_t oh, Index* row) {
    const hn::ScalableTag<typename LaneOf<T>::type> d;
    for (int64_t q = 0; q < g.ow; ++q) {
        const Window k = window_of(g, oh, q);
        Index* to = row + q * g.c;
        if (is_whole(g, k, 3))
            arg_max_whole<3, T, Index>(d, g, k, x + k.origin,
                                       [&](int64_t c, auto part, auto tap)
                                           HWY_ATTR { part.store(tap, to + c); });
        else
            arg_max_any<T, Index>(d, g, k, x + k.origin,
                                  [&](int64_t c, auto part, auto, auto tap)
                                      HWY_ATTR { part.store(tap, to + c); });
    }
}

// dx from the windows that cover one point, a few at a time: hardly ever are there more.
template <class T, class Index>
void max_grad_row(const MaxWindow& g, const T* dy, int64_t h, const Index* const* rows,
                  int64_t count, T* dx_row) {
    const hn::ScalableTag<typename LaneOf<T>::type> d;
    const hn::Rebind<Index, decltype(d)> di;
    struct Source {
        const Index* taken;
        const T* dy;
        Index tap;
    };
    constexpr int kMost = kCoversAtOnce;
    Source sources[kMost];
    for (int64_t z = 0; z < g.w; ++z) {
        T* dx = dx_row + z * g.c;
        int n = 0;
        bool first = true;
        const auto add_up = [&]() HWY_ATTR {
            over_vectors(d, g.c, [&](int64_t c, auto part) HWY_ATTR {
                auto sum = first ? hn::Zero(d) : part.load(dx + c);
                for (int i = 0; i < n; ++i) {
                    const Source& s = sources[i];
                    const auto here = hn::Eq(part.load(s.taken + c), hn::Set(di, s.tap));
                    const auto more =
                        hn::IfThenElseZero(hn::RebindMask(d, here), part.load(s.dy + c));
                    sum = hn::Add(sum, more);
                }
                part.store(sum, dx + c);
            });
            n = 0;
            first = false;
        };
        const Covers down = g.row_covers[h], across = g.column_covers[z];
        for (const Cover* r = down.begin; r < down.end; ++r)
            for (const Cover* q = across.begin; q < across.end; ++q) {
                if (n == kMost) add_up();
                sources[n++] = {rows[r->output % count] + q->output * g.c,
                                dy + (r->output * g.ow + q->output) * g.c,
                                static_cast<Index>(r->tap * g.kernel[1] + q->tap)};
            }
        if (n > 0 || first) add_up();
    }
}

template <class T, class Index>
void max_grad_apart_row(const MaxWindow& g, const T* x, const T* dy, int64_t oh, T* dx) {
    const hn::ScalableTag<typename LaneOf<T>::type> d;
    if (is_narrow(g, static_cast<int64_t>(hn::Lanes(d)))) {
        const int64_t origin = 2 * oh * g.w * g.c;
        return max_grad_narrow_row(g, x + origin, dy + oh * g.ow * g.c, dx + origin);
    }
    const hn::Rebind<Index, decltype(d)> di;
    for (int64_t q = 0; q < g.ow; ++q) {
        const Window k = window_of(g, oh, q);
        const T* grad = dy + (oh * g.ow + q) * g.c;
        T* to = dx + k.origin;
        if (is_whole(g, k, 2))
            arg_max_whole<2, T, Index>(
                d, g, k, x + k.origin, [&](int64_t c, auto part, auto tap) HWY_ATTR {
                    const auto v = part.load(grad + c);
                    for (int i = 0; i < 4; ++i) {
                        const auto here = hn::Eq(tap, hn::Set(di, static_cast<Index>(i)));
                        part.store(hn::IfThenElseZero(hn::RebindMask(d, here), v),
                                   to + i / 2 * k.down + i % 2 * k.right + c);
                    }
                });
        else
            arg_max_any<T, Index>(
                d, g, k, x + k.origin, [&](int64_t c, auto part, auto, auto tap) HWY_ATTR {
                    const auto v = part.load(grad + c);
                    for (int64_t i = k.u0; i < k.u1; ++i)
                        for (int64_t j = k.v0; j < k.v1; ++j) {
                            const auto here =
                                hn::Eq(tap, hn::Set(di, static_cast<Index>(i * g.kernel[1] + j)));
                            part.store(hn::IfThenElseZero(hn::RebindMask(d, here), v),
                                       to + (i - k.u0) * k.down + (j - k.v0) * k.right + c);
                        }
                });
    }
}

template <class T>
void average_row(const T* x, int64_t w, int64_t channels, int64_t ow, int64_t h0, int64_t h1,
                 const Ranges& columns, const typename LaneOf<T>::type* scale, T* y_row) {
    const hn::ScalableTag<typename LaneOf<T>::type> d;
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
                      const Ranges& columns, const typename LaneOf<T>::type* scale, T* dx_row) {
    const hn::ScalableTag<typename LaneOf<T>::type> d;
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

// One vector at a time through a whole row, for few channels are the usual case here.
template <class T>
void average_pairs_row(const T* x, int64_t channels, int64_t ow, T* y_row) {
    const hn::ScalableTag<typename LaneOf<T>::type> d;
    over_vectors(d, channels, [&](int64_t c, auto part) HWY_ATTR {
        const T *above = x + c, *below = above + 2 * ow * channels;
        T* y = y_row + c;
        for (int64_t q = 0; q < ow; ++q) {
            const auto top = hn::Add(part.load(above), part.load(above + channels));
            const auto sum = hn::Add(hn::Add(top, part.load(below)), part.load(below + channels));
            part.store(hn::Mul(sum, hn::Set(d, 0.25f)), y);
            above += 2 * channels, below += 2 * channels, y += channels;
        }
    });
}

template <class T>
void average_grad_pairs_row(const T* dy_row, int64_t channels, int64_t ow, T* dx) {
    const hn::ScalableTag<typename LaneOf<T>::type> d;
    over_vectors(d, channels, [&](int64_t c, auto part) HWY_ATTR {
        const T* dy = dy_row + c;
        T *above = dx + c, *below = above + 2 * ow * channels;
        for (int64_t q = 0; q < ow; ++q) {
            const auto v = hn::Mul(part.load(dy), hn::Set(d, 0.25f));
            part.store(v, above), part.store(v, above + channels);
            part.store(v, below), part.store(v, below + channels);
            above += 2 * channels, below += 2 * channels, dy += channels;
        }
    });
}

template <class T, class A, class Index>
void fill_rows(PoolRows<T, A, Index>* rows) {
    *rows = {max_row<T, Index>,      arg_max_row<T, Index>,
             max_grad_row<T, Index>, max_grad_apart_row<T, Index>,
             average_row<T>,         average_grad_row<T>,
             average_pairs_row<T>,   average_grad_pairs_row<T>};
}

void float_rows(FloatPoolRows* rows) { fill_rows(rows); }
void half_rows(HalfPoolRows* rows) { fill_rows(rows); }
void bfloat_rows(BFloatPoolRows* rows) { fill_rows(rows); }
void double_rows(DoublePoolRows* rows) {
#if HWY_HAVE_FLOAT64
    fill_rows(rows);
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
HWY_EXPORT(half_rows);
HWY_EXPORT(bfloat_rows);
HWY_EXPORT(double_rows);

void get_pool_rows(FloatPoolRows* rows) { HWY_DYNAMIC_DISPATCH(float_rows)(rows); }
void get_pool_rows(HalfPoolRows* rows) { HWY_DYNAMIC_DISPATCH(half_rows)(rows); }
void get_pool_rows(BFloatPoolRows* rows) { HWY_DYNAMIC_DISPATCH(bfloat_rows)(rows); }
void get_pool_rows(DoublePoolRows* rows) { HWY_DYNAMIC_DISPATCH(double_rows)(rows); }

}  // namespace pippin::cpu
#endif
