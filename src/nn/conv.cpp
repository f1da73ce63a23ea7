// The convolution layer.
#include "nn/conv_args.h"
#include "nn/repr.h"

namespace pippin::nn {
namespace {

void check(std::int64_t in, std::int64_t out, const Conv2d::Args& a) {
    const auto fail = [](const std::string& what) { throw ValueError("Conv2d: " + what); };
    if (a.groups <= 0) fail(fmt::format("groups must be positive, got {}", a.groups));
    if (in <= 0 || out <= 0) fail(fmt::format("channels must be positive, got {} -> {}", in, out));
    if (in % a.groups != 0 || out % a.groups != 0)
        fail(fmt::format("in_channels {} and out_channels {} must be divisible by groups {}", in,
                         out, a.groups));
    const auto at_least = [&](const char* name, Pair v, std::int64_t low) {
        if (v.h < low || v.w < low)
            fail(fmt::format("{} must be at least {}, got {}", name, low, repr(v)));
    };
    at_least("kernel", a.kernel, 1);
    at_least("stride", a.stride, 1);
    at_least("padding", a.padding, 0);
    at_least("dilation", a.dilation, 1);
}

}  // namespace

Conv2d::Conv2d(std::int64_t in, std::int64_t out, Args args) : in_(in), out_(out), args_(args) {
    check(in, out, args);
    const Shape shape{out, in / args.groups, args.kernel.h, args.kernel.w};
    // As in Linear: PyTorch's default is uniform within 1 / sqrt(fan in).
    const double bound = 1 / std::sqrt(static_cast<double>(shape[1] * shape[2] * shape[3]));
    weight = register_parameter("weight", uniform(shape, -bound, bound));
    if (args.bias) bias = register_parameter("bias", uniform({out}, -bound, bound));
}

Tensor Conv2d::forward(const Tensor& x) {
    Conv2dOptions o;
    o.stride_h = args_.stride.h, o.stride_w = args_.stride.w;
    o.pad_h = args_.padding.h, o.pad_w = args_.padding.w;
    o.dilation_h = args_.dilation.h, o.dilation_w = args_.dilation.w;
    o.groups = args_.groups;
    if (args_.padding_mode == PadMode::Constant || args_.padding == Pair(0))
        return conv2d(x, weight, bias, o);
    o.pad_h = o.pad_w = 0;
    const Pair p = args_.padding;
    return conv2d(pad(x, {p.w, p.w, p.h, p.h}, args_.padding_mode), weight, bias, o);
}

std::string Conv2d::extra_repr() const {
    std::string out = fmt::format("{}, {}, kernel_size={}, stride={}", in_, out_,
                                  repr(args_.kernel), repr(args_.stride));
    if (args_.padding != Pair(0)) out += ", padding=" + repr(args_.padding);
    if (args_.dilation != Pair(1)) out += ", dilation=" + repr(args_.dilation);
    if (args_.groups != 1) out += fmt::format(", groups={}", args_.groups);
    if (!args_.bias) out += ", bias=False";
    return out + describe(args_.padding_mode);
}

}  // namespace pippin::nn
