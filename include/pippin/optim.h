// Optimizers and learning-rate schedules. step() is a flush point: it submits the whole training
// step (forward, backward and update) as one plan.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pippin/tensor.h"

namespace pippin::optim {

/// In a ParamGroup: the value in the optimizer's options.
inline constexpr double kFromOptions = std::numeric_limits<double>::quiet_NaN();

/// Parameters with settings of their own: ParamGroup{.params = head->parameters(), .lr = 1e-2}
struct ParamGroup {
    std::vector<Tensor> params;
    double lr = kFromOptions;
    double weight_decay = kFromOptions;
    double momentum =
        kFromOptions;  ///< SGD's momentum or Adam's beta1; one-cycle schedules move it
    double initial_lr = kFromOptions;  ///< what schedules start from; they set it
};

class Optimizer;
/// Asked before each step() and zero_grad(): how an Accelerator holds them back while gradients add
/// up, or when float16 gradients overflowed.
class StepGate {
  public:
    virtual ~StepGate() = default;
    virtual bool may_step(Optimizer& optimizer) = 0;
    virtual bool may_zero_grad(Optimizer& optimizer) = 0;
};

class Optimizer {
  public:
    virtual ~Optimizer() = default;
    Optimizer(const Optimizer&) = delete;
    Optimizer& operator=(const Optimizer&) = delete;

    /// Updates every parameter that has a gradient and submits the step. Does not wait.
    void step();
    void zero_grad();
    /// A gate that is gone is open.
    void set_gate(std::weak_ptr<StepGate> gate) { gate_ = std::move(gate); }
    /// Whether a gate held the last step() back. Schedules do not step then.
    bool last_step_skipped() const { return skipped_; }
    /// Change `lr` and the others between steps as you like; it compiles nothing new (but a new
    /// weight_decay does).
    std::vector<ParamGroup>& groups() { return groups_; }
    const std::vector<ParamGroup>& groups() const { return groups_; }
    std::int64_t steps() const { return steps_; }

    using Named = std::vector<std::pair<std::string, Tensor>>;
    /// What a checkpoint holds: the moments as "<slot>.<parameter index>", "steps" (of the
    /// optimizer, then of each parameter) and for each group "group.<index>": lr, weight_decay,
    /// momentum, initial_lr.
    Named state_dict() const;
    /// One ValueError lists all that does not fit, and then nothing was changed.
    void load_state_dict(const Named& state);

  protected:
    /// Fills what the groups leave open and checks all of it. Also submits what is pending, such as
    /// the parameters' random first values: they would make the first step a plan of its own.
    Optimizer(std::vector<ParamGroup> groups, const ParamGroup& defaults);

    /// The numbers of one update that change from step to step. They reach update() as run-time
    /// scalars, shared by all parameters of the group. `step` counts the parameter's updates
    /// from 1.
    virtual std::vector<double> scalars(const ParamGroup& group, std::int64_t step) const = 0;
    /// Emits the update of one parameter, the same elementwise ops for every parameter.
    /// `state` holds the tensors that state_names() lists, initial_state() at first.
    virtual void update(Tensor& param, const Tensor& grad, std::span<Tensor> state,
                        const ParamGroup& group, std::span<const Tensor> scalars) const = 0;
    virtual std::vector<std::string> state_names(const ParamGroup& group) const = 0;
    /// What every element of the state starts at.
    virtual double initial_state() const { return 0; }

  private:
    struct ParamState {
        std::int64_t steps = 0;
        std::vector<Tensor> slots;
    };
    void check_hyperparameters(const ParamGroup& group) const;

    std::vector<ParamGroup> groups_;
    std::vector<std::vector<ParamState>> state_;  ///< by group and parameter
    std::int64_t steps_ = 0;
    std::weak_ptr<StepGate> gate_;
    bool skipped_ = false;
};

struct SGDOptions {
    double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
    bool nesterov = false;
};
/// Sutskever et al. 2013, in PyTorch's form: v = mu v + (1 - dampening) g; p -= lr v. The first
/// step's v is g.
class SGD : public Optimizer {
  public:
    explicit SGD(std::vector<Tensor> params, SGDOptions o = {});
    explicit SGD(std::vector<ParamGroup> groups, SGDOptions o = {});

