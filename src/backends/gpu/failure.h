// What is left of a run that met a bad index: launches' states, and which of them must not run
// afterwards.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "runtime/backend.h"

namespace pippin::gpu {

class Aftermath {
  public:
    Aftermath() = default;
    explicit Aftermath(const plan::Plan& plan);

    /// Whether a launch writes over what must outlive a run that fails: inputs (parameters, their
    /// state). Such a launch looks at the error record first if any launch before it can fail.
    bool lasting(std::int32_t launch) const { return at(launch).lasting; }

    /// States after the launches `failed` (in order) met bad indices and all launches behind them
    /// were given to the device, or (`stopped`) none behind the first. What depends on the failure
    /// has written garbage, but over nothing that matters: it counts as skipped.
    std::vector<runtime::LaunchState> states(const std::vector<std::int32_t>& failed,
                                             bool stopped) const;

    /// States of a run that read inputs whose bytes an earlier run left as garbage: what depends on
    /// them is lost.
    std::vector<runtime::LaunchState> without(const std::vector<std::int32_t>& inputs) const;

  private:
    struct Touched {
        std::vector<std::int32_t> reads, writes;  ///< slots
        bool lasting = false;
    };
    const Touched& at(std::int32_t launch) const {
        return launches_[static_cast<std::size_t>(launch)];
    }
    std::vector<Touched> launches_;
    std::vector<std::int32_t> inputs_;  ///< the input that each slot is, or -1
};

}  // namespace pippin::gpu
