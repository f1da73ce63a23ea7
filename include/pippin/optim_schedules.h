// Learning-rate schedules beside those of optim.h, and the moving average of weights. Names,
// arguments and defaults are PyTorch's. Each rate is a formula of the step's number, so that
// Scheduler::load resumes any of them; PyTorch multiplies step by step, which rounds differently.
#pragma once

#include <functional>
#include <memory>

#include "pippin/optim.h"

namespace pippin::optim {

/// lr * gamma^(number of milestones reached)
class MultiStepLR : public Scheduler {
  public:
    MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma = 0.1);

  protected:
    double lr(const ParamGroup& group, std::int64_t step) const override;

  private:
    std::vector<std::int64_t> milestones_;
    double gamma_;
};

/// lr * gamma^step
class ExponentialLR : public Scheduler {
  public:
    ExponentialLR(Optimizer& optimizer, double gamma);

  protected:
    double lr(const ParamGroup& group, std::int64_t step) const override;

  private:
    double gamma_;
};

/// lr * factor for total_iters steps, then lr.
class ConstantLR : public Scheduler {
  public:
    explicit ConstantLR(Optimizer& optimizer, double factor = 1.0 / 3,
                        std::int64_t total_iters = 5);

  protected:
    double lr(const ParamGroup& group, std::int64_t step) const override;

  private:
    double factor_;
    std::int64_t total_iters_;
};

/// lr times a factor that goes from start_factor to end_factor in total_iters steps: a warm-up.
class LinearLR : public Scheduler {
  public:
    explicit LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1,
                      std::int64_t total_iters = 5);

  protected:
    double lr(const ParamGroup& group, std::int64_t step) const override;

  private:
    double start_, end_;
    std::int64_t total_iters_;
};

/// From 0 up to lr in warmup_steps, then down to 0 at total_steps, both in a straight line: Hugging
/// Face's get_linear_schedule_with_warmup.
class LinearWarmupLR : public Scheduler {
  public:
    LinearWarmupLR(Optimizer& optimizer, std::int64_t warmup_steps, std::int64_t total_steps);

  protected:
    double lr(const ParamGroup& group, std::int64_t step) const override;

  private:
    std::int64_t warmup_steps_, total_steps_;
};

/// lr * (1 - step / total_iters)^power, then 0.
class PolynomialLR : public Scheduler {
  public:
    explicit PolynomialLR(Optimizer& optimizer, std::int64_t total_iters = 5, double power = 1);

  protected:
    double lr(const ParamGroup& group, std::int64_t step) const override;

  private:
    std::int64_t total_iters_;
    double power_;
};

/// Loshchilov and Hutter 2017: half cosines from lr to eta_min, the first of t_0 steps, each
/// t_mult times as long as the one before.
class CosineAnnealingWarmRestarts : public Scheduler {
  public:
    CosineAnnealingWarmRestarts(Optimizer& optimizer, std::int64_t t_0, std::int64_t t_mult = 1,
                                double eta_min = 0);

  protected:
    double lr(const ParamGroup& group, std::int64_t step) const override;

  private:
    std::int64_t t_0_, t_mult_;
    double eta_min_;
};

/// lr * f(step); one function for all groups, or one for each.
class LambdaLR : public Scheduler {
  public:
    using Function = std::function<double(std::int64_t)>;
    LambdaLR(Optimizer& optimizer, Function f);
    LambdaLR(Optimizer& optimizer, std::vector<Function> by_group);

  protected:
    double lr(const ParamGroup& group, std::int64_t step) const override;

  private:
    std::vector<Function> functions_;
};

/// One schedule after another: schedule i + 1 starts from its step 0 at milestones[i]. All of them
/// must have been made for this optimizer; step this one alone.
class SequentialLR : public Scheduler {
  public:
    SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<Scheduler>> schedulers,
                 std::vector<std::int64_t> milestones);

  protected:
    double lr(const ParamGroup& group, std::int64_t step) const override;
    double momentum(const ParamGroup& group, std::int64_t step) const override;

  private:
    std::size_t active(std::int64_t step) const;
    std::vector<std::shared_ptr<Scheduler>> schedulers_;
    std::vector<std::int64_t> milestones_;
};

struct PlateauOptions {
    bool maximize = false;  ///< mode "max": the metric should grow
    double factor = 0.1;
    std::int64_t patience = 10;
    double threshold = 1e-4;
    bool threshold_absolute = false;  ///< threshold_mode "abs" and not "rel"
    std::int64_t cooldown = 0;
    double min_lr = 0, eps = 1e-8;
};
/// Multiplies the rates by `factor` when a metric has not improved for more than `patience` calls.
class ReduceLROnPlateau {
  public:
    explicit ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions o = {});
    void step(double metric);

    /// What a checkpoint must keep, beside the optimizer's own state (its rates).
    struct State {
        double best = 0;
        std::int64_t bad_steps = 0, cooldown_left = 0;
    };
    State state() const { return state_; }
    void load(const State& state) { state_ = state; }

  private:
    bool improves(double metric) const;
    Optimizer* optimizer_;
    PlateauOptions o_;
    State state_;
};

/// An exponential moving average of a model's weights (torch.optim.swa_utils.AveragedModel with
/// get_ema_multi_avg_fn): average = decay * average + (1 - decay) * weight. The first update()
/// copies. Tensors that are not floating point are copied each time.
class EMA {
  public:
    using Named = Optimizer::Named;
    /// `tensors`: model.named_parameters(), or model.state_dict() to average buffers too.
    explicit EMA(const Named& tensors, double decay = 0.999);
    /// Belongs after optimizer.step(). A flush point of one launch.
    void update();
    /// Exchanges the model's values with the averages: once to evaluate, once more to go on.
    void swap();
    /// The averages under the tensors' names; Module::load_state_dict takes them.
    const Named& averages() const { return averages_; }
    std::int64_t updates() const { return updates_; }
    /// Takes averages by name; ValueError if one is missing, extra or of another shape.
    void load(const Named& averages, std::int64_t updates);

  private:
    Named tensors_, averages_;
    double decay_;
    std::int64_t updates_ = 0;
};

}  // namespace pippin::optim
