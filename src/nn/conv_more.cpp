// Convolutions of one dimension, and transposed ones.
#include "nn/conv_args.h"
#include "nn/repr.h"
#include "pippin/nn_layers.h"

namespace pippin::nn {
namespace {

void check_channels(const char* layer, std::int64_t in, std::int64_t out, std::int64_t groups) {
    if (groups <= 0)
        throw ValueError(fmt::format("{}: groups must be positive, got {}", layer, groups));
    if (in <= 0 || out <= 0)
        throw ValueError(
            fmt::format("{}: channels must be positive, got {} -> {}", layer, in, out));
    if (in % groups != 0 || out % groups != 0)
        throw ValueError(
            fmt::format("{}: in_channels {} and out_channels {} must be divisible by groups {}",
                        layer, in, out, groups));
}

void check_at_least(const char* layer, const char* name, Pair v, std::int64_t low) {
    if (v.h < low || v.w < low)
        throw ValueError(fmt::format("{}: {} must be at least {}, got {}", layer, name, low,
                                     v.h == v.w ? fmt::format("{}", v.h) : repr(v)));
}

// Uniform within 1 / sqrt(fan in), where PyTorch takes the second extent for the fan, transposed or
// not.
Tensor start(const Shape& shape, const Shape& weight) {
    double fan = 1;
    for (int d = 1; d < weight.rank(); ++d)
        fan *= static_cast<double>(weight[d]);
    const double bound = 1 / std::sqrt(fan);
    return uniform(shape, -bound, bound);
}

}  // namespace

Conv1d::Conv1d(std::int64_t in, std::int64_t out, Args args)
    : in_(in), out_(out), args_(std::move(args)) {
    check_channels("Conv1d", in, out, args_.groups);
    check_at_least("Conv1d", "kernel", args_.kernel, 1);
    check_at_least("Conv1d", "stride", args_.stride, 1);
    check_at_least("Conv1d", "padding", args_.padding.amount, 0);
    check_at_least("Conv1d", "dilation", args_.dilation, 1);
    check_padding_name("Conv1d", args_.padding.name, args_.stride != 1);
    const Shape shape{out, in / args_.groups, args_.kernel};
    weight = register_parameter("weight", start(shape, shape));
    if (args_.bias) bias = register_parameter("bias", start({out}, shape));
}

Tensor Conv1d::forward(const Tensor& x) {
    Conv1dOptions o{
        .stride = args_.stride, .pad = 0, .dilation = args_.dilation, .groups = args_.groups};
    const ConvPadding<std::int64_t>& p = args_.padding;
    if (args_.padding_mode == PadMode::Constant) {
        o.pad = p.amount;
        o.padding = p.name;
        return conv1d(x, weight, bias, o);
    }
    const Margins m = margins(p.name, p.amount, args_.kernel, args_.dilation);
    if (m.after == 0) return conv1d(x, weight, bias, o);
    return conv1d(pad(x, {m.before, m.after}, args_.padding_mode), weight, bias, o);
}

std::string Conv1d::extra_repr() const {
    std::string out = fmt::format("{}, {}, kernel_size=({},), stride=({},)", in_, out_,
                                  args_.kernel, args_.stride);
    if (!args_.padding.name.empty())
        out += ", padding=" + args_.padding.name;
    else if (args_.padding.amount != 0)
        out += fmt::format(", padding=({},)", args_.padding.amount);
    if (args_.dilation != 1) out += fmt::format(", dilation=({},)", args_.dilation);
    if (args_.groups != 1) out += fmt::format(", groups={}", args_.groups);
    if (!args_.bias) out += ", bias=False";
    return out + describe(args_.padding_mode);
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in, std::int64_t out, Args args)
    : in_(in), out_(out), args_(args) {
    constexpr const char* kName = "ConvTranspose2d";
    check_channels(kName, in, out, args.groups);
    check_at_least(kName, "kernel", args.kernel, 1);
    check_at_least(kName, "stride", args.stride, 1);
    check_at_least(kName, "padding", args.padding, 0);
    check_at_least(kName, "output_padding", args.output_padding, 0);
    check_at_least(kName, "dilation", args.dilation, 1);
    const Shape shape{in, out / args.groups, args.kernel.h, args.kernel.w};
    weight = register_parameter("weight", start(shape, shape));
    if (args.bias) bias = register_parameter("bias", start({out}, shape));
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
    return conv_transpose2d(x, weight, bias,
                            {.stride_h = args_.stride.h,
                             .stride_w = args_.stride.w,
                             .pad_h = args_.padding.h,
                             .pad_w = args_.padding.w,
                             .output_pad_h = args_.output_padding.h,
                             .output_pad_w = args_.output_padding.w,
                             .dilation_h = args_.dilation.h,
                             .dilation_w = args_.dilation.w,
                             .groups = args_.groups});
}

std::string ConvTranspose2d::extra_repr() const {
    std::string out = fmt::format("{}, {}, kernel_size={}, stride={}", in_, out_,
                                  repr(args_.kernel), repr(args_.stride));
    if (args_.padding != Pair(0)) out += ", padding=" + repr(args_.padding);
    if (args_.dilation != Pair(1)) out += ", dilation=" + repr(args_.dilation);
    if (args_.output_padding != Pair(0)) out += ", output_padding=" + repr(args_.output_padding);
    if (args_.groups != 1) out += fmt::format(", groups={}", args_.groups);
    if (!args_.bias) out += ", bias=False";
    return out;
}

}  // namespace pippin::nn
