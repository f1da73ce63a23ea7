// Losses of one number for each element, and those over pairs of vectors.
#include "pippin/losses.h"

#include "nn/loss_reduction.h"
#include "nn/pointwise.h"
#include "tensor/autocast.h"
#include "tensor/promote.h"
#include "tensor/site.h"

namespace pippin {

namespace g = graph;
using graph::NodePtr;
using nn::negative;
using nn::reduce_loss;

namespace {

// Input and target in their common dtype and shape.
Pair compared(const Tensor& input, const Tensor& target, const char* op, bool broadcast) {
    if (!broadcast && !(node_of(input, "the input")->shape == node_of(target, "the target")->shape))
        throw ValueError(
            fmt::format("{}: input and target must have one shape, they have {} and {}", op,
                        input.shape().str(), target.shape().str()));
    Pair p = promoted(input, target);
    if (!is_floating(p.a->dtype))
        throw TypeError(fmt::format("{}: the inputs must be floating point, they are {} and {}", op,
                                    name_of(input.dtype()), name_of(target.dtype())));
    return {float32_under_autocast(p.a), float32_under_autocast(p.b)};
}

// f(input, target) by elements, then the reduction.
template <class F>
Tensor elementwise(const char* op, const Tensor& input, const Tensor& target, Reduction reduction,
                   const Site& site, F f, bool broadcast = false) {
    return at_site(site, [&] {
        const Pair p = compared(input, target, op, broadcast);
        return wrap(reduce_loss(f(p.a, p.b), reduction));
    });
}

NodePtr times_weight(const NodePtr& losses, const Tensor& weight) {
    if (!weight.defined()) return losses;
    return g::mul(losses, g::expand_to(g::cast(node_of(weight), losses->dtype), losses->shape));
}

NodePtr at_least(const NodePtr& x, double bound) {
    const NodePtr b = g::full_like(x, bound);
    return g::select(g::lt(x, b), b, x);
}

// Quadratic near 0, linear from `knee` on: half the square over `knee` times `scale`.
NodePtr bent(const NodePtr& difference, const NodePtr& inside, double knee, double scale) {
    const NodePtr a = g::abs(difference);
    const NodePtr square = g::mul_scalar(g::mul(difference, difference), scale / (2 * knee));
    return g::select(inside, square, g::mul_scalar(g::add_scalar(a, -knee / 2), scale));
}

NodePtr equals(const NodePtr& x, double v) { return g::eq(x, g::full_like(x, v)); }

Reduction plain(KlReduction r) {
    return r == KlReduction::None   ? Reduction::None
           : r == KlReduction::Mean ? Reduction::Mean
                                    : Reduction::Sum;
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
    return reduction == Reduction::None  ? losses
           : reduction == Reduction::Sum ? sum(losses)
                                         : mean(losses);
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction, Site site) {
    const auto square = [](const NodePtr& x, const NodePtr& t) {
        const NodePtr d = g::sub(x, t);
        return g::mul(d, d);
    };
    return elementwise("mse_loss", input, target, reduction, site, square, true);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction, Site site) {
    const auto error = [](const NodePtr& x, const NodePtr& t) { return g::abs(g::sub(x, t)); };
    return elementwise("l1_loss", input, target, reduction, site, error, true);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, Reduction reduction, double beta,
                      Site site) {
    return at_site(site, [&] {
        if (!(beta >= 0))
            throw ValueError(fmt::format("smooth_l1_loss: beta must be >= 0, got {}", beta));
        if (beta == 0) return l1_loss(input, target, reduction);
        const auto f = [&](const NodePtr& x, const NodePtr& t) {
            const NodePtr d = g::sub(x, t);
            return bent(d, g::lt(g::abs(d), g::full_like(d, beta)), beta, 1);
        };
        return elementwise("smooth_l1_loss", input, target, reduction, site, f, true);
    });
}

Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction, double delta,
                  Site site) {
    return at_site(site, [&] {
        if (!(delta > 0))
            throw ValueError(fmt::format("huber_loss: delta must be positive, got {}", delta));
        const auto f = [&](const NodePtr& x, const NodePtr& t) {
            const NodePtr d = g::sub(x, t);
            return bent(d, g::le(g::abs(d), g::full_like(d, delta)), delta, delta);
        };
        return elementwise("huber_loss", input, target, reduction, site, f, true);
    });
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                            Reduction reduction, Site site) {
    const auto f = [&](const NodePtr& x, const NodePtr& t) {
        // The input's gradient is (x - t) / (x (1 - x)) with a floor under the divisor, which is
        // finite where the logarithms' own is not; the value's logarithms differentiate the target.
        const NodePtr probability = g::detach(x), other = g::add_scalar(g::neg(probability), 1);
        const NodePtr log_x = at_least(g::log(probability), -100),
                      log_other = at_least(g::log(other), -100);
        const NodePtr against = g::add_scalar(g::neg(t), 1);
        const NodePtr value = g::neg(g::add(g::mul(t, log_x), g::mul(against, log_other)));
        const NodePtr slope =
            g::div(g::sub(probability, g::detach(t)), at_least(g::mul(other, probability), 1e-12));
        const NodePtr zero = g::sub(x, probability);
        return times_weight(g::add(value, g::mul(zero, slope)), weight);
    };
    return elementwise("binary_cross_entropy", input, target, reduction, site, f);
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const Tensor& weight, Reduction reduction,
                                        const Tensor& pos_weight, Site site) {
    const auto f = [&](const NodePtr& x, const NodePtr& t) {
        // (1 - t) x - w log(sigmoid(x)) with w = 1 + (pos_weight - 1) t, arranged so that nothing
        // cancels: x (-t pos_weight below 0, 1 - t from 0) + w log(1 + exp(-|x|)).
        const NodePtr below = negative(x);
        const NodePtr soft = nn::log1p(g::exp(g::select(below, x, g::neg(x))));
        NodePtr positive = t, weighted = soft;
        if (pos_weight.defined()) {
            const NodePtr p = g::expand_to(g::cast(node_of(pos_weight), x->dtype), x->shape);
            positive = g::mul(t, p);
            weighted = g::mul(g::add_scalar(g::sub(positive, t), 1), soft);
        }
        const NodePtr slope = g::select(below, g::neg(positive), g::add_scalar(g::neg(t), 1));
        return times_weight(g::add(g::mul(slope, x), weighted), weight);
    };
    return elementwise("binary_cross_entropy_with_logits", input, target, reduction, site, f);
}

Tensor kl_div(const Tensor& input, const Tensor& target, KlReduction reduction, bool log_target,
              Site site) {
    return at_site(site, [&] {
        const auto f = [&](const NodePtr& x, const NodePtr& t) {
            if (log_target) return g::mul(g::exp(t), g::sub(t, x));
            // t log t is 0 at 0; a logarithm that is not used must stay finite.
            const NodePtr none = equals(t, 0);
            const NodePtr safe = g::select(none, g::full_like(t, 1), t);
            const NodePtr entropy = g::select(none, g::full_like(t, 0), g::mul(t, g::log(safe)));
            return g::sub(entropy, g::mul(t, x));
        };
        const Tensor loss = elementwise("kl_div", input, target, plain(reduction), site, f, true);
        if (reduction != KlReduction::BatchMean) return loss;
        if (input.dim() == 0)
            throw ValueError("kl_div: the mean over a batch needs at least 1 dimension");
        return loss / input.size(0);
    });
}

Tensor soft_margin_loss(const Tensor& input, const Tensor& target, Reduction reduction, Site site) {
    const auto f = [](const NodePtr& x, const NodePtr& t) {
        return g::neg(nn::log_sigmoid(g::mul(t, x)));
    };
    return elementwise("soft_margin_loss", input, target, reduction, site, f, true);
}

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin,
                            Reduction reduction, Site site) {
    const auto f = [&](const NodePtr& x, const NodePtr& t) {
        const NodePtr zero = g::full_like(x, 0);
        const NodePtr far =
            g::select(equals(t, 1), zero, g::relu(g::add_scalar(g::neg(x), margin)));
        return g::add(far, g::select(equals(t, -1), zero, x));
    };
    return elementwise("hinge_embedding_loss", input, target, reduction, site, f, true);
}

Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           double margin, Reduction reduction, Site site) {
    return at_site(site, [&] {
        if (input1.dim() != target.dim() || input2.dim() != target.dim())
            throw ValueError(fmt::format(
                "margin_ranking_loss: all inputs must have as many dimensions as the target, the "
                "shapes are {}, {} and {}",
                input1.shape().str(), input2.shape().str(), target.shape().str()));
        return reduced(relu(-target * (input1 - input2) + margin), reduction);
    });
}

Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             double margin, Reduction reduction, Site site) {
    return at_site(site, [&] {
        const bool rows = input1.dim() == 2 && input2.dim() == 2 && target.dim() == 1;
        const bool vectors = input1.dim() == 1 && input2.dim() == 1 && target.dim() == 0;
        if (!rows && !vectors)
            throw ValueError(fmt::format(
                "cosine_embedding_loss: expected (N, D), (N, D), (N) or (D), (D), (), got {}, {} "
                "and {}",
                input1.shape().str(), input2.shape().str(), target.shape().str()));
        constexpr double kEps = 1e-12;  // as in PyTorch, on the squares
        const Tensor dot = sum(input1 * input2, {-1});
        const Tensor cosine =
            dot / sqrt((sum(square(input1), {-1}) + kEps) * (sum(square(input2), {-1}) + kEps));
        const Tensor zero = zeros_like(cosine);
        const Tensor loss =
            where(target == 1, 1 - cosine, zero) + where(target == -1, relu(cosine - margin), zero);
        return reduced(loss, reduction);
    });
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap, Reduction reduction,
                           Site site) {
    return at_site(site, [&] {
        if (!(margin > 0))
            throw ValueError(
                fmt::format("triplet_margin_loss: margin must be positive, got {}", margin));
        if (anchor.dim() != positive.dim() || anchor.dim() != negative.dim())
            throw ValueError(fmt::format(
                "triplet_margin_loss: the inputs must have as many dimensions each, the shapes are "
                "{}, {} and {}",
                anchor.shape().str(), positive.shape().str(), negative.shape().str()));
        Tensor far = pairwise_distance(anchor, negative, p, eps);
        if (swap) far = minimum(far, pairwise_distance(positive, negative, p, eps));
        return reduced(relu(margin + pairwise_distance(anchor, positive, p, eps) - far), reduction);
    });
}

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input, double eps,
                        Reduction reduction, Site site) {
    const auto f = [&](const NodePtr& x, const NodePtr& t) {
        if (log_input) return g::sub(g::exp(x), g::mul(t, x));
        return g::sub(x, g::mul(t, g::log(g::add_scalar(x, eps))));
    };
    return elementwise("poisson_nll_loss", input, target, reduction, site, f, true);
}

Tensor normalize(const Tensor& x, double p, std::int64_t dim, double eps, Site site) {
    return at_site(site, [&] { return x / clamp(norm(x, p, {dim}, true), eps); });
}

Tensor cosine_similarity(const Tensor& x, const Tensor& y, std::int64_t dim, double eps,
                         Site site) {
    return at_site(site, [&] {
        const Pair p = compared(x, y, "cosine_similarity", true);
        const Tensor a = wrap(p.a), b = wrap(p.b);
        const auto direction = [&](const Tensor& t) {
            return t / clamp(norm(t, 2, {dim}, true), eps);
        };
        return sum(direction(a) * direction(b), {dim});
    });
}

Tensor pairwise_distance(const Tensor& x, const Tensor& y, double p, double eps, bool keepdim,
                         Site site) {
    return at_site(site, [&] { return norm(x - y + eps, p, {-1}, keepdim); });
}

}  // namespace pippin
