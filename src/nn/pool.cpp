// Pooling layers.
#include "nn/repr.h"

namespace pippin::nn {
namespace {

Pool2dOptions options(const char* layer, Pair kernel, Pair stride, Pair padding) {
    if (kernel.h < 1 || kernel.w < 1)
        throw ValueError(
            fmt::format("{}: the kernel must be at least 1, got {}", layer, repr(kernel)));
    if (stride.h < 0 || stride.w < 0)
        throw ValueError(
            fmt::format("{}: the stride cannot be negative, got {}", layer, repr(stride)));
    if (padding.h < 0 || padding.w < 0 || 2 * padding.h > kernel.h || 2 * padding.w > kernel.w)
        throw ValueError(fmt::format("{}: padding must be from 0 to half the kernel {}, got {}",
                                     layer, repr(kernel), repr(padding)));
    Pool2dOptions o;
    o.kernel_h = kernel.h, o.kernel_w = kernel.w;
    o.stride_h = stride.h ? stride.h : kernel.h, o.stride_w = stride.w ? stride.w : kernel.w;
    o.pad_h = padding.h, o.pad_w = padding.w;
    return o;
}

std::string describe(const Pool2dOptions& o) {
    return fmt::format("kernel_size={}, stride={}, padding={}",
                       repr_short({o.kernel_h, o.kernel_w}), repr_short({o.stride_h, o.stride_w}),
                       repr_short({o.pad_h, o.pad_w}));
}

}  // namespace

MaxPool2d::MaxPool2d(Pair kernel, Pair stride, Pair padding, Pair dilation, bool ceil_mode)
    : o_(options("MaxPool2d", kernel, stride, padding)) {
    if (dilation.h < 1 || dilation.w < 1)
        throw ValueError(
            fmt::format("MaxPool2d: dilation must be at least 1, got {}", repr(dilation)));
    o_.dilation_h = dilation.h, o_.dilation_w = dilation.w;
    o_.ceil_mode = ceil_mode;
}

Tensor MaxPool2d::forward(const Tensor& x) { return max_pool2d(x, o_); }

std::string MaxPool2d::extra_repr() const {
    return fmt::format("{}, dilation={}, ceil_mode={}", describe(o_),
                       repr_short({o_.dilation_h, o_.dilation_w}), repr(o_.ceil_mode));
}

AvgPool2d::AvgPool2d(Pair kernel, Pair stride, Pair padding, bool ceil_mode, bool count_include_pad)
    : o_(options("AvgPool2d", kernel, stride, padding)) {
    o_.ceil_mode = ceil_mode;
    o_.count_include_pad = count_include_pad;
}

Tensor AvgPool2d::forward(const Tensor& x) { return avg_pool2d(x, o_); }

std::string AvgPool2d::extra_repr() const { return describe(o_); }

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) {
    return adaptive_avg_pool2d(x, output_.h, output_.w);
}

std::string AdaptiveAvgPool2d::extra_repr() const { return "output_size=" + repr(output_); }

}  // namespace pippin::nn
