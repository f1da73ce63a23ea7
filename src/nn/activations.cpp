// Activations: as graph nodes, so that they fuse with what is around them.
#include "pippin/nn_activations.h"

#include "nn/pointwise.h"
#include "nn/repr.h"
#include "tensor/promote.h"
#include "tensor/site.h"

namespace pippin {

namespace g = graph;
using graph::NodePtr;
using nn::float_node;
using nn::negative;

namespace {

// f on the node of a floating-point tensor, with errors at the user's line.
template <class F>
Tensor activation(const char* op, const Tensor& x, const Site& site, F f) {
    return at_site(site, [&] { return wrap(f(float_node(x, op))); });
}

NodePtr above(const NodePtr& x, double bound) { return g::lt(g::full_like(x, bound), x); }
NodePtr at_most(const NodePtr& x, double bound) { return g::le(x, g::full_like(x, bound)); }

// scale * x for x > 0, else factor * (exp(x * inner) - 1).
NodePtr exponential_unit(const NodePtr& x, double scale, double factor, double inner) {
    const NodePtr positive = above(x, 0);
    // What is not used must not overflow: its gradient would be 0 * inf.
    const NodePtr low = g::mul_scalar(g::select(positive, g::full_like(x, 0), x), inner);
    const NodePtr grown = inner >= 0 ? nn::expm1(low) : g::add_scalar(g::exp(low), -1);
    return g::select(positive, g::mul_scalar(x, scale), g::mul_scalar(grown, factor));
}

// The ends themselves pass no gradient.
NodePtr clip(const NodePtr& x, double low, double high) {
    const NodePtr upper = g::select(g::le(g::full_like(x, high), x), g::full_like(x, high), x);
    return g::select(at_most(x, low), g::full_like(x, low), upper);
}

void check_range(const char* op, double low, double high) {
    if (!(low <= high))
        throw ValueError(fmt::format("{}: min_val {} must not be above max_val {}", op, low, high));
}
void check_lambd(const char* op, double lambd) {
    if (!(lambd >= 0)) throw ValueError(fmt::format("{}: lambd must be >= 0, got {}", op, lambd));
}
void check_alpha(const char* op, double alpha) {
    if (alpha == 0) throw ValueError(fmt::format("{}: alpha must not be 0", op));
}
void check_beta(const char* op, double beta) {
    if (beta == 0) throw ValueError(fmt::format("{}: beta must not be 0", op));
}

}  // namespace

Tensor elu(const Tensor& x, double alpha, Site site) {
    return activation("elu", x, site,
                      [&](const NodePtr& n) { return exponential_unit(n, 1, alpha, 1); });
}

Tensor selu(const Tensor& x, Site site) {
    constexpr double kAlpha = 1.6732632423543772848170429916717,
                     kScale = 1.0507009873554804934193349852946;
    return activation("selu", x, site, [&](const NodePtr& n) {
        return exponential_unit(n, kScale, kAlpha * kScale, 1);
    });
}

Tensor celu(const Tensor& x, double alpha, Site site) {
    return activation("celu", x, site, [&](const NodePtr& n) {
        check_alpha("celu", alpha);
        return exponential_unit(n, 1, alpha, 1 / alpha);
    });
}

Tensor mish(const Tensor& x, Site site) {
    return activation("mish", x, site, [](const NodePtr& n) {
        // tanh(log(1 + e^x)) is rational in e^x; by z = exp(-|x|) it neither overflows nor cancels:
        // (z^2 + 2z) / (z^2 + 2z + 2) below 0, (1 + 2z) / (1 + 2z + 2z^2) from 0.
        const NodePtr below = negative(n);
        const NodePtr z = g::exp(g::select(below, n, g::neg(n)));
        const NodePtr square = g::mul(z, z), twice = g::mul_scalar(z, 2);
        const NodePtr top = g::select(below, g::add(square, twice), g::add_scalar(twice, 1));
        const NodePtr rest = g::select(below, g::full_like(n, 2), g::mul_scalar(square, 2));
        return g::mul(n, g::div(top, g::add(top, rest)));
    });
}

Tensor hardswish(const Tensor& x, Site site) {
    return activation("hardswish", x, site, [](const NodePtr& n) {
        const NodePtr middle = g::mul(n, g::mul_scalar(g::add_scalar(n, 3), 1.0 / 6));
        const NodePtr upper = g::select(g::le(g::full_like(n, 3), n), n, middle);
        return g::select(at_most(n, -3), g::full_like(n, 0), upper);
    });
}

Tensor hardsigmoid(const Tensor& x, Site site) {
    return activation("hardsigmoid", x, site, [](const NodePtr& n) {
        return g::mul_scalar(clip(g::add_scalar(n, 3), 0, 6), 1.0 / 6);
    });
}

Tensor hardtanh(const Tensor& x, double min_val, double max_val, Site site) {
    return activation("hardtanh", x, site, [&](const NodePtr& n) {
        check_range("hardtanh", min_val, max_val);
        return clip(n, min_val, max_val);
    });
}

Tensor relu6(const Tensor& x, Site site) {
    return activation("relu6", x, site, [](const NodePtr& n) { return clip(n, 0, 6); });
}

Tensor prelu(const Tensor& x, const Tensor& weight, Site site) {
    return activation("prelu", x, site, [&](const NodePtr& n) {
        const NodePtr& w = float_node(weight, "prelu", "the weight");
        if (w->dtype != n->dtype)
            throw TypeError(fmt::format("prelu: the input is {} and the weight {}; cast one",
                                        name_of(n->dtype), name_of(w->dtype)));
        const Shape& s = n->shape;
        const std::int64_t channels = s.rank() >= 2 ? s[1] : 1, count = w->shape.numel();
        if (w->shape.rank() > 1 || (count != 1 && count != channels))
            throw ValueError(fmt::format(
                "prelu: the weight must have 1 element or one for each of {} channels, it has "
                "shape {} (input {})",
                channels, w->shape.str(), s.str()));
        Shape row;
        for (int d = 0; d < s.rank(); ++d)
            row.push_back(d == 1 ? count : 1);
        if (s.rank() < 2) row = s.rank() == 1 ? Shape{1} : Shape{};
        const NodePtr slope = g::expand_to(g::reshape(w, row), s);
        return g::select(above(n, 0), n, g::mul(slope, n));
    });
}

Tensor softplus(const Tensor& x, double beta, double threshold, Site site) {
    return activation("softplus", x, site, [&](const NodePtr& n) {
        check_beta("softplus", beta);
        const NodePtr scaled = g::mul_scalar(n, beta);
        const NodePtr soft = g::mul_scalar(nn::log_sigmoid(g::neg(scaled)), -1 / beta);
        return g::select(above(scaled, threshold), n, soft);
    });
}

Tensor softsign(const Tensor& x, Site site) {
    return activation("softsign", x, site,
                      [](const NodePtr& n) { return g::div(n, g::add_scalar(g::abs(n), 1)); });
}

Tensor logsigmoid(const Tensor& x, Site site) {
    return activation("logsigmoid", x, site, nn::log_sigmoid);
}

Tensor tanhshrink(const Tensor& x, Site site) {
    return activation("tanhshrink", x, site,
                      [](const NodePtr& n) { return g::sub(n, g::tanh(n)); });
}

Tensor softshrink(const Tensor& x, double lambd, Site site) {
    return activation("softshrink", x, site, [&](const NodePtr& n) {
        check_lambd("softshrink", lambd);
        const NodePtr zero = g::full_like(n, 0);
        // Within the bounds 0; NaN is in no range and stays by the last branch.
        const NodePtr inside = g::bit_and(g::le(g::full_like(n, -lambd), n), at_most(n, lambd));
        const NodePtr moved =
            g::select(above(n, lambd), g::add_scalar(n, -lambd), g::add_scalar(n, lambd));
        return g::select(inside, zero, moved);
    });
}

Tensor hardshrink(const Tensor& x, double lambd, Site site) {
    return activation("hardshrink", x, site, [&](const NodePtr& n) {
        const NodePtr inside = g::bit_and(g::le(g::full_like(n, -lambd), n), at_most(n, lambd));
        return g::select(inside, g::full_like(n, 0), n);
    });
}

Tensor threshold(const Tensor& x, double threshold, double value, Site site) {
    return activation("threshold", x, site, [&](const NodePtr& n) {
        return g::select(at_most(n, threshold), g::full_like(n, value), n);
    });
}

Tensor glu(const Tensor& x, std::int64_t dim, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = float_node(x, "glu");
        if (n->shape.rank() == 0) throw ValueError("glu: the input needs at least 1 dimension");
        const int d = normalized_dim(dim, n->shape.rank());
        const std::int64_t extent = n->shape[d];
        if (extent % 2 != 0)
            throw ValueError(
                fmt::format("glu: dimension {} must have an even extent, it has {} (shape {})", dim,
                            extent, n->shape.str()));
        return narrow(x, d, 0, extent / 2) * sigmoid(narrow(x, d, extent / 2, extent / 2));
    });
}

