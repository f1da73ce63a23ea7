// Losses beside those of ops.h, and all of them as modules. Names, arguments and defaults are
// PyTorch's. Inputs must be floating point (TypeError); input and target broadcast only where a
// line says so, and a target of another shape is a ValueError.
#pragma once

#include "pippin/nn.h"

namespace pippin {

/// As in ops.h, with a weight (C) for each class, which may be undefined: the mean is over the
/// targets' weights. A floating-point target of the logits' shape holds probabilities; then
/// ignore_index is not used and the mean is over rows.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                     Reduction reduction = Reduction::Mean, std::int64_t ignore_index = -100,
                     double label_smoothing = 0, Site site = Site::current());
Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const Tensor& weight,
                Reduction reduction = Reduction::Mean, std::int64_t ignore_index = -100,
                Site site = Site::current());
/// input: probabilities; logarithms stop at -100. `weight` scales elements and broadcasts.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight = {},
                            Reduction reduction = Reduction::Mean, Site site = Site::current());
/// input: any numbers (before the sigmoid). pos_weight scales the positive part and broadcasts, as
/// `weight` does.
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const Tensor& weight = {},
                                        Reduction reduction = Reduction::Mean,
                                        const Tensor& pos_weight = {}, Site site = Site::current());
/// |input - target|, broadcasting.
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::Mean,
               Site site = Site::current());
/// Half the squared error over beta where it is below beta, else linear; broadcasting. Girshick
/// 2015.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      Reduction reduction = Reduction::Mean, double beta = 1,
                      Site site = Site::current());
/// Half the squared error where it is at most delta, else linear; broadcasting. Huber 1964.
Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::Mean,
                  double delta = 1, Site site = Site::current());
/// What kl_div takes the mean over.
enum class KlReduction { None, Mean, Sum, BatchMean };
/// target * (log(target) - input), input being log-probabilities; 0 where the target is 0. With
/// log_target the target holds logarithms too. Broadcasting.
Tensor kl_div(const Tensor& input, const Tensor& target, KlReduction reduction = KlReduction::Mean,
              bool log_target = false, Site site = Site::current());
/// log(1 + exp(-target * input)) for targets of -1 and 1.
Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                        Reduction reduction = Reduction::Mean, Site site = Site::current());
/// input where the target is 1, max(0, margin - input) where it is -1.
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin = 1,
                            Reduction reduction = Reduction::Mean, Site site = Site::current());
/// max(0, -target * (input1 - input2) + margin)
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           double margin = 0, Reduction reduction = Reduction::Mean,
                           Site site = Site::current());
/// Over rows of (N, D) or (D): 1 - cosine where the target is 1, max(0, cosine - margin) at -1.
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             double margin = 0, Reduction reduction = Reduction::Mean,
                             Site site = Site::current());
/// max(0, d(anchor, positive) - d(anchor, negative) + margin), d the pairwise distance; `swap`
/// takes the nearer of anchor and positive to the negative. Balntas et al. 2016.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin = 1, double p = 2, double eps = 1e-6, bool swap = false,
                           Reduction reduction = Reduction::Mean, Site site = Site::current());
/// exp(input) - target * input, or without log_input: input - target * log(input + eps).
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input = true,
                        double eps = 1e-8, Reduction reduction = Reduction::Mean,
                        Site site = Site::current());

/// x over its p-norm along dim, which counts as eps at least.
Tensor normalize(const Tensor& x, double p = 2, std::int64_t dim = 1, double eps = 1e-12,
                 Site site = Site::current());
/// The cosine of the angle between x and y along dim; each norm counts as eps at least.
/// Broadcasting.
Tensor cosine_similarity(const Tensor& x, const Tensor& y, std::int64_t dim = 1, double eps = 1e-8,
                         Site site = Site::current());
/// The p-norm of x - y + eps over the last dimension. Broadcasting.
Tensor pairwise_distance(const Tensor& x, const Tensor& y, double p = 2, double eps = 1e-6,
                         bool keepdim = false, Site site = Site::current());

namespace nn {

/// What the loss modules share: loss(input, target). The one-input forward of Module raises.
class Loss : public Module {
  public:
    using Module::forward;
    virtual Tensor forward(const Tensor& input, const Tensor& target) = 0;
    /// forward(), with errors naming the caller's line.
    Tensor operator()(const Tensor& input, const Tensor& target, Site site = Site::current());
    std::string type_name() const override { return name_; }

  protected:
    Loss(const char* name, Reduction reduction) : reduction_(reduction), name_(name) {}
    Reduction reduction_;

  private:
    const char* name_;
};

struct CrossEntropyOptions {
    Tensor weight = {};  ///< (C), kept as the buffer "weight"
    std::int64_t ignore_index = -100;
    Reduction reduction = Reduction::Mean;
    double label_smoothing = 0;
};
class CrossEntropyLoss : public Loss {
  public:
    explicit CrossEntropyLoss(CrossEntropyOptions o = {});
    Tensor forward(const Tensor& input, const Tensor& target) override;

