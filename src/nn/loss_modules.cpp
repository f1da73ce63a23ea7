// Losses as modules.
#include "pippin/losses.h"
#include "tensor/site.h"

namespace pippin::nn {

Tensor Loss::operator()(const Tensor& input, const Tensor& target, Site site) {
    const SiteScope scope(site);
    return at_site(site, [&] { return forward(input, target); });
}

Tensor TripleLoss::operator()(const Tensor& a, const Tensor& b, const Tensor& c, Site site) {
    const SiteScope scope(site);
    return at_site(site, [&] { return forward(a, b, c); });
}

CrossEntropyLoss::CrossEntropyLoss(CrossEntropyOptions o)
    : Loss("CrossEntropyLoss", o.reduction), o_(std::move(o)) {
    if (o_.weight.defined()) register_buffer("weight", o_.weight);
}
Tensor CrossEntropyLoss::forward(const Tensor& input, const Tensor& target) {
    return cross_entropy(input, target, o_.weight, reduction_, o_.ignore_index, o_.label_smoothing);
}

NLLLoss::NLLLoss(const Tensor& weight, std::int64_t ignore_index, Reduction reduction)
    : Loss("NLLLoss", reduction), weight_(weight), ignore_index_(ignore_index) {
    if (weight.defined()) register_buffer("weight", weight);
}
Tensor NLLLoss::forward(const Tensor& input, const Tensor& target) {
    return nll_loss(input, target, weight_, reduction_, ignore_index_);
}

BCELoss::BCELoss(const Tensor& weight, Reduction reduction)
    : Loss("BCELoss", reduction), weight_(weight) {
    if (weight.defined()) register_buffer("weight", weight);
}
Tensor BCELoss::forward(const Tensor& input, const Tensor& target) {
    return binary_cross_entropy(input, target, weight_, reduction_);
}

BCEWithLogitsLoss::BCEWithLogitsLoss(const Tensor& weight, Reduction reduction,
                                     const Tensor& pos_weight)
    : Loss("BCEWithLogitsLoss", reduction), weight_(weight), pos_weight_(pos_weight) {
    if (weight.defined()) register_buffer("weight", weight);
    if (pos_weight.defined()) register_buffer("pos_weight", pos_weight);
}
Tensor BCEWithLogitsLoss::forward(const Tensor& input, const Tensor& target) {
    return binary_cross_entropy_with_logits(input, target, weight_, reduction_, pos_weight_);
}

Tensor MSELoss::forward(const Tensor& input, const Tensor& target) {
    return mse_loss(input, target, reduction_);
}

Tensor L1Loss::forward(const Tensor& input, const Tensor& target) {
    return l1_loss(input, target, reduction_);
}

SmoothL1Loss::SmoothL1Loss(Reduction reduction, double beta)
    : Loss("SmoothL1Loss", reduction), beta_(beta) {}
Tensor SmoothL1Loss::forward(const Tensor& input, const Tensor& target) {
    return smooth_l1_loss(input, target, reduction_, beta_);
}

HuberLoss::HuberLoss(Reduction reduction, double delta)
    : Loss("HuberLoss", reduction), delta_(delta) {}
Tensor HuberLoss::forward(const Tensor& input, const Tensor& target) {
    return huber_loss(input, target, reduction_, delta_);
}

Tensor KLDivLoss::forward(const Tensor& input, const Tensor& target) {
    return kl_div(input, target, kl_reduction_, log_target_);
}

Tensor SoftMarginLoss::forward(const Tensor& input, const Tensor& target) {
    return soft_margin_loss(input, target, reduction_);
}

Tensor HingeEmbeddingLoss::forward(const Tensor& input, const Tensor& target) {
    return hinge_embedding_loss(input, target, margin_, reduction_);
}

Tensor PoissonNLLLoss::forward(const Tensor& input, const Tensor& target) {
    return poisson_nll_loss(input, target, log_input_, eps_, reduction_);
}

Tensor MarginRankingLoss::forward(const Tensor& input1, const Tensor& input2,
                                  const Tensor& target) {
    return margin_ranking_loss(input1, input2, target, margin_, reduction_);
}

Tensor CosineEmbeddingLoss::forward(const Tensor& input1, const Tensor& input2,
                                    const Tensor& target) {
    return cosine_embedding_loss(input1, input2, target, margin_, reduction_);
}

Tensor TripletMarginLoss::forward(const Tensor& anchor, const Tensor& positive,
                                  const Tensor& negative) {
    return triplet_margin_loss(anchor, positive, negative, margin_, p_, eps_, swap_, reduction_);
}

}  // namespace pippin::nn
