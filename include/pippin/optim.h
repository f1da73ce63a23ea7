// Optimizers and learning-rate schedules. step() is a flush point: it submits the whole training
// step (forward, backward and update) as one plan.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pippin/tensor.h"

namespace pippin::optim {

/// A set of parameters with its own learning rate and weight decay.
struct ParamGroup {
    std::vector<Tensor> params;
    double lr = 0;
    double weight_decay = 0;
    double initial_lr = 0;
    double momentum = 0; ///< SGD's momentum or Adam's beta1; one-cycle schedules move it
};

class Optimizer {
public:
    virtual ~Optimizer() = default;
    /// Updates every parameter that has a gradient and submits the step. Does not wait.
    void step();
    void zero_grad();
    std::vector<ParamGroup>& groups() { return groups_; }
    std::int64_t steps() const { return steps_; }
    /// Moments by "<slot>.<index>", and "step"; what a checkpoint holds.
    std::vector<std::pair<std::string, Tensor>> state_dict() const;
    void load_state_dict(const std::vector<std::pair<std::string, Tensor>>& state);

protected:
    explicit Optimizer(std::vector<ParamGroup> groups);
    /// Emits the update of one parameter. `state` holds the tensors that names() lists, zeros at first.
    virtual void update(Tensor& param, const Tensor& grad, std::vector<Tensor>& state, const ParamGroup& group) = 0;
    virtual std::vector<std::string> state_names() const = 0;
    /// Called once a step before the updates, e.g. for bias corrections.
    virtual void prepare(const ParamGroup&) {}

    std::vector<ParamGroup> groups_;
    std::vector<std::vector<std::vector<Tensor>>> state_; ///< group, parameter, slot
    std::int64_t steps_ = 0;
};

struct SGDOptions {
    double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
    bool nesterov = false;
};
/// Sutskever et al. 2013, in PyTorch's form: v = mu v + (1 - dampening) g; p -= lr v. The first step's v is g.
class SGD : public Optimizer {
public:
    SGD(std::vector<Tensor> params, SGDOptions o);
    SGD(std::vector<ParamGroup> groups, SGDOptions o);

protected:
    void update(Tensor&, const Tensor&, std::vector<Tensor>&, const ParamGroup&) override;
    std::vector<std::string> state_names() const override;

private:
    SGDOptions o_;
};

struct AdamOptions {
    double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
/// Kingma and Ba 2015; weight_decay adds to the gradient.
class Adam : public Optimizer {
public:
    Adam(std::vector<Tensor> params, AdamOptions o);
    Adam(std::vector<ParamGroup> groups, AdamOptions o);

protected:
    Adam(std::vector<ParamGroup> groups, AdamOptions o, bool decoupled);
    void update(Tensor&, const Tensor&, std::vector<Tensor>&, const ParamGroup&) override;
    std::vector<std::string> state_names() const override;
    void prepare(const ParamGroup&) override;

private:
    AdamOptions o_;
    bool decoupled_ = false;
    Tensor step_size_, correction2_;
};

/// Loshchilov and Hutter 2019: decoupled weight decay (default 0.01 in the options' place).
class AdamW : public Adam {
public:
    AdamW(std::vector<Tensor> params, AdamOptions o);
    AdamW(std::vector<ParamGroup> groups, AdamOptions o);
};

/// Sets groups' learning rates. step() moves to the next value; call it after optimizer.step().
class Scheduler {
public:
    virtual ~Scheduler() = default;
    void step();
    double last_lr() const;
    std::int64_t steps() const { return steps_; }
    void load(std::int64_t steps); ///< resumes as if step() had been called that often

protected:
    explicit Scheduler(Optimizer& optimizer);
    /// The rate of a group after `step` steps.
    virtual double lr(const ParamGroup& group, std::int64_t step) const = 0;
    virtual double momentum(const ParamGroup& group, std::int64_t) const { return group.momentum; }
    void apply();

    Optimizer* optimizer_;
    std::int64_t steps_ = 0;
};

/// lr * gamma^floor(step / step_size)
class StepLR : public Scheduler {
public:
    StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma = 0.1);

protected:
    double lr(const ParamGroup&, std::int64_t) const override;

private:
    std::int64_t step_size_;
    double gamma_;
};

/// Loshchilov and Hutter 2017 without restarts: a half cosine from lr to eta_min over t_max steps.
class CosineAnnealingLR : public Scheduler {
public:
    CosineAnnealingLR(Optimizer& optimizer, std::int64_t t_max, double eta_min = 0);

protected:
    double lr(const ParamGroup&, std::int64_t) const override;

private:
    std::int64_t t_max_;
    double eta_min_;
};

struct OneCycleOptions {
    double max_lr = 1e-2;
    std::int64_t total_steps = 0;
    double pct_start = 0.3, div_factor = 25, final_div_factor = 1e4;
    double base_momentum = 0.85, max_momentum = 0.95;
    bool cycle_momentum = true;
};
/// Smith and Topin 2018, PyTorch's two-phase cosine form. ValueError past total_steps.
class OneCycleLR : public Scheduler {
public:
    OneCycleLR(Optimizer& optimizer, OneCycleOptions o);

protected:
    double lr(const ParamGroup&, std::int64_t) const override;
    double momentum(const ParamGroup&, std::int64_t) const override;

private:
    OneCycleOptions o_;
};

} // namespace pippin::optim