  private:
    CrossEntropyOptions o_;
};

class NLLLoss : public Loss {
  public:
    explicit NLLLoss(const Tensor& weight = {}, std::int64_t ignore_index = -100,
                     Reduction reduction = Reduction::Mean);
    Tensor forward(const Tensor& input, const Tensor& target) override;

  private:
    Tensor weight_;
    std::int64_t ignore_index_;
};

class BCELoss : public Loss {
  public:
    explicit BCELoss(const Tensor& weight = {}, Reduction reduction = Reduction::Mean);
    Tensor forward(const Tensor& input, const Tensor& target) override;

  private:
    Tensor weight_;
};

class BCEWithLogitsLoss : public Loss {
  public:
    explicit BCEWithLogitsLoss(const Tensor& weight = {}, Reduction reduction = Reduction::Mean,
                               const Tensor& pos_weight = {});
    Tensor forward(const Tensor& input, const Tensor& target) override;

  private:
    Tensor weight_, pos_weight_;
};

class MSELoss : public Loss {
  public:
    explicit MSELoss(Reduction reduction = Reduction::Mean) : Loss("MSELoss", reduction) {}
    Tensor forward(const Tensor& input, const Tensor& target) override;
};

class L1Loss : public Loss {
  public:
    explicit L1Loss(Reduction reduction = Reduction::Mean) : Loss("L1Loss", reduction) {}
    Tensor forward(const Tensor& input, const Tensor& target) override;
};

class SmoothL1Loss : public Loss {
  public:
    explicit SmoothL1Loss(Reduction reduction = Reduction::Mean, double beta = 1);
    Tensor forward(const Tensor& input, const Tensor& target) override;

  private:
    double beta_;
};

class HuberLoss : public Loss {
  public:
    explicit HuberLoss(Reduction reduction = Reduction::Mean, double delta = 1);
    Tensor forward(const Tensor& input, const Tensor& target) override;

  private:
    double delta_;
};

class KLDivLoss : public Loss {
  public:
    explicit KLDivLoss(KlReduction reduction = KlReduction::Mean, bool log_target = false)
        : Loss("KLDivLoss", Reduction::Mean), kl_reduction_(reduction), log_target_(log_target) {}
    Tensor forward(const Tensor& input, const Tensor& target) override;

  private:
    KlReduction kl_reduction_;
    bool log_target_;
};

class SoftMarginLoss : public Loss {
  public:
    explicit SoftMarginLoss(Reduction reduction = Reduction::Mean)
        : Loss("SoftMarginLoss", reduction) {}
    Tensor forward(const Tensor& input, const Tensor& target) override;
};

class HingeEmbeddingLoss : public Loss {
  public:
    explicit HingeEmbeddingLoss(double margin = 1, Reduction reduction = Reduction::Mean)
        : Loss("HingeEmbeddingLoss", reduction), margin_(margin) {}
    Tensor forward(const Tensor& input, const Tensor& target) override;

  private:
    double margin_;
};

class PoissonNLLLoss : public Loss {
  public:
    explicit PoissonNLLLoss(bool log_input = true, double eps = 1e-8,
                            Reduction reduction = Reduction::Mean)
        : Loss("PoissonNLLLoss", reduction), log_input_(log_input), eps_(eps) {}
    Tensor forward(const Tensor& input, const Tensor& target) override;

  private:
    bool log_input_;
    double eps_;
};

/// What the losses of three inputs share: loss(a, b, c).
class TripleLoss : public Module {
  public:
    using Module::forward;
    virtual Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) = 0;
    Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& c,
                      Site site = Site::current());
};

class MarginRankingLoss : public TripleLoss {
  public:
    explicit MarginRankingLoss(double margin = 0, Reduction reduction = Reduction::Mean)
        : margin_(margin), reduction_(reduction) {}
    Tensor forward(const Tensor& input1, const Tensor& input2, const Tensor& target) override;
    std::string type_name() const override { return "MarginRankingLoss"; }

  private:
    double margin_;
    Reduction reduction_;
};

class CosineEmbeddingLoss : public TripleLoss {
  public:
    explicit CosineEmbeddingLoss(double margin = 0, Reduction reduction = Reduction::Mean)
        : margin_(margin), reduction_(reduction) {}
    Tensor forward(const Tensor& input1, const Tensor& input2, const Tensor& target) override;
    std::string type_name() const override { return "CosineEmbeddingLoss"; }

  private:
    double margin_;
    Reduction reduction_;
};

class TripletMarginLoss : public TripleLoss {
  public:
    explicit TripletMarginLoss(double margin = 1, double p = 2, double eps = 1e-6,
                               bool swap = false, Reduction reduction = Reduction::Mean)
        : margin_(margin), p_(p), eps_(eps), swap_(swap), reduction_(reduction) {}
    Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) override;
    std::string type_name() const override { return "TripletMarginLoss"; }

  private:
    double margin_, p_, eps_;
    bool swap_;
    Reduction reduction_;
};

}  // namespace nn
}  // namespace pippin
