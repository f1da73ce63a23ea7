// Optimizers beside SGD, Adam and AdamW (optim.h). Settings and defaults are PyTorch's; those that
// every group has (lr, weight_decay, momentum or beta1) may be given in the groups instead.
#pragma once

#include "pippin/optim.h"

namespace pippin::optim {

struct RMSpropOptions {
    double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
    bool centered = false;
};
/// Hinton 2012 (lecture 6e): the gradient over the root of its mean square; `centered` divides by
/// the root of its variance instead (Graves 2013).
class RMSprop : public Optimizer {
  public:
    explicit RMSprop(std::vector<Tensor> params, RMSpropOptions o = {});
    explicit RMSprop(std::vector<ParamGroup> groups, RMSpropOptions o = {});

  protected:
    std::vector<double> scalars(const ParamGroup& group, std::int64_t step) const override;
    void update(Tensor& param, const Tensor& grad, std::span<Tensor> state, const ParamGroup& group,
                std::span<const Tensor> scalars) const override;
    std::vector<std::string> state_names(const ParamGroup& group) const override;

  private:
    RMSpropOptions o_;
};

struct AdagradOptions {
    double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
};
/// Duchi et al. 2011.
class Adagrad : public Optimizer {
  public:
    explicit Adagrad(std::vector<Tensor> params, AdagradOptions o = {});
    explicit Adagrad(std::vector<ParamGroup> groups, AdagradOptions o = {});

  protected:
    std::vector<double> scalars(const ParamGroup& group, std::int64_t step) const override;
    void update(Tensor& param, const Tensor& grad, std::span<Tensor> state, const ParamGroup& group,
                std::span<const Tensor> scalars) const override;
    std::vector<std::string> state_names(const ParamGroup& group) const override;
    double initial_state() const override { return o_.initial_accumulator_value; }

  private:
    AdagradOptions o_;
};

struct AdadeltaOptions {
    double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;
};
/// Zeiler 2012.
class Adadelta : public Optimizer {
  public:
    explicit Adadelta(std::vector<Tensor> params, AdadeltaOptions o = {});
    explicit Adadelta(std::vector<ParamGroup> groups, AdadeltaOptions o = {});

  protected:
    std::vector<double> scalars(const ParamGroup& group, std::int64_t step) const override;
    void update(Tensor& param, const Tensor& grad, std::span<Tensor> state, const ParamGroup& group,
                std::span<const Tensor> scalars) const override;
    std::vector<std::string> state_names(const ParamGroup& group) const override;

  private:
    AdadeltaOptions o_;
};

struct AdamaxOptions {
    double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
/// Kingma and Ba 2015, section 7: Adam with an infinity norm.
class Adamax : public Optimizer {
  public:
    explicit Adamax(std::vector<Tensor> params, AdamaxOptions o = {});
    explicit Adamax(std::vector<ParamGroup> groups, AdamaxOptions o = {});

  protected:
    std::vector<double> scalars(const ParamGroup& group, std::int64_t step) const override;
    void update(Tensor& param, const Tensor& grad, std::span<Tensor> state, const ParamGroup& group,
                std::span<const Tensor> scalars) const override;
    std::vector<std::string> state_names(const ParamGroup& group) const override;

  private:
    AdamaxOptions o_;
};

struct NAdamOptions {
    double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
    double momentum_decay = 4e-3;
    bool decoupled_weight_decay = false;
};
/// Dozat 2016: Adam with Nesterov's momentum. beta1 must stay as it is during training.
class NAdam : public Optimizer {
  public:
    explicit NAdam(std::vector<Tensor> params, NAdamOptions o = {});
    explicit NAdam(std::vector<ParamGroup> groups, NAdamOptions o = {});

  protected:
    std::vector<double> scalars(const ParamGroup& group, std::int64_t step) const override;
    void update(Tensor& param, const Tensor& grad, std::span<Tensor> state, const ParamGroup& group,
                std::span<const Tensor> scalars) const override;
    std::vector<std::string> state_names(const ParamGroup& group) const override;

  private:
    NAdamOptions o_;
};

struct RAdamOptions {
    double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
    bool decoupled_weight_decay = false;
};
/// Liu et al. 2020: Adam whose first steps, while the variance is not known, are plain momentum.
class RAdam : public Optimizer {
  public:
    explicit RAdam(std::vector<Tensor> params, RAdamOptions o = {});
    explicit RAdam(std::vector<ParamGroup> groups, RAdamOptions o = {});

  protected:
    std::vector<double> scalars(const ParamGroup& group, std::int64_t step) const override;
    void update(Tensor& param, const Tensor& grad, std::span<Tensor> state, const ParamGroup& group,
                std::span<const Tensor> scalars) const override;
    std::vector<std::string> state_names(const ParamGroup& group) const override;

  private:
    RAdamOptions o_;
};

struct LambOptions {
    double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 0;
};
/// You et al. 2020, algorithm 2 with the identity as phi: Adam's direction (with decoupled decay),
/// scaled for each parameter to that parameter's own norm. PyTorch has none.
class Lamb : public Optimizer {
  public:
    explicit Lamb(std::vector<Tensor> params, LambOptions o = {});
    explicit Lamb(std::vector<ParamGroup> groups, LambOptions o = {});

  protected:
    std::vector<double> scalars(const ParamGroup& group, std::int64_t step) const override;
    void update(Tensor& param, const Tensor& grad, std::span<Tensor> state, const ParamGroup& group,
                std::span<const Tensor> scalars) const override;
    std::vector<std::string> state_names(const ParamGroup& group) const override;

  private:
    LambOptions o_;
};

}  // namespace pippin::optim
