// Convolution of x [N, C, H, W] with w [O, C / groups, kh, kw], and its two gradients. All three
// are bilinear, and each one's gradients are the two others.
#include "graph/ops/check.h"
#include "graph/ops/records.h"
#include "graph/ops/ref.h"

namespace pippin::graph::ops {

std::int64_t conv_out(const ConvAttrs& a, int d, std::int64_t in, std::int64_t kernel) {
    const std::int64_t space = in + 2 * a.pad[d] - a.dilation[d] * (kernel - 1) - 1;
    return space < 0 ? 0 : space / a.stride[d] + 1;
}

namespace {

using Nodes = std::span<const NodePtr>;

constexpr const char* kAxis[] = {"height", "width"};

void check_attrs(const ConvAttrs& a) {
    for (int d = 0; d < 2; ++d) {
        if (a.stride[d] < 1) bad_value("stride must be at least 1, not ", a.stride[d]);
        if (a.dilation[d] < 1) bad_value("dilation must be at least 1, not ", a.dilation[d]);
        if (a.pad[d] < 0) bad_value("padding cannot be negative: ", a.pad[d]);
    }
    if (a.groups < 1) bad_value("groups must be at least 1, not ", a.groups);
}

// Checks the three shapes of one convolution against each other and returns the output's.
Shape conv_shape(const Shape& x, const Shape& w, const ConvAttrs& a) {
    check_attrs(a);
    if (x[1] % a.groups || w[0] % a.groups)
        bad_value("groups = ", a.groups, " must divide the input's ", x[1], " and the output's ",
                  w[0], " channels");
    if (w[1] * a.groups != x[1])
        bad_value("weight ", w, " with groups = ", a.groups, " takes ", w[1] * a.groups,
                  " channels, but the input has ", x[1]);
    Shape out{x[0], w[0], 0, 0};
    for (int d = 0; d < 2; ++d) {
        if (w[2 + d] < 1) bad_value("the kernel's ", kAxis[d], " must be at least 1");
        out[2 + d] = conv_out(a, d, x[2 + d], w[2 + d]);
        if (out[2 + d] < 1)
            bad_value("the kernel's ", kAxis[d], " ", a.dilation[d] * (w[2 + d] - 1) + 1,
                      " (with dilation) is larger than the padded input's ",
                      x[2 + d] + 2 * a.pad[d]);
    }
    return countable(out);
}
void need_output(const Node& dy, const Shape& expected) {
    if (!(dy.shape == expected))
        bad_value("the output's gradient must have shape ", expected, ", not ", dy.shape);
}
void check_operands(Nodes in, std::string_view first, std::string_view second) {
    need_rank(*in[0], 4, first);
    need_rank(*in[1], 4, second);
    need_same_dtype(*in[0], *in[1]);
    need_floating(*in[0]);
}

Type infer_conv(Nodes in, const Attrs& attrs) {
    check_operands(in, "the input", "the weight");
    return {in[0]->dtype, conv_shape(in[0]->shape, in[1]->shape, conv_attrs(attrs))};
}
Type infer_grad_input(Nodes in, const Attrs& attrs) {
    check_operands(in, "the output's gradient", "the weight");
    const ConvAttrs a = conv_attrs(attrs);
    const Shape &dy = in[0]->shape, &w = in[1]->shape;
    const Shape x{dy[0], w[1] * a.groups, conv_extent(attrs, 0), conv_extent(attrs, 1)};
    need_output(*in[0], conv_shape(countable(x), w, a));
    return {in[0]->dtype, x};
}
Type infer_grad_weight(Nodes in, const Attrs& attrs) {
    check_operands(in, "the input", "the output's gradient");
    const ConvAttrs a = conv_attrs(attrs);
    const Shape &x = in[0]->shape, &dy = in[1]->shape;
    check_attrs(a);
    const Shape w{dy[1], x[1] / a.groups, conv_extent(attrs, 0), conv_extent(attrs, 1)};
    need_output(*in[1], conv_shape(x, countable(w), a));
    return {in[0]->dtype, w};
}

Inputs grad_conv(const NodePtr& y, const NodePtr& dy) {
    const NodePtr &x = y->inputs[0], &w = y->inputs[1];
    const ConvAttrs a = conv_attrs(y->attrs);
    Inputs g{nullptr, nullptr};
    if (x->requires_grad) g[0] = conv2d_grad_input(dy, w, a, x->shape[2], x->shape[3]);
    if (w->requires_grad) g[1] = conv2d_grad_weight(x, dy, a, w->shape[2], w->shape[3]);
    return g;
}
Inputs grad_grad_input(const NodePtr& dx, const NodePtr& g_dx) {
    const NodePtr &dy = dx->inputs[0], &w = dx->inputs[1];
    const ConvAttrs a = conv_attrs(dx->attrs);
    Inputs g{nullptr, nullptr};
    if (dy->requires_grad) g[0] = conv2d(g_dx, w, a);
    if (w->requires_grad) g[1] = conv2d_grad_weight(g_dx, dy, a, w->shape[2], w->shape[3]);
    return g;
}
Inputs grad_grad_weight(const NodePtr& dw, const NodePtr& g_dw) {
    const NodePtr &x = dw->inputs[0], &dy = dw->inputs[1];
    const ConvAttrs a = conv_attrs(dw->attrs);
    Inputs g{nullptr, nullptr};
    if (x->requires_grad) g[0] = conv2d_grad_input(dy, g_dw, a, x->shape[2], x->shape[3]);
    if (dy->requires_grad) g[1] = conv2d(x, g_dw, a);
    return g;
}

// Calls f(x point, w point, y point) for each product a convolution adds up.
template <class F>
void for_each_product(const ConvAttrs& a, const Shape& x, const Shape& w, const Shape& y, F f) {
    const std::int64_t outs = w[0] / a.groups;
    for_each_point(y, [&](const Point& yp) {
        const std::int64_t first = yp[1] / outs * w[1];  // first input channel of this group
        for_each_point(Shape{w[1], w[2], w[3]}, [&](const Point& k) {
            const std::int64_t h = yp[2] * a.stride[0] - a.pad[0] + k[1] * a.dilation[0];
            const std::int64_t v = yp[3] * a.stride[1] - a.pad[1] + k[2] * a.dilation[1];
            if (h >= 0 && h < x[2] && v >= 0 && v < x[3])
                f(Point{yp[0], first + k[0], h, v}, Point{yp[1], k[0], k[1], k[2]}, yp);
        });
    });
}
RefArray ref_conv(const Node& n, Refs in) {
    RefArray y = zeros(n.shape);
    for_each_product(conv_attrs(n.attrs), in[0].shape, in[1].shape, y.shape,
                     [&](const Point& x, const Point& w, const Point& p) {
                         at(y, p) += at(in[0], x) * at(in[1], w);
                     });
    return y;
}
RefArray ref_grad_input(const Node& n, Refs in) {
    RefArray dx = zeros(n.shape);
    for_each_product(conv_attrs(n.attrs), dx.shape, in[1].shape, in[0].shape,
                     [&](const Point& x, const Point& w, const Point& y) {
                         at(dx, x) += at(in[0], y) * at(in[1], w);
                     });
    return dx;
}
RefArray ref_grad_weight(const Node& n, Refs in) {
    RefArray dw = zeros(n.shape);
    for_each_product(conv_attrs(n.attrs), in[0].shape, dw.shape, in[1].shape,
                     [&](const Point& x, const Point& w, const Point& y) {
                         at(dw, w) += at(in[0], x) * at(in[1], y);
                     });
    return dw;
}

}  // namespace

const OpRecord kConv2d{"conv2d", Kind::Heavy, infer_conv, grad_conv, ref_conv, nullptr};
const OpRecord kConv2dGradInput{"conv2d_grad_input", Kind::Heavy,    infer_grad_input,
                                grad_grad_input,     ref_grad_input, nullptr};
const OpRecord kConv2dGradWeight{"conv2d_grad_weight", Kind::Heavy,     infer_grad_weight,
                                 grad_grad_weight,     ref_grad_weight, nullptr};

}  // namespace pippin::graph::ops
