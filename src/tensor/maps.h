// What the functions on feature maps share: checks, dtypes, the batch dimension that may be
// missing.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "graph/build.h"
#include "pippin/ops.h"
#include "tensor/site.h"
#include "tensor/variable.h"

namespace pippin {

/// The inputs' common dtype, or the autocast dtype: what a heavy op computes in.
DType heavy_dtype(const graph::NodePtr& a, const graph::NodePtr& b, const char* op);

// A 1-d vector laid along dimension 1 of x's shape.
inline graph::NodePtr per_channel(const graph::NodePtr& v, const graph::NodePtr& x) {
    Shape s;
    for (int d = 0; d < x->shape.rank(); ++d)
        s.push_back(d == 1 ? v->shape.numel() : 1);
    return graph::reshape(v, s);
}

inline void check_vector(const Tensor& t, std::int64_t n, const char* op, const char* what) {
    if (t.defined() && !(t.shape() == Shape{n}))
        throw ValueError(
            fmt::format("{}: {} must have shape [{}], it has {}", op, what, n, t.shape().str()));
}

/// Settles a padding that is given by name ("same", "valid" or, for numbers, ""): sets a.pad, and
/// gives x with zeros behind it along an axis where "same" needs an odd amount.
graph::NodePtr with_named_padding(const graph::NodePtr& x, const Shape& weight,
                                  std::string_view padding, graph::ConvAttrs& a, const char* op);

inline graph::PoolAttrs pool_attrs(const Pool2dOptions& o, const char* op) {
    if (o.kernel_h < 1 || o.kernel_w < 1 || o.stride_h < 0 || o.stride_w < 0 || o.dilation_h < 1 ||
        o.dilation_w < 1)
        throw ValueError(fmt::format("{}: kernel, stride and dilation must be positive", op));
    graph::PoolAttrs a;
    a.kernel[0] = o.kernel_h, a.kernel[1] = o.kernel_w;
    a.stride[0] = o.stride_h ? o.stride_h : o.kernel_h,
    a.stride[1] = o.stride_w ? o.stride_w : o.kernel_w;
    a.pad[0] = o.pad_h, a.pad[1] = o.pad_w;
    a.dilation[0] = o.dilation_h, a.dilation[1] = o.dilation_w;
    a.ceil_mode = o.ceil_mode, a.count_include_pad = o.count_include_pad;
    return a;
}

// Feature maps may come without the batch dimension, as in PyTorch.
template <class F>
Tensor on_maps(const Tensor& x, const Site& site, const char* op, F f) {
    return at_site(site, [&] {
        const graph::NodePtr& n = node_of(x);
        const int rank = n->shape.rank();
        if (rank != 3 && rank != 4)
            throw ValueError(fmt::format("{}: expected (N, C, H, W) or (C, H, W), got shape {}", op,
                                         n->shape.str()));
        if (rank == 4) return wrap(f(n));
        Shape s = n->shape;
        s.insert(0, 1);
        const graph::NodePtr y = f(graph::reshape(n, s));
        Shape out = y->shape;
        out.erase(0);
        return wrap(graph::reshape(y, out));
    });
}

}  // namespace pippin
