#include <fmt/format.h>

#include <cmath>

#include "pippin/amp.h"
#include "pippin/ops.h"

namespace pippin::amp {

GradScaler::GradScaler(GradScalerOptions o) : options_(o), scale_(o.init_scale) {
    const auto check = [](bool good, const char* name, double value, const char* expected) {
        if (!good)
            throw ValueError(
                fmt::format("GradScaler: {} must be {}, got {}", name, expected, value));
    };
    check(o.init_scale > 0 && std::isfinite(o.init_scale), "init_scale", o.init_scale, "positive");
    check(o.growth_factor > 1 && std::isfinite(o.growth_factor), "growth_factor", o.growth_factor,
          "above 1");
    check(o.backoff_factor > 0 && o.backoff_factor < 1, "backoff_factor", o.backoff_factor,
          "between 0 and 1");
    check(o.growth_interval >= 1, "growth_interval", static_cast<double>(o.growth_interval),
          "at least 1");
}

// The scale is an argument of the plan: a new one compiles nothing.
Tensor GradScaler::scale(const Tensor& loss) const {
    if (!options_.enabled) return loss;
    if (!is_floating(loss.dtype()))
        throw TypeError(fmt::format("GradScaler.scale: the loss must be floating point, not {}",
                                    name_of(loss.dtype())));
    // float16 ends at 65504: a half loss is scaled as a float32
    const Tensor wide = loss.dtype() == float64 ? loss : cast(loss, float32);
    return wide * runtime_scalar(scale_, {wide.dtype(), loss.device()});
}

void GradScaler::unscale_(optim::Optimizer& optimizer) {
    if (!options_.enabled) return;
    if (unscaled_.count(&optimizer))
        throw ValueError(
            "GradScaler.unscale_: the gradients of this optimizer are unscaled already; call "
            "update() after step()");
    const NoGrad no_grad;
    std::vector<Tensor> finite;
    for (const optim::ParamGroup& group : optimizer.groups())
        for (const Tensor& parameter : group.params) {
            const Tensor g = parameter.grad();
            if (!g.defined()) continue;
            const DType wide = g.dtype() == float64 ? float64 : float32;
            const Tensor unscaled = g * runtime_scalar(1 / scale_, {wide, g.device()});
            Tensor handle = parameter;  // the same variable
            handle.set_grad(unscaled);
            finite.push_back(logical_not(isfinite(unscaled)).sum());
        }
    Unscaled& u = unscaled_[&optimizer];
    if (finite.empty()) return;
    u.all_finite = stack(finite).sum() == 0;
}

bool GradScaler::may_step(optim::Optimizer& optimizer) {
    if (!options_.enabled) return true;
    if (!unscaled_.count(&optimizer)) unscale_(optimizer);
    Unscaled& u = unscaled_[&optimizer];
    if (u.stepped)
        throw ValueError("GradScaler.step: this optimizer has stepped since the last update()");
    u.stepped = true;
    u.finite = !u.all_finite.defined() || u.all_finite.item<bool>();
    if (!u.finite) ++skipped_;
    return u.finite;
}

bool GradScaler::step(optim::Optimizer& optimizer) {
    const bool finite = may_step(optimizer);
    if (finite) optimizer.step();
    return finite;
}

void GradScaler::update() {
    if (!options_.enabled) return;
    bool stepped = false, finite = true;
    for (const auto& [optimizer, u] : unscaled_) {
        stepped |= u.stepped;
        finite &= u.finite;
    }
    unscaled_.clear();
    if (!stepped)
        throw ValueError("GradScaler.update: no optimizer has stepped since the last one");
    if (!finite) {
        scale_ *= options_.backoff_factor;
        good_ = 0;
    } else if (++good_ == options_.growth_interval) {
        scale_ *= options_.growth_factor;
        good_ = 0;
    }
}

void GradScaler::load_state(const State& state) {
    if (!(state.scale > 0) || !std::isfinite(state.scale) || state.good_steps < 0 ||
        state.skipped_steps < 0)
        throw ValueError(fmt::format(
            "GradScaler.load_state: scale {} after {} good steps is no state of a scaler",
            state.scale, state.good_steps));
    scale_ = state.scale;
    good_ = state.good_steps;
    skipped_ = state.skipped_steps;
    unscaled_.clear();
}

}  // namespace pippin::amp
