// Group, instance and RMS normalisation.
#include <limits>

#include "nn/pointwise.h"
#include "pippin/nn_norms.h"
#include "tensor/site.h"

namespace pippin {

namespace g = graph;
using graph::IntList;
using graph::NodePtr;

namespace {

// Statistics and formulas of half inputs are in float32.
NodePtr wide(const NodePtr& n) { return is_half(n->dtype) ? g::cast(n, DType::Float32) : n; }

void check_channels(const Tensor& t, std::int64_t channels, const char* op, const char* what) {
    if (t.defined() && !(t.shape() == Shape{channels}))
        throw ValueError(fmt::format("{}: {} must have shape [{}], it has {}", op, what, channels,
                                     t.shape().str()));
}

NodePtr shaped(const Tensor& t, double otherwise, const Shape& shape, const NodePtr& like) {
    return t.defined() ? g::reshape(g::cast(node_of(t), like->dtype), shape)
                       : g::full(otherwise, like->dtype, shape, like->device);
}

struct Statistics {
    NodePtr mean, variance;  ///< extent 1 on the dims; they carry no gradient of their own
};
Statistics statistics(const NodePtr& x, const IntList& dims) {
    double n = 1;
    for (const std::int64_t d : dims)
        n *= static_cast<double>(x->shape[static_cast<int>(d)]);
    const NodePtr plain = g::detach(x);
    const NodePtr sum = g::reduce_sum(plain, dims), m2 = g::reduce_m2(plain, dims);
    return {g::div(sum, g::full_like(sum, n)), g::div(m2, g::full_like(m2, n))};
}

NodePtr normalized(const NodePtr& x, const Statistics& s, double eps, const NodePtr& weight,
                   const NodePtr& bias, const IntList& dims) {
    return g::normalize(x, s.mean, g::rsqrt(g::add_scalar(s.variance, eps)), weight, bias, dims);
}

// (N, C, ...) as (N, C, all the rest).
NodePtr planes(const NodePtr& x) {
    std::int64_t rest = 1;
    for (int d = 2; d < x->shape.rank(); ++d)
        rest *= x->shape[d];
    return g::reshape(x, {x->shape[0], x->shape[1], rest});
}

void check_rank(const NodePtr& x, int rank, const char* op, const char* expected) {
    if (x->shape.rank() < rank)
        throw ValueError(
            fmt::format("{}: expected {}, got shape {}", op, expected, x->shape.str()));
}

}  // namespace

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps, Site site) {
    return at_site(site, [&] {
        const NodePtr& input = nn::float_node(x, "group_norm");
        check_rank(input, 2, "group_norm", "(N, C, ...)");
        const std::int64_t samples = input->shape[0], channels = input->shape[1];
        if (groups <= 0 || channels % groups != 0)
            throw ValueError(
                fmt::format("group_norm: {} channels cannot be divided into {} groups (shape {})",
                            channels, groups, input->shape.str()));
        check_channels(weight, channels, "group_norm", "the weight");
        check_channels(bias, channels, "group_norm", "the bias");
        const NodePtr flat = planes(wide(input));
        const std::int64_t each = channels / groups;
        const NodePtr v = g::reshape(flat, {samples, groups, each, flat->shape[2]});
        const Shape row{1, groups, each, 1};
        const IntList dims{2, 3};
        const NodePtr y = normalized(v, statistics(v, dims), eps, shaped(weight, 1, row, v),
                                     shaped(bias, 0, row, v), dims);
        return wrap(g::cast(g::reshape(y, input->shape), input->dtype));
    });
}

