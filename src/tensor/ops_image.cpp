// unfold, fold and interpolate.
#include "pippin/ops_image.h"

#include <cmath>

#include "tensor/maps.h"
#include "tensor/promote.h"

namespace pippin {

namespace g = graph;
using g::IntList;
using graph::NodePtr;

namespace {

// How many windows fit along height (0) and width (1).
struct Windows {
    std::int64_t kernel[2], stride[2], pad[2], dilation[2], count[2];
};

Windows windows_of(const WindowOptions& o, std::int64_t h, std::int64_t w, const char* op) {
    Windows win{{o.kernel_h, o.kernel_w},
                {o.stride_h, o.stride_w},
                {o.pad_h, o.pad_w},
                {o.dilation_h, o.dilation_w},
                {0, 0}};
    for (int d = 0; d < 2; ++d) {
        if (win.kernel[d] < 1 || win.stride[d] < 1 || win.dilation[d] < 1 || win.pad[d] < 0)
            throw ValueError(fmt::format(
                "{}: kernel, stride and dilation must be positive and padding not negative", op));
        const std::int64_t space =
            (d ? w : h) + 2 * win.pad[d] - win.dilation[d] * (win.kernel[d] - 1) - 1;
        if (space < 0)
            throw ValueError(fmt::format(
                "{}: no window of [{}, {}] with dilation [{}, {}] fits into [{}, {}] "
                "with padding [{}, {}]",
                op, o.kernel_h, o.kernel_w, o.dilation_h, o.dilation_w, h, w, o.pad_h, o.pad_w));
        win.count[d] = space / win.stride[d] + 1;
    }
    return win;
}

NodePtr columns_of(const NodePtr& x, const Windows& win) {
    const NodePtr p =
        g::pad(x, {0, 0, win.pad[0], win.pad[1]}, {0, 0, win.pad[0], win.pad[1]}, {0, 0, 0, 0}, 0);
    const std::int64_t n = x->shape[0], c = x->shape[1], oh = win.count[0], ow = win.count[1];
    g::Inputs parts;
    for (std::int64_t i = 0; i < win.kernel[0]; ++i)
        for (std::int64_t j = 0; j < win.kernel[1]; ++j) {
            const std::int64_t h = i * win.dilation[0], w = j * win.dilation[1];
            const NodePtr v =
                g::slice(p, {0, 0, h, w},
                         {n, c, h + (oh - 1) * win.stride[0] + 1, w + (ow - 1) * win.stride[1] + 1},
                         {1, 1, win.stride[0], win.stride[1]});
            parts.push_back(g::reshape(v, {n, c, 1, oh * ow}));
        }
    const NodePtr all = parts.size() == 1 ? parts[0] : g::concat(parts, 2);
    return g::reshape(all, {n, c * win.kernel[0] * win.kernel[1], oh * ow});
}

NodePtr folded(const NodePtr& x, std::int64_t height, std::int64_t width, const Windows& win) {
    const std::int64_t k = win.kernel[0] * win.kernel[1], oh = win.count[0], ow = win.count[1];
    const std::int64_t n = x->shape[0], c = x->shape[1] / k;
    const NodePtr v = g::reshape(x, {n, c, k, oh * ow});
    const std::int64_t ph = height + 2 * win.pad[0], pw = width + 2 * win.pad[1];
    NodePtr sum;
    for (std::int64_t i = 0; i < win.kernel[0]; ++i)
        for (std::int64_t j = 0; j < win.kernel[1]; ++j) {
            const std::int64_t at = i * win.kernel[1] + j;
            const NodePtr part = g::reshape(
                g::slice(v, {0, 0, at, 0}, {n, c, at + 1, oh * ow}, {1, 1, 1, 1}), {n, c, oh, ow});
            const std::int64_t h = i * win.dilation[0], w = j * win.dilation[1];
            const NodePtr laid = g::pad(part, {0, 0, h, w},
                                        {0, 0, ph - h - (oh - 1) * win.stride[0] - 1,
                                         pw - w - (ow - 1) * win.stride[1] - 1},
                                        {0, 0, win.stride[0] - 1, win.stride[1] - 1}, 0);
            sum = sum ? g::add(sum, laid) : laid;
        }
    return g::slice(sum, {0, 0, win.pad[0], win.pad[1]},
                    {n, c, win.pad[0] + height, win.pad[1] + width}, {1, 1, 1, 1});
}

// --- interpolation along one dim ---

// Positions are computed in float, or double for float64, so that they round as PyTorch's do.
template <class T>
T step_of(std::int64_t in, std::int64_t out, double scale, bool align_corners) {
    if (align_corners)
        return out > 1 ? static_cast<T>(in - 1) / static_cast<T>(out - 1) : static_cast<T>(0);
    return scale > 0 ? static_cast<T>(1 / scale) : static_cast<T>(in) / static_cast<T>(out);
}

template <class T>
NodePtr nearest(const NodePtr& x, int dim, std::int64_t out, double scale, bool exact) {
    const std::int64_t in = x->shape[dim];
    const T step = step_of<T>(in, out, scale, false);
    std::vector<std::int64_t> index;
    bool same = in == out;
    for (std::int64_t i = 0; i < out; ++i) {
        const T at = (static_cast<T>(i) + static_cast<T>(exact ? 0.5 : 0)) * step;
        index.push_back(std::min(static_cast<std::int64_t>(std::floor(at)), in - 1));
        same = same && index.back() == i;
    }
    if (same) return x;
    return g::index_select(x, node_of(tensor(index, Options(x->device))), dim);
}

template <class T>
NodePtr linear_along(const NodePtr& x, int dim, std::int64_t out, double scale,
                     bool align_corners) {
    const std::int64_t in = x->shape[dim];
    if (in == out && (scale <= 0 || scale == 1)) return x;
    const T step = step_of<T>(in, out, scale, align_corners);
    std::vector<std::int64_t> low, high;
    std::vector<T> weights;
    for (std::int64_t i = 0; i < out; ++i) {
        const T half = static_cast<T>(0.5);
        const T at = align_corners
                         ? step * static_cast<T>(i)
                         : std::max(static_cast<T>(0), step * (static_cast<T>(i) + half) - half);
        const std::int64_t first = std::min(static_cast<std::int64_t>(at), in - 1);
        low.push_back(first);
        high.push_back(std::min(first + 1, in - 1));
        weights.push_back(
            std::min(std::max(at - static_cast<T>(first), static_cast<T>(0)), static_cast<T>(1)));
    }
    const Options o(x->device);
    const auto select = [&](const std::vector<std::int64_t>& index) {
        return g::index_select(x, node_of(tensor(index, o)), dim);
    };
    const NodePtr a = select(low), b = select(high);
    Shape line;
    for (int d = 0; d < x->shape.rank(); ++d)
        line.push_back(d == dim ? out : 1);
    const NodePtr w =
        g::expand(g::reshape(g::cast(node_of(tensor(weights, o)), x->dtype), line), a->shape);
    return g::add(g::mul(a, g::sub(g::full_like(w, 1), w)), g::mul(b, w));
}

NodePtr resized(const NodePtr& x, int dim, std::int64_t out, double scale,
                const InterpolateOptions& o) {
    const bool wide = x->dtype == DType::Float64;
    if (o.mode == Interpolation::Linear)
        return wide ? linear_along<double>(x, dim, out, scale, o.align_corners)
                    : linear_along<float>(x, dim, out, scale, o.align_corners);
    const bool exact = o.mode == Interpolation::NearestExact;
    return wide ? nearest<double>(x, dim, out, scale, exact)
                : nearest<float>(x, dim, out, scale, exact);
}

}  // namespace

Tensor unfold(const Tensor& x, WindowOptions o, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const int rank = n->shape.rank();
        if (rank != 3 && rank != 4)
            throw ValueError(fmt::format("unfold: expected (N, C, H, W) or (C, H, W), got shape {}",
                                         n->shape.str()));
        Shape s = n->shape;
        if (rank == 3) s.insert(0, 1);
        const NodePtr y = columns_of(g::reshape(n, s), windows_of(o, s[2], s[3], "unfold"));
        return wrap(rank == 4 ? y : g::reshape(y, {y->shape[1], y->shape[2]}));
    });
}

