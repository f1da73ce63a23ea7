// Transposed and one-dimensional convolution, one-dimensional and adaptive maximum pooling: all of
// them conv2d, its gradient, or a 2-d pool of another shape.
#include "pippin/ops_conv.h"

#include "tensor/maps.h"
#include "tensor/promote.h"

namespace pippin {

namespace g = graph;
using graph::NodePtr;

namespace {

NodePtr with_bias(const NodePtr& y, const Tensor& bias) {
    if (!bias.defined()) return y;
    return g::add(y, g::expand_to(per_channel(g::cast(node_of(bias), y->dtype), y), y->shape));
}

// Rows or columns of a transposed convolution's result. `extra` rows of zeros behind x stand for
// an output padding as large as the stride.
struct Transposed {
    std::int64_t out, extra;
};
Transposed transposed(const char* op, std::int64_t in, std::int64_t kernel, std::int64_t stride,
                      std::int64_t pad, std::int64_t output_pad, std::int64_t dilation) {
    if (stride < 1 || dilation < 1 || pad < 0)
        throw ValueError(fmt::format(
            "{}: stride and dilation must be at least 1 and padding not negative, they are {}, {} "
            "and {}",
            op, stride, dilation, pad));
    if (output_pad < 0 || output_pad >= std::max(stride, dilation))
        throw ValueError(fmt::format(
            "{}: output padding must be below the stride or the dilation, but it is {} with stride "
            "{} and dilation {}",
            op, output_pad, stride, dilation));
    const std::int64_t out = (in - 1) * stride - 2 * pad + dilation * (kernel - 1) + output_pad + 1;
    if (out < 1)
        throw ValueError(fmt::format(
            "{}: the output would be empty: extent {}, kernel {}, stride {}, padding {}", op, in,
            kernel, stride, pad));
    return {out, output_pad / stride};
}

NodePtr transposed_conv(const char* op, const NodePtr& x, const NodePtr& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& o) {
    const DType t = heavy_dtype(x, weight, op);
    const Shape &s = x->shape, &w = weight->shape;
    if (o.groups < 1 || s[1] != w[0] || w[0] % o.groups)
        throw ValueError(fmt::format(
            "{}: weight {} takes {} channels in {} groups, the input of shape {} has {}", op,
            w.str(), w[0], o.groups, s.str(), s[1]));
    check_vector(bias, w[1] * o.groups, op, "the bias");
    const Transposed h = transposed(op, s[2], w[2], o.stride_h, o.pad_h, o.output_pad_h,
                                    o.dilation_h),
                     v = transposed(op, s[3], w[3], o.stride_w, o.pad_w, o.output_pad_w,
                                    o.dilation_w);
    g::ConvAttrs a;
    a.stride[0] = o.stride_h, a.stride[1] = o.stride_w;
    a.pad[0] = o.pad_h, a.pad[1] = o.pad_w;
    a.dilation[0] = o.dilation_h, a.dilation[1] = o.dilation_w;
    a.groups = o.groups;
    const NodePtr padded =
        g::pad(g::cast(x, t), {0, 0, 0, 0}, {0, 0, h.extra, v.extra}, {0, 0, 0, 0}, 0);
    return with_bias(g::conv2d_grad_input(padded, g::cast(weight, t), a, h.out, v.out), bias);
}

NodePtr with_height(const NodePtr& x) {
    Shape s = x->shape;
    s.insert(s.rank() - 1, 1);
    return g::reshape(x, s);
}

const NodePtr& kernel_of(const Tensor& weight, int rank, const char* op, const char* layout) {
    const NodePtr& w = node_of(weight, "the weight");
    if (w->shape.rank() != rank)
        throw ValueError(
            fmt::format("{}: the weight must be {}, it has shape {}", op, layout, w->shape.str()));
    return w;
}

// (N, C, L) or (C, L) as maps of height 1.
template <class F>
Tensor on_lines(const Tensor& x, const Site& site, const char* op, F f) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const int rank = n->shape.rank();
        if (rank != 2 && rank != 3)
            throw ValueError(
                fmt::format("{}: expected (N, C, L) or (C, L), got shape {}", op, n->shape.str()));
        NodePtr maps = with_height(n);
        if (rank == 2) maps = g::reshape(maps, {1, n->shape[0], 1, n->shape[1]});
        const NodePtr y = f(maps);
        Shape out = y->shape;
        out.erase(2);
        if (rank == 2) out.erase(0);
        return wrap(g::reshape(y, out));
    });
}

g::PoolAttrs line_pool(const Pool1dOptions& o, const char* op) {
    Pool2dOptions p;
    p.kernel_w = o.kernel, p.stride_w = o.stride, p.pad_w = o.pad, p.dilation_w = o.dilation;
    p.ceil_mode = o.ceil_mode, p.count_include_pad = o.count_include_pad;
    return pool_attrs(p, op);
}

// x with the windows of an adaptive pool along `dim` one behind the other, all of one length: a
// shorter window repeats its last element.
NodePtr windows_along(const NodePtr& x, int dim, std::int64_t out, std::int64_t* length) {
    const std::int64_t n = x->shape[dim];
    const auto begin = [&](std::int64_t i) { return i * n / out; };
    const auto end = [&](std::int64_t i) { return ((i + 1) * n + out - 1) / out; };
    *length = 0;
    for (std::int64_t i = 0; i < out; ++i)
        *length = std::max(*length, end(i) - begin(i));
    if (*length * out == n) return x;
    std::vector<std::int64_t> index;
    for (std::int64_t i = 0; i < out; ++i)
        for (std::int64_t k = 0; k < *length; ++k)
            index.push_back(std::min(begin(i) + k, end(i) - 1));
    return g::index_select(x, node_of(tensor(index, Options(x->device))), dim);
}