Tensor instance_norm(const Tensor& x, Tensor running_mean, Tensor running_var, const Tensor& weight,
                     const Tensor& bias, bool use_input_stats, double momentum, double eps,
                     Site site) {
    return at_site(site, [&] {
        const NodePtr& input = nn::float_node(x, "instance_norm");
        check_rank(input, 3, "instance_norm", "(N, C, L, ...)");
        const std::int64_t channels = input->shape[1];
        check_channels(weight, channels, "instance_norm", "the weight");
        check_channels(bias, channels, "instance_norm", "the bias");
        check_channels(running_mean, channels, "instance_norm", "running_mean");
        check_channels(running_var, channels, "instance_norm", "running_var");
        if (!use_input_stats && (!running_mean.defined() || !running_var.defined()))
            throw ValueError(
                "instance_norm: without use_input_stats, running_mean and running_var must be "
                "given");
        const NodePtr v = planes(wide(input));
        const std::int64_t length = v->shape[2];
        const Shape row{1, channels, 1};
        const NodePtr w = shaped(weight, 1, row, v), b = shaped(bias, 0, row, v);
        if (!use_input_stats) {
            const NodePtr mean = shaped(running_mean, 0, row, v),
                          inverse = g::rsqrt(g::add_scalar(shaped(running_var, 1, row, v), eps));
            const NodePtr scale = g::mul(inverse, w);
            const NodePtr shift = g::sub(b, g::mul(mean, scale));
            const NodePtr y =
                g::add(g::mul(v, g::expand_to(scale, v->shape)), g::expand_to(shift, v->shape));
            return wrap(g::cast(g::reshape(y, input->shape), input->dtype));
        }
        if (length == 1)
            throw ValueError(fmt::format(
                "instance_norm: needs more than one value per sample and channel, got shape {}",
                input->shape.str()));
        const IntList dims{2};
        const Statistics s = statistics(v, dims);
        const NodePtr y = normalized(v, s, eps, w, b, dims);
        // The running statistics move by the mean over the samples, the variance unbiased.
        const auto move = [&](Tensor& running, const NodePtr& now) {
            if (!running.defined()) return;
            const NoGrad off;
            const NodePtr sum = g::reshape(g::reduce_sum(now, {0}), {channels});
            const Tensor mean = wrap(g::mul_scalar(sum, 1 / static_cast<double>(input->shape[0])));
            running.assign_(running * (1 - momentum) + mean * momentum);
        };
        const auto n = static_cast<double>(length);
        move(running_mean, s.mean);
        move(running_var, g::mul_scalar(s.variance, n / (n - 1)));
        return wrap(g::cast(g::reshape(y, input->shape), input->dtype));
    });
}

Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight,
                std::optional<double> eps, Site site) {
    return at_site(site, [&] {
        const NodePtr& input = nn::float_node(x, "rms_norm");
        const int lead = input->shape.rank() - shape.rank();
        bool fits = lead >= 0 && shape.rank() > 0;
        for (int d = 0; fits && d < shape.rank(); ++d)
            fits = input->shape[lead + d] == shape[d];
        if (!fits)
            throw ValueError(fmt::format("rms_norm: shape {} does not end in {}",
                                         input->shape.str(), shape.str()));
        if (weight.defined() && !(weight.shape() == shape))
            throw ValueError(fmt::format("rms_norm: the weight must have shape {}, it has {}",
                                         shape.str(), weight.shape().str()));
        const NodePtr v = wide(input);
        const double floor = eps ? *eps
                             : v->dtype == DType::Float64
                                 ? std::numeric_limits<double>::epsilon()
                                 : static_cast<double>(std::numeric_limits<float>::epsilon());
        IntList dims;
        for (int d = lead; d < input->shape.rank(); ++d)
            dims.push_back(d);
        const NodePtr sum = g::reduce_sum(g::mul(v, v), dims);
        const NodePtr mean = g::div(sum, g::full_like(sum, static_cast<double>(shape.numel())));
        NodePtr y = g::mul(v, g::expand_to(g::rsqrt(g::add_scalar(mean, floor)), v->shape));
        if (weight.defined())
            y = g::mul(y, g::expand_to(g::cast(node_of(weight), v->dtype), v->shape));
        return wrap(g::cast(y, input->dtype));
    });
}

}  // namespace pippin