  protected:
    std::vector<double> scalars(const ParamGroup& group, std::int64_t step) const override;
    void update(Tensor& param, const Tensor& grad, std::span<Tensor> state, const ParamGroup& group,
                std::span<const Tensor> scalars) const override;
    std::vector<std::string> state_names(const ParamGroup& group) const override;

  private:
    SGDOptions o_;
};

struct AdamOptions {
    double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    double weight_decay = kFromOptions;  ///< unset: 0 for Adam, 0.01 for AdamW
    bool amsgrad = false;  ///< divides by the largest second moment so far (Reddi et al. 2018)
};
/// Kingma and Ba 2015; weight_decay adds to the gradient.
class Adam : public Optimizer {
  public:
    explicit Adam(std::vector<Tensor> params, AdamOptions o = {});
    explicit Adam(std::vector<ParamGroup> groups, AdamOptions o = {});

  protected:
    Adam(std::vector<ParamGroup> groups, AdamOptions o, bool decoupled);
    std::vector<double> scalars(const ParamGroup& group, std::int64_t step) const override;
    void update(Tensor& param, const Tensor& grad, std::span<Tensor> state, const ParamGroup& group,
                std::span<const Tensor> scalars) const override;
    std::vector<std::string> state_names(const ParamGroup& group) const override;

  private:
    AdamOptions o_;
    bool decoupled_;
};

/// Loshchilov and Hutter 2019: decoupled weight decay.
class AdamW : public Adam {
  public:
    explicit AdamW(std::vector<Tensor> params, AdamOptions o = {});
    explicit AdamW(std::vector<ParamGroup> groups, AdamOptions o = {});
};

/// Sets the groups' learning rates: the first value when made, the next one with each step(), which
/// belongs after optimizer.step() and does nothing after a skipped one. The optimizer must outlive
/// it.
class Scheduler {
  public:
    virtual ~Scheduler() = default;
    void step();
    double last_lr() const;  ///< of the first group
    std::int64_t steps() const { return steps_; }
    void load(std::int64_t steps);  ///< resumes as if step() had been called that often
    /// How many steps each step() takes, at most up to the schedule's last one (default 1). An
    /// Accelerator sets the number of processes: an epoch has that many times fewer batches.
    void set_stride(std::int64_t steps);

  protected:
    friend class SequentialLR;
    explicit Scheduler(Optimizer& optimizer);
    /// The rate of a group after `step` steps.
    virtual double lr(const ParamGroup& group, std::int64_t step) const = 0;
    virtual double momentum(const ParamGroup& group, std::int64_t) const { return group.momentum; }
    /// The last step there is a rate for.
    virtual std::int64_t last_step() const { return std::numeric_limits<std::int64_t>::max(); }
    /// Derived constructors end with it; lr() cannot be called before they are done.
    void apply();

    Optimizer* optimizer_;
    std::int64_t steps_ = 0, stride_ = 1;
};

/// lr * gamma^floor(step / step_size)
class StepLR : public Scheduler {
  public:
    StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma = 0.1);

  protected:
    double lr(const ParamGroup& group, std::int64_t step) const override;

  private:
    std::int64_t step_size_;
    double gamma_;
};

/// Loshchilov and Hutter 2017 without restarts: a half cosine from lr to eta_min over t_max steps.
class CosineAnnealingLR : public Scheduler {
  public:
    CosineAnnealingLR(Optimizer& optimizer, std::int64_t t_max, double eta_min = 0);

  protected:
    double lr(const ParamGroup& group, std::int64_t step) const override;

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
    double lr(const ParamGroup& group, std::int64_t step) const override;
    double momentum(const ParamGroup& group, std::int64_t step) const override;
    std::int64_t last_step() const override { return o_.total_steps; }

  private:
    /// From `start` up (or down) to `top` in the first phase, from there to `end` in the second.
    double anneal(std::int64_t step, double start, double top, double end) const;
    OneCycleOptions o_;
};

}  // namespace pippin::optim
