// Mixed precision: the scaling of losses that float16 needs. (Autocast is in tensor.h.)
#pragma once

#include <cstdint>
#include <unordered_map>

#include "pippin/optim.h"

namespace pippin::amp {

struct GradScalerOptions {
    double init_scale = 65536, growth_factor = 2, backoff_factor = 0.5;
    std::int64_t growth_interval = 2000;  ///< good steps before the scale grows
    bool enabled = true;                  ///< false: every function passes its input through
};

/// Dynamic loss scaling (Micikevicius et al. 2018), as torch.amp.GradScaler:
///
///   scaler.scale(loss).backward();
///   scaler.unscale_(optimizer);         // only before clipping
///   scaler.step(optimizer);             // skips the update when a gradient is not finite
///   scaler.update();
class GradScaler {
  public:
    /// ValueError unless init_scale > 0, growth_factor > 1, 0 < backoff_factor < 1 and
    /// growth_interval >= 1.
    explicit GradScaler(GradScalerOptions o = {});

    Tensor scale(const Tensor& loss) const;  ///< loss times the scale
    /// Divides the gradients of the optimizer's parameters by the scale. ValueError when called
    /// twice between updates.
    void unscale_(optim::Optimizer& optimizer);
    /// unscale_() if that was not done, then optimizer.step() unless a gradient holds an infinity
    /// or NaN. Waits for the gradients. False when the update was skipped.
    bool step(optim::Optimizer& optimizer);
    /// The part of step() before the update: unscales, waits, and tells whether all gradients are
    /// finite. A skipped step counts.
    bool may_step(optim::Optimizer& optimizer);
    /// After the steps of all optimizers: halves the scale if one was skipped, doubles it after
    /// growth_interval good steps.
    void update();

    double get_scale() const { return scale_; }
    bool is_enabled() const { return options_.enabled; }
    std::int64_t skipped_steps() const { return skipped_; }

    /// What a checkpoint holds.
    struct State {
        double scale = 0;
        std::int64_t good_steps = 0, skipped_steps = 0;
    };
    State state() const { return {scale_, good_, skipped_}; }
    void load_state(const State& state);

  private:
    struct Unscaled {
        Tensor all_finite;  ///< a 0-d bool
        bool stepped = false, finite = true;
    };
    GradScalerOptions options_;
    double scale_;
    std::int64_t good_ = 0, skipped_ = 0;
    std::unordered_map<const optim::Optimizer*, Unscaled> unscaled_;
};

}  // namespace pippin::amp