NodePtr adaptive_max(const NodePtr& x, std::int64_t h, std::int64_t w, const char* op) {
    if (h < 1 || w < 1)
        throw ValueError(
            fmt::format("{}: the output size must be at least 1, not [{}, {}]", op, h, w));
    if (x->shape[2] < 1 || x->shape[3] < 1)
        throw ValueError(fmt::format("{}: the input's height and width must be at least 1: {}", op,
                                     x->shape.str()));
    g::PoolAttrs a;
    const NodePtr rows = windows_along(x, 2, h, &a.kernel[0]);
    const NodePtr both = windows_along(rows, 3, w, &a.kernel[1]);
    a.stride[0] = a.kernel[0], a.stride[1] = a.kernel[1];
    return g::max_pool2d(both, a);
}

}  // namespace

NodePtr with_named_padding(const NodePtr& x, const Shape& weight, std::string_view padding,
                           g::ConvAttrs& a, const char* op) {
    if (padding.empty()) return x;
    if (padding != "same" && padding != "valid")
        throw ValueError(fmt::format(
            "{}: padding must be \"same\", \"valid\" or numbers, not \"{}\"", op, padding));
    if (a.pad[0] != 0 || a.pad[1] != 0)
        throw ValueError(
            fmt::format("{}: padding \"{}\" leaves no room for amounts of padding, but {} and {} "
                        "are given",
                        op, padding, a.pad[0], a.pad[1]));
    if (padding == "valid") return x;
    if (a.stride[0] != 1 || a.stride[1] != 1)
        throw ValueError(fmt::format(
            "{}: padding \"same\" needs stride 1, the stride is [{}, {}]; give amounts of padding",
            op, a.stride[0], a.stride[1]));
    std::int64_t behind[2];
    for (int i = 0; i < 2; ++i) {
        const std::int64_t all = a.dilation[i] * (weight[2 + i] - 1);
        a.pad[i] = all / 2;
        behind[i] = all - 2 * a.pad[i];
    }
    if (behind[0] == 0 && behind[1] == 0) return x;
    return g::pad(x, {0, 0, 0, 0}, {0, 0, behind[0], behind[1]}, {0, 0, 0, 0}, 0);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        ConvTranspose2dOptions o, Site site) {
    return on_maps(x, site, "conv_transpose2d", [&](const NodePtr& n) {
        const NodePtr& w = kernel_of(weight, 4, "conv_transpose2d", "(in, out / groups, kh, kw)");
        return transposed_conv("conv_transpose2d", n, w, bias, o);
    });
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv1dOptions o,
              Site site) {
    return on_lines(x, site, "conv1d", [&](const NodePtr& n) {
        const NodePtr& w = kernel_of(weight, 3, "conv1d", "(out, in / groups, k)");
        const DType t = heavy_dtype(n, w, "conv1d");
        check_vector(bias, w->shape[0], "conv1d", "the bias");
        g::ConvAttrs a;
        a.stride[1] = o.stride, a.pad[1] = o.pad, a.dilation[1] = o.dilation;
        a.groups = o.groups;
        const NodePtr kernel = with_height(w);
        const NodePtr input =
            with_named_padding(g::cast(n, t), kernel->shape, o.padding, a, "conv1d");
        return with_bias(g::conv2d(input, g::cast(kernel, t), a), bias);
    });
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        ConvTranspose1dOptions o, Site site) {
    return on_lines(x, site, "conv_transpose1d", [&](const NodePtr& n) {
        const NodePtr& w = kernel_of(weight, 3, "conv_transpose1d", "(in, out / groups, k)");
        ConvTranspose2dOptions a;
        a.stride_w = o.stride, a.pad_w = o.pad, a.output_pad_w = o.output_pad;
        a.dilation_w = o.dilation, a.groups = o.groups;
        return transposed_conv("conv_transpose1d", n, with_height(w), bias, a);
    });
}

Tensor max_pool1d(const Tensor& x, Pool1dOptions o, Site site) {
    return on_lines(x, site, "max_pool1d",
                    [&](const NodePtr& n) { return g::max_pool2d(n, line_pool(o, "max_pool1d")); });
}
Tensor avg_pool1d(const Tensor& x, Pool1dOptions o, Site site) {
    return on_lines(x, site, "avg_pool1d",
                    [&](const NodePtr& n) { return g::avg_pool2d(n, line_pool(o, "avg_pool1d")); });
}
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t out, Site site) {
    return on_lines(x, site, "adaptive_avg_pool1d",
                    [&](const NodePtr& n) { return g::adaptive_avg_pool2d(n, 1, out); });
}
Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t out, Site site) {
    return on_lines(x, site, "adaptive_max_pool1d", [&](const NodePtr& n) {
        return adaptive_max(n, 1, out, "adaptive_max_pool1d");
    });
}
Tensor adaptive_max_pool2d(const Tensor& x, std::int64_t out_h, std::int64_t out_w, Site site) {
    return on_maps(x, site, "adaptive_max_pool2d", [&](const NodePtr& n) {
        return adaptive_max(n, out_h, out_w, "adaptive_max_pool2d");
    });
}

}  // namespace pippin
