// What the accelerator's files share.
#pragma once

#include <vector>

#include "pippin/accelerator.h"
#include "train/distributed.h"
#include "train/gradient_sync.h"

namespace pippin {

/// A flag that SIGINT and SIGTERM set, while anyone holds one of these.
class StopSignals {
  public:
    StopSignals();
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;
    static int received();  ///< the signal's number, or 0
};

struct Accelerator::Impl : optim::StepGate {
    AcceleratorOptions options;
    std::string precision;
    DType compute = DType::Float32;
    Device device;
    amp::GradScaler scaler;

    std::vector<nn::Module*> models;
    std::vector<optim::Optimizer*> optimizers;
    std::vector<data::DataLoader*> loaders;
    std::vector<optim::Scheduler*> schedules;
    struct Custom {
        std::string name;
        std::function<std::string()> save;
        std::function<void(const std::string&)> load;
    };
    std::vector<Custom> custom;
    std::vector<std::unique_ptr<train::Tracker>> trackers;
    std::unique_ptr<StopSignals> signals;

    // --- the window of batches whose gradients add up ---
    int window_size = 1;   ///< batches in it
    int window_batch = 0;  ///< which one is under way, from 1; 0: no window was asked for
    bool in_window = false;
    bool gradients_pending = false;  ///< backward() ran and no step used it yet
    bool skipped = false;            ///< fp16 overflowed in the last step
    std::int64_t steps = 0;
    int next_checkpoint = 0;

    // --- several processes ---
    const dist::Place& place;
    std::unique_ptr<dist::GradientSync> gradients;  ///< null with one process
    int no_sync = 0;                                ///< guards
    bool backward_was_called = false;
    int agreed_signal = 0;  ///< that all processes know of

    explicit Impl(const AcceleratorOptions& o, bool scales)
        : options(o),
          scaler([&] {
              amp::GradScalerOptions s = o.scaler;
              s.enabled = s.enabled && scales;
              return s;
          }()),
          place(dist::place()) {
        if (place.size > 1)
            gradients = std::make_unique<dist::GradientSync>(
                static_cast<std::size_t>(o.bucket_cap_mb * 1e6));
    }

    bool sync() const { return !in_window || window_batch >= window_size; }
    /// The prepared loader whose loop began last and is under way.
    const data::DataLoader* active_loader() const;

    bool may_step(optim::Optimizer& optimizer) override;
    bool may_zero_grad(optim::Optimizer& optimizer) override;
    /// Everything but what is each process's own, of which `of_processes` tells.
    void write_state(const std::filesystem::path& folder,
                     const std::vector<std::string>& of_processes, bool adding_up) const;
    void read_state(const std::filesystem::path& folder);

    /// The mean of all processes' gradients, after a backward pass.
    void average_gradients();
    /// The signal that asks this run to end, or 0; the same in all processes.
    int signal();
    /// fp16: gradients as they are, before clipping looks at them.
    void unscale_gradients();
};

}  // namespace pippin