Tensor softmin(const Tensor& x, std::int64_t dim, Site site) {
    return at_site(site, [&] { return softmax(-x, dim); });
}

namespace nn {

CELU::CELU(double alpha) : alpha_(alpha) { check_alpha("CELU", alpha); }
Hardtanh::Hardtanh(double min_val, double max_val) : low_(min_val), high_(max_val) {
    check_range("Hardtanh", min_val, max_val);
}
Softplus::Softplus(double beta, double threshold) : beta_(beta), threshold_(threshold) {
    check_beta("Softplus", beta);
}
Softshrink::Softshrink(double lambd) : lambd_(lambd) { check_lambd("Softshrink", lambd); }
PReLU::PReLU(std::int64_t num_parameters, double init) {
    if (num_parameters < 1)
        throw ValueError(
            fmt::format("PReLU: num_parameters must be positive, got {}", num_parameters));
    weight = register_parameter("weight", full({num_parameters}, init));
}

std::string ELU::extra_repr() const { return "alpha=" + repr(alpha_); }
std::string CELU::extra_repr() const { return "alpha=" + repr(alpha_); }
std::string GELU::extra_repr() const {
    return fmt::format("approximate='{}'", kind_ == Gelu::Tanh ? "tanh" : "none");
}
std::string LeakyReLU::extra_repr() const { return "negative_slope=" + repr(slope_); }
std::string Hardtanh::extra_repr() const {
    return fmt::format("min_val={}, max_val={}", repr(low_), repr(high_));
}
std::string Softplus::extra_repr() const {
    return fmt::format("beta={}, threshold={}", repr(beta_), repr(threshold_));
}
std::string Softshrink::extra_repr() const { return repr(lambd_); }
std::string Hardshrink::extra_repr() const { return repr(lambd_); }
std::string Threshold::extra_repr() const {
    return fmt::format("threshold={}, value={}", repr(threshold_), repr(value_));
}
std::string GLU::extra_repr() const { return fmt::format("dim={}", dim_); }
std::string Softmax::extra_repr() const { return fmt::format("dim={}", dim_); }
std::string LogSoftmax::extra_repr() const { return fmt::format("dim={}", dim_); }
std::string Softmin::extra_repr() const { return fmt::format("dim={}", dim_); }
std::string PReLU::extra_repr() const { return fmt::format("num_parameters={}", weight.numel()); }

}  // namespace nn
}  // namespace pippin
