// Losses over classes: cross entropy and negative log-likelihood.
#include <fmt/format.h>

#include "nn/loss_reduction.h"
#include "nn/pointwise.h"
#include "pippin/losses.h"
#include "tensor/autocast.h"
#include "tensor/site.h"

namespace pippin {

namespace g = graph;
using g::IntList;
using graph::NodePtr;
using nn::reduce_loss;
using nn::sum_all;

namespace {

// The scores of shape (N, C, d1, ...) with the classes last, (N * d1 * ..., C).
struct Scores {
    NodePtr rows;
    Shape shape;  ///< without the classes
    std::int64_t classes;
};
NodePtr classes_last(const NodePtr& x) {
    const int rank = x->shape.rank();
    if (rank <= 2) return x;
    IntList order{0};
    for (int d = 2; d < rank; ++d)
        order.push_back(d);
    order.push_back(1);
    return g::permute(x, order);
}
Scores class_scores(const Tensor& scores, const char* op) {
    const NodePtr& x = nn::float_node(scores, op, "the scores");
    const int rank = x->shape.rank();
    if (rank < 1)
        throw ValueError(
            fmt::format("{}: the scores must be (N, C, ...) or (C), they are 0-d", op));
    Scores s;
    for (int d = 0; d < rank; ++d)
        if (d != (rank == 1 ? 0 : 1)) s.shape.push_back(x->shape[d]);
    s.classes = rank == 1 ? x->shape[0] : x->shape[1];
    s.rows = g::reshape(classes_last(x), {s.shape.numel(), s.classes});
    return s;
}

// Class numbers in a row, int64, for scores of this shape.
NodePtr class_targets(const Tensor& target, const Scores& s, const char* op) {
    const NodePtr& t = node_of(target, "the target");
    if (t->dtype != DType::Int64 && t->dtype != DType::Int32 && t->dtype != DType::UInt8)
        throw TypeError(fmt::format("{}: targets are class indices (int64), these are {}", op,
                                    name_of(t->dtype)));
    if (!(t->shape == s.shape))
        throw ValueError(
            fmt::format("{}: scores of {} classes and shape {} besides need targets of shape {}, "
                        "these have {}",
                        op, s.classes, s.shape.str(), s.shape.str(), t->shape.str()));
    return g::cast(g::reshape(t, {t->shape.numel()}), DType::Int64);
}

// The classes' weights as a row (1, C), or null.
NodePtr class_weights(const Tensor& weight, const Scores& s, const char* op) {
    if (!weight.defined()) return {};
    const NodePtr& w = node_of(weight);
    if (!(w->shape == Shape{s.classes}))
        throw ValueError(
            fmt::format("{}: the weight must have shape [{}], one for each class, it "
                        "has {}",
                        op, s.classes, w->shape.str()));
    if (w->dtype != s.rows->dtype && !is_half(s.rows->dtype))
        throw TypeError(fmt::format("{}: the scores are {} and the weight is {}; cast one", op,
                                    name_of(s.rows->dtype), name_of(w->dtype)));
    return g::reshape(g::cast(w, s.rows->dtype), {1, s.classes});
}

void check_smoothing(double label_smoothing) {
    if (!(label_smoothing >= 0 && label_smoothing <= 1))
        throw ValueError(
            fmt::format("cross_entropy: label smoothing {} is not in [0, 1]", label_smoothing));
}

NodePtr not_ignored(const NodePtr& target, std::int64_t ignore_index) {
    return g::ne(target, g::full_int(ignore_index, target->dtype, target->shape, target->device));
}

// How many targets are not ignored, 0-d. Counted in float32 whatever the dtype.
NodePtr valid_count(const NodePtr& target, std::int64_t ignore_index, DType dtype) {
    return g::cast(sum_all(g::cast(not_ignored(target, ignore_index), DType::Float32)), dtype);
}

// From log-probabilities in rows and class numbers: each row's -weight * log p, and the weights
// that the mean divides by. Both are 0 where the target is ignored.
struct Picked {
    NodePtr losses, weights;
};
Picked pick(const NodePtr& log_p, const NodePtr& target, const NodePtr& weight,
            std::int64_t ignore_index, const char* op) {
    const Shape& s = log_p->shape;
    const NodePtr t = g::check_index(target, 0, s[1], ignore_index, op);
    const NodePtr hit =
        g::eq(g::iota(s, 1, DType::Int64, t->device), g::expand_to(g::reshape(t, {s[0], 1}), s));
    const auto of_target = [&](const NodePtr& v) {
        const NodePtr picked = g::select(hit, v, g::full_like(v, 0));
        return g::reshape(g::reduce_sum(picked, {1}), {s[0]});
    };
    // A class number below C may itself be the ignored one.
    const NodePtr valid = not_ignored(t, ignore_index);
    const auto unless_ignored = [&](const NodePtr& v) {
        return g::select(valid, v, g::full_like(v, 0));
    };
    if (!weight) return {unless_ignored(g::neg(of_target(log_p))), {}};
    const NodePtr weights = unless_ignored(of_target(g::expand_to(weight, s)));
    // By selection: a log-probability of -inf times a weight of 0 would be NaN in ignored rows.
    return {unless_ignored(g::neg(g::mul(of_target(log_p), weights))), weights};
}

Tensor finish(const Scores& s, const NodePtr& rows, Reduction reduction, const NodePtr& total) {
    if (reduction == Reduction::None) return wrap(g::reshape(rows, s.shape));
    return wrap(reduce_loss(rows, reduction, total));
}

Tensor cross_entropy_of_probabilities(const Tensor& logits, const Tensor& target,
                                      const Tensor& weight, Reduction reduction,
                                      double label_smoothing) {
    const Scores s = class_scores(logits, "cross_entropy");
    const NodePtr& given = node_of(target);
    if (!(target.shape() == logits.shape()))
        throw ValueError(
            fmt::format("cross_entropy: targets that are probabilities must have the logits' shape "
                        "{}, they have {}",
                        logits.shape().str(), target.shape().str()));
    if (given->dtype != s.rows->dtype && !is_half(s.rows->dtype))
        throw TypeError(
            fmt::format("cross_entropy: the logits are {} and the probabilities {}; cast one",
                        name_of(s.rows->dtype), name_of(given->dtype)));
    const NodePtr log_p = g::log_softmax(float32_under_autocast(s.rows), 1);
    NodePtr t = g::cast(g::reshape(classes_last(given), s.rows->shape), log_p->dtype);
    if (label_smoothing > 0)
        t = g::add_scalar(g::mul_scalar(t, 1 - label_smoothing),
                          label_smoothing / static_cast<double>(s.classes));
    NodePtr terms = g::mul(log_p, t);
    if (const NodePtr w = class_weights(weight, s, "cross_entropy"))
        terms = g::mul(terms, g::expand_to(g::cast(w, terms->dtype), terms->shape));
    const NodePtr rows = g::reshape(g::neg(g::reduce_sum(terms, {1})), {s.shape.numel()});
    return finish(s, rows, reduction,
                  g::full(static_cast<double>(s.shape.numel()), rows->dtype, {}, rows->device));
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction,
                     std::int64_t ignore_index, double label_smoothing, Site site) {
    return at_site(site, [&] {
        check_smoothing(label_smoothing);
        if (is_floating(node_of(target, "the target")->dtype))
            return cross_entropy_of_probabilities(logits, target, {}, reduction, label_smoothing);
        const Scores s = class_scores(logits, "cross_entropy");
        const NodePtr t = class_targets(target, s, "cross_entropy");
        const NodePtr rows = g::softmax_cross_entropy(float32_under_autocast(s.rows), t,
                                                      ignore_index, label_smoothing);
        return finish(s, rows, reduction, valid_count(t, ignore_index, rows->dtype));
    });
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                     Reduction reduction, std::int64_t ignore_index, double label_smoothing,
                     Site site) {
    if (!weight.defined())
        return cross_entropy(logits, target, reduction, ignore_index, label_smoothing, site);
    return at_site(site, [&] {
        check_smoothing(label_smoothing);
        if (is_floating(node_of(target, "the target")->dtype))
            return cross_entropy_of_probabilities(logits, target, weight, reduction,
                                                  label_smoothing);
        const Scores s = class_scores(logits, "cross_entropy");
        const NodePtr t = class_targets(target, s, "cross_entropy");
        const NodePtr log_p = g::log_softmax(float32_under_autocast(s.rows), 1);
        const NodePtr w = g::cast(class_weights(weight, s, "cross_entropy"), log_p->dtype);
        const Picked p = pick(log_p, t, w, ignore_index, "cross_entropy");
        NodePtr rows = p.losses;
        if (label_smoothing > 0) {
            const NodePtr all = g::reduce_sum(g::mul(log_p, g::expand_to(w, log_p->shape)), {1});
            const NodePtr smooth =
                g::select(not_ignored(t, ignore_index), g::neg(g::reshape(all, rows->shape)),
                          g::full_like(rows, 0));
            rows = g::add(g::mul_scalar(rows, 1 - label_smoothing),
                          g::mul_scalar(smooth, label_smoothing / static_cast<double>(s.classes)));
        }
        return finish(s, rows, reduction, sum_all(p.weights));
    });
}

Tensor nll_loss(const Tensor& log_probs, const Tensor& target, Reduction reduction,
                std::int64_t ignore_index, Site site) {
    return nll_loss(log_probs, target, Tensor{}, reduction, ignore_index, site);
}

Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const Tensor& weight,
                Reduction reduction, std::int64_t ignore_index, Site site) {
    return at_site(site, [&] {
        const Scores s = class_scores(log_probs, "nll_loss");
        const NodePtr t = class_targets(target, s, "nll_loss");
        const Picked p =
            pick(s.rows, t, class_weights(weight, s, "nll_loss"), ignore_index, "nll_loss");
        return finish(
            s, p.losses, reduction,
            p.weights ? sum_all(p.weights) : valid_count(t, ignore_index, p.losses->dtype));
    });
}

}  // namespace pippin