Tensor fold(const Tensor& x, std::int64_t h, std::int64_t w, WindowOptions o, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const int rank = n->shape.rank();
        const Windows win = windows_of(o, h, w, "fold");
        const std::int64_t k = win.kernel[0] * win.kernel[1], l = win.count[0] * win.count[1];
        if ((rank != 2 && rank != 3) || n->shape[rank - 2] % k != 0 || n->shape[rank - 1] != l)
            throw ValueError(
                fmt::format("fold: expected (N, C {0}, {1}) or (C {0}, {1}) for [{2}, {3}], got "
                            "shape {4}",
                            k, l, h, w, n->shape.str()));
        Shape s = n->shape;
        if (rank == 2) s.insert(0, 1);
        const NodePtr y = folded(g::reshape(n, s), h, w, win);
        return wrap(rank == 3 ? y : g::reshape(y, {y->shape[1], h, w}));
    });
}

Tensor interpolate(const Tensor& x, const InterpolateOptions& o, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const Shape& s = n->shape;
        const int spatial = s.rank() - 2;
        if (spatial < 1 || spatial > 3)
            throw ValueError(fmt::format(
                "interpolate: expected (N, C, d1 ...) with 1 to 3 spatial dimensions, got shape {}",
                s.str()));
        if (!is_floating(n->dtype))
            throw TypeError(fmt::format("interpolate: the input must be floating point, it is {}",
                                        name_of(n->dtype)));
        if (o.size.empty() == o.scale.empty())
            throw ValueError("interpolate: give either a size or a scale");
        const std::size_t given = o.size.empty() ? o.scale.size() : o.size.size();
        if (given != 1 && given != static_cast<std::size_t>(spatial))
            throw ValueError(fmt::format(
                "interpolate: {} sizes or scales for {} spatial dimensions", given, spatial));
        if (o.align_corners && o.mode != Interpolation::Linear)
            throw ValueError("interpolate: align_corners is an option of linear interpolation");
        // Half types are interpolated in float32 and rounded once.
        NodePtr y =
            o.mode == Interpolation::Linear && is_half(n->dtype) ? g::cast(n, DType::Float32) : n;
        for (int d = spatial - 1; d >= 0; --d) {
            const auto k = given == 1 ? 0 : static_cast<std::size_t>(d);
            const double scale = o.scale.empty() ? 0 : o.scale[k];
            const std::int64_t in = s[2 + d];
            const std::int64_t out =
                o.scale.empty()
                    ? o.size[k]
                    : static_cast<std::int64_t>(std::floor(static_cast<double>(in) * scale));
            if (in < 1 || out < 1)
                throw ValueError(fmt::format(
                    "interpolate: sizes must be at least 1, but {} would become {} (shape {})", in,
                    out, s.str()));
            y = resized(y, 2 + d, out, scale, o);
        }
        return wrap(g::cast(y, n->dtype));
    });
}

}  // namespace pippin
