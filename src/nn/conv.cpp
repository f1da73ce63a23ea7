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
    at_least("padding", a.padding.amount, 0);
    at_least("dilation", a.dilation, 1);
    check_padding_name("Conv2d", a.padding.name, a.stride != Pair(1));
}

}  // namespace

Conv2d::Conv2d(std::int64_t in, std::int64_t out, Args args)
    : in_(in), out_(out), args_(std::move(args)) {
    check(in, out, args_);
    const Shape shape{out, in / args_.groups, args_.kernel.h, args_.kernel.w};
    // As in Linear: PyTorch's default is uniform within 1 / sqrt(fan in).
    const double bound = 1 / std::sqrt(static_cast<double>(shape[1] * shape[2] * shape[3]));
    weight = register_parameter("weight", uniform(shape, -bound, bound));
    if (args_.bias) bias = register_parameter("bias", uniform({out}, -bound, bound));
}

Tensor Conv2d::forward(const Tensor& x) {
    Conv2dOptions o;
    o.stride_h = args_.stride.h, o.stride_w = args_.stride.w;
    o.dilation_h = args_.dilation.h, o.dilation_w = args_.dilation.w;
    o.groups = args_.groups;
    const ConvPadding<Pair>& p = args_.padding;
    if (args_.padding_mode == PadMode::Constant) {
        o.pad_h = p.amount.h, o.pad_w = p.amount.w;
        o.padding = p.name;
        return conv2d(x, weight, bias, o);
    }
    const Margins h = margins(p.name, p.amount.h, args_.kernel.h, args_.dilation.h),
                  w = margins(p.name, p.amount.w, args_.kernel.w, args_.dilation.w);
    if (h.after == 0 && w.after == 0) return conv2d(x, weight, bias, o);
    return conv2d(pad(x, {w.before, w.after, h.before, h.after}, args_.padding_mode), weight, bias,
                  o);
}

std::string Conv2d::extra_repr() const {
    std::string out = fmt::format("{}, {}, kernel_size={}, stride={}", in_, out_,
                                  repr(args_.kernel), repr(args_.stride));
    if (!args_.padding.name.empty())
        out += ", padding=" + args_.padding.name;
    else if (args_.padding.amount != Pair(0))
        out += ", padding=" + repr(args_.padding.amount);
    if (args_.dilation != Pair(1)) out += ", dilation=" + repr(args_.dilation);
    if (args_.groups != 1) out += fmt::format(", groups={}", args_.groups);
    if (!args_.bias) out += ", bias=False";
    return out + describe(args_.padding_mode);
}

}  // namespace pippin::nn
