// Pooling of x [N, C, H, W]: maximum, average and adaptive average, with their gradients.
#include <algorithm>
#include <optional>

#include "graph/ops/check.h"
#include "graph/ops/records.h"
#include "graph/ops/ref.h"

namespace pippin::graph::ops {

std::int64_t pool_out(const PoolAttrs& a, int d, std::int64_t in) {
    const std::int64_t space = in + 2 * a.pad[d] - a.dilation[d] * (a.kernel[d] - 1) - 1;
    if (space < 0 && !(a.ceil_mode && space + a.stride[d] > 0)) return 0;
    std::int64_t out = (space + (a.ceil_mode ? a.stride[d] - 1 : 0)) / a.stride[d] + 1;
    // With ceil_mode the last window must begin inside the input or the padding before it.
    if (a.ceil_mode && (out - 1) * a.stride[d] >= in + a.pad[d]) --out;
    return out;
}

namespace {

using Nodes = std::span<const NodePtr>;
constexpr double kInf = std::numeric_limits<double>::infinity();

Shape pool_shape(const Shape& x, const PoolAttrs& a) {
    Shape out = x;
    if (x[2] < 1 || x[3] < 1) bad_value("the input's height and width must be at least 1: ", x);
    for (int d = 0; d < 2; ++d) {
        if (a.kernel[d] < 1) bad_value("kernel size must be at least 1, not ", a.kernel[d]);
        if (a.stride[d] < 1) bad_value("stride must be at least 1, not ", a.stride[d]);
        if (a.dilation[d] < 1) bad_value("dilation must be at least 1, not ", a.dilation[d]);
        if (a.pad[d] < 0 || a.pad[d] > a.kernel[d] / 2)
            bad_value(
                "padding must be at most half of the kernel size and not negative, but padding = ",
                a.pad[d], ", kernel size = ", a.kernel[d]);
        out[2 + d] = pool_out(a, d, x[2 + d]);
    }
    if (out[2] < 1 || out[3] < 1)
        bad_value("the output would be empty: input ", x, ", kernel [", a.kernel[0], ", ",
                  a.kernel[1], "], padding [", a.pad[0], ", ", a.pad[1], "]");
    return countable(out);
}
const Node& image(const NodePtr& x) {
    need_rank(*x, 4, "the input");
    need_floating(*x);
    return *x;
}
void need_output(const Node& dy, const Shape& expected) {
    if (!(dy.shape == expected))
        bad_value("the output's gradient must have shape ", expected, ", not ", dy.shape);
}

// --- maximum ---

Type infer_max(Nodes in, const Attrs& attrs) {
    return {in[0]->dtype, pool_shape(image(in[0]).shape, pool_attrs(attrs))};
}
Type infer_max_grad(Nodes in, const Attrs& attrs) {
    need_same_dtype(*in[0], *in[1]);
    need_output(*in[1], infer_max(in, attrs).shape);
    return {in[0]->dtype, in[0]->shape};
}
Inputs grad_max(const NodePtr& y, const NodePtr& dy) {
    return {max_pool2d_grad(y->inputs[0], dy, pool_attrs(y->attrs))};
}

// The adjoint of max_pool2d_grad in dy picks g at each window's arg max. Window element by window
// element, a strided slice of x is compared with the best so far, and g goes along.
Inputs grad_max_grad(const NodePtr& dx, const NodePtr& g) {
    const NodePtr &x = dx->inputs[0], &dy = dx->inputs[1];
    if (!dy->requires_grad) return {nullptr, nullptr};
    const PoolAttrs a = pool_attrs(dx->attrs);
    IntList low{0, 0, 0, 0}, high{0, 0, 0, 0};
    for (std::size_t d = 0; d < 2; ++d) {
        const std::int64_t last = (dy->shape[static_cast<int>(d) + 2] - 1) * a.stride[d] +
                                  a.dilation[d] * (a.kernel[d] - 1) + 1;
        low[2 + d] = a.pad[d];
        high[2 + d] =
            std::max<std::int64_t>(0, last - a.pad[d] - x->shape[static_cast<int>(d) + 2]);
    }
    const NodePtr xs = pad(x, low, high, {0, 0, 0, 0}, -kInf),
                  gs = pad(g, low, high, {0, 0, 0, 0}, 0);
    NodePtr best, picked;
    for (std::int64_t i = 0; i < a.kernel[0]; ++i)
        for (std::int64_t j = 0; j < a.kernel[1]; ++j) {
            const IntList start{0, 0, i * a.dilation[0], j * a.dilation[1]};
            const IntList stop{dy->shape[0], dy->shape[1],
                               start[2] + (dy->shape[2] - 1) * a.stride[0] + 1,
                               start[3] + (dy->shape[3] - 1) * a.stride[1] + 1};
            const IntList step{1, 1, a.stride[0], a.stride[1]};
            const NodePtr v = slice(xs, start, stop, step), gv = slice(gs, start, stop, step);
            const NodePtr better = best ? bit_or(lt(best, v), isnan(v)) : nullptr;
            best = better ? select(better, v, best) : v;
            picked = better ? select(better, gv, picked) : gv;
        }
    return {nullptr, picked};
}

// Where a window's maximum is: the first one, but the last NaN. A dilated window may lie between
// the input's elements and see none: its maximum is -infinity, and its gradient goes nowhere.
std::optional<Point> arg_max(const RefArray& x, const PoolAttrs& a, const Point& out) {
    std::optional<Point> best;
    double most = -kInf;
    for (std::int64_t i = 0; i < a.kernel[0]; ++i)
        for (std::int64_t j = 0; j < a.kernel[1]; ++j) {
            const std::int64_t h = out[2] * a.stride[0] - a.pad[0] + i * a.dilation[0];
            const std::int64_t w = out[3] * a.stride[1] - a.pad[1] + j * a.dilation[1];
            if (h < 0 || h >= x.shape[2] || w < 0 || w >= x.shape[3]) continue;
            const Point p{out[0], out[1], h, w};
            if (const double v = at(x, p); !best || v > most || std::isnan(v)) {
                most = v;
                best = p;
            }
        }
    return best;
}
RefArray ref_max(const Node& n, Refs in) {
    const PoolAttrs a = pool_attrs(n.attrs);
    return generate(n.shape, [&](const Point& p) {
        const auto where = arg_max(in[0], a, p);
        return where ? at(in[0], *where) : -kInf;
    });
}
RefArray ref_max_grad(const Node& n, Refs in) {
    const PoolAttrs a = pool_attrs(n.attrs);
    RefArray dx = zeros(n.shape);
    for_each_point(in[1].shape, [&](const Point& p) {
        if (const auto where = arg_max(in[0], a, p)) at(dx, *where) += at(in[1], p);
    });
    return dx;
}

// --- averages: the window of one output position, and what its sum is divided by ---

struct Range {
    std::int64_t begin, end;
};
struct Window {
    Range h, w;
    double divisor;
};
struct Clipped {
    Range inside;         ///< the part over the input
    std::int64_t padded;  ///< the extent that also counts padding, but nothing beyond it
};
Clipped clip(const PoolAttrs& a, int d, std::int64_t out, std::int64_t extent) {
    const std::int64_t begin = out * a.stride[d] - a.pad[d];
    const std::int64_t end = std::min(begin + a.kernel[d], extent + a.pad[d]);
    return {{std::max<std::int64_t>(begin, 0), std::min(end, extent)}, end - begin};
}
Window average_window(const PoolAttrs& a, const Point& out, std::int64_t h, std::int64_t w) {
    const Clipped y = clip(a, 0, out[2], h), x = clip(a, 1, out[3], w);
    const std::int64_t seen = (y.inside.end - y.inside.begin) * (x.inside.end - x.inside.begin);
    return {y.inside, x.inside,
            static_cast<double>(a.count_include_pad ? y.padded * x.padded : seen)};
}
Window adaptive_window(const Shape& out, const Point& p, std::int64_t h, std::int64_t w) {
    const auto range = [](std::int64_t i, std::int64_t n, std::int64_t extent) {
        return Range{i * extent / n, ((i + 1) * extent + n - 1) / n};
    };
    const Range y = range(p[2], out[2], h), x = range(p[3], out[3], w);
    return {y, x, static_cast<double>((y.end - y.begin) * (x.end - x.begin))};
}
template <class F>
void for_each_in(const Window& win, const Point& out, F f) {
    for (std::int64_t h = win.h.begin; h < win.h.end; ++h)
        for (std::int64_t w = win.w.begin; w < win.w.end; ++w)
            f(Point{out[0], out[1], h, w});
}
template <class W>
RefArray average(const Shape& out, const RefArray& x, W window) {
    return generate(out, [&](const Point& p) {
        const Window win = window(p, x.shape[2], x.shape[3]);
        double sum = 0;
        for_each_in(win, p, [&](const Point& q) { sum += at(x, q); });
        return sum / win.divisor;
    });
}
template <class W>
RefArray spread(const Shape& in, const RefArray& dy, W window) {
    RefArray dx = zeros(in);
    for_each_point(dy.shape, [&](const Point& p) {
        const Window win = window(p, in[2], in[3]);
        for_each_in(win, p, [&](const Point& q) { at(dx, q) += at(dy, p) / win.divisor; });
    });
    return dx;
}

// --- average ---

Type infer_avg(Nodes in, const Attrs& attrs) {
    const PoolAttrs a = pool_attrs(attrs);
    if (a.dilation[0] != 1 || a.dilation[1] != 1) bad_value("average pooling has no dilation");
    return {in[0]->dtype, pool_shape(image(in[0]).shape, a)};
}
Type infer_avg_grad(Nodes in, const Attrs& attrs) {
    const Shape& dy = image(in[0]).shape;
    const Shape x{dy[0], dy[1], pool_extent(attrs, 0), pool_extent(attrs, 1)};
    need_output(*in[0], pool_shape(countable(x), pool_attrs(attrs)));
    return {in[0]->dtype, x};
}
Inputs grad_avg(const NodePtr& y, const NodePtr& dy) {
    const Shape& x = y->inputs[0]->shape;
    return {avg_pool2d_grad(dy, pool_attrs(y->attrs), x[2], x[3])};
}
Inputs grad_avg_grad(const NodePtr& dx, const NodePtr& g) {
    return {avg_pool2d(g, pool_attrs(dx->attrs))};
}
RefArray ref_avg(const Node& n, Refs in) {
    const PoolAttrs a = pool_attrs(n.attrs);
    return average(n.shape, in[0], [&](const Point& p, std::int64_t h, std::int64_t w) {
        return average_window(a, p, h, w);
    });
}
RefArray ref_avg_grad(const Node& n, Refs in) {
    const PoolAttrs a = pool_attrs(n.attrs);
    return spread(n.shape, in[0], [&](const Point& p, std::int64_t h, std::int64_t w) {
        return average_window(a, p, h, w);
    });
}

// --- adaptive average: output i covers [floor(i H / O), ceil((i + 1) H / O)) ---

Type infer_adaptive(Nodes in, const Attrs& a) {
    Shape out = image(in[0]).shape;
    if (a.i[0] < 1 || a.i[1] < 1)
        bad_value("the output size must be at least 1, not [", a.i[0], ", ", a.i[1], "]");
    if (out[2] < 1 || out[3] < 1)
        bad_value("the input's height and width must be at least 1: ", out);
    out[2] = a.i[0];
    out[3] = a.i[1];
    return {in[0]->dtype, countable(out)};
}
Type infer_adaptive_grad(Nodes in, const Attrs& a) { return infer_adaptive(in, a); }
Inputs grad_adaptive(const NodePtr& y, const NodePtr& dy) {
    const Shape& x = y->inputs[0]->shape;
    return {adaptive_avg_pool2d_grad(dy, x[2], x[3])};
}
Inputs grad_adaptive_grad(const NodePtr& dx, const NodePtr& g) {
    const Shape& dy = dx->inputs[0]->shape;
    return {adaptive_avg_pool2d(g, dy[2], dy[3])};
}
RefArray ref_adaptive(const Node& n, Refs in) {
    return average(n.shape, in[0], [&](const Point& p, std::int64_t h, std::int64_t w) {
        return adaptive_window(n.shape, p, h, w);
    });
}
RefArray ref_adaptive_grad(const Node& n, Refs in) {
    return spread(n.shape, in[0], [&](const Point& p, std::int64_t h, std::int64_t w) {
        return adaptive_window(in[0].shape, p, h, w);
    });
}

}  // namespace

const OpRecord kMaxPool2d{"max_pool2d", Kind::Heavy, infer_max, grad_max, ref_max, nullptr};
const OpRecord kMaxPool2dGrad{"max_pool2d_grad", Kind::Heavy,  infer_max_grad,
                              grad_max_grad,     ref_max_grad, nullptr};
const OpRecord kAvgPool2d{"avg_pool2d", Kind::Heavy, infer_avg, grad_avg, ref_avg, nullptr};
const OpRecord kAvgPool2dGrad{"avg_pool2d_grad", Kind::Heavy,  infer_avg_grad,
                              grad_avg_grad,     ref_avg_grad, nullptr};
const OpRecord kAdaptiveAvgPool2d{"adaptive_avg_pool2d", Kind::Heavy,  infer_adaptive,
                                  grad_adaptive,         ref_adaptive, nullptr};
const OpRecord kAdaptiveAvgPool2dGrad{"adaptive_avg_pool2d_grad", Kind::Heavy,
                                      infer_adaptive_grad,        grad_adaptive_grad,
                                      ref_adaptive_grad,          nullptr};

}  // namespace pippin::graph::ops
