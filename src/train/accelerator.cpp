// The accelerator's loop: precision, accumulation, clipping, tracking. Checkpoints are in
// checkpoint.cpp.
#include "pippin/accelerator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <unordered_set>

#include "pippin/random.h"
#include "pippin/stats.h"
#include "train/accelerator_impl.h"

namespace pippin {
namespace {

std::string chosen_precision(const AcceleratorOptions& o) {
    std::string p = "no", from = "mixed_precision";
    if (o.mixed_precision) {
        p = *o.mixed_precision;
    } else if (const char* env = std::getenv("PIPPIN_MIXED_PRECISION")) {
        p = env;
        from = "PIPPIN_MIXED_PRECISION";
    }
    if (p != "no" && p != "bf16" && p != "fp16")
        throw ValueError(
            fmt::format("Accelerator: {} must be no, bf16 or fp16, got \"{}\"", from, p));
    return p;
}

template <class T>
void add_once(std::vector<T*>& list, T& object, const char* what) {
    if (std::find(list.begin(), list.end(), &object) != list.end())
        throw ValueError(fmt::format("Accelerator.prepare: this {} was prepared already", what));
    list.push_back(&object);
}

}  // namespace

const data::DataLoader* Accelerator::Impl::active_loader() const {
    const data::DataLoader* latest = nullptr;
    for (const data::DataLoader* l : loaders)
        if (l->active_loop() != 0 && (!latest || l->active_loop() > latest->active_loop()))
            latest = l;
    return latest;
}

bool Accelerator::Impl::may_step(optim::Optimizer& optimizer) {
    if (gradients && !backward_was_called)
        throw ValueError(
            "Accelerator: with several processes call accelerator.backward(loss) before "
            "optimizer.step(); loss.backward() leaves each process its own gradients");
    if (!sync()) {
        flush();  // this batch's gradients; its activations go
        return false;
    }
    if (scaler.is_enabled()) {
        skipped = !scaler.may_step(optimizer);
        if (optimizers.size() == 1) scaler.update();
    }
    gradients_pending = false;
    if (&optimizer == optimizers.front() && !skipped) ++steps;
    return !skipped;
}

bool Accelerator::Impl::may_zero_grad(optim::Optimizer&) {
    // Before a window's first backward() and after its step; never in between.
    return !gradients_pending;
}

void Accelerator::Impl::average_gradients() {
    std::vector<Tensor> parameters, buffers;
    std::unordered_set<const Variable*> seen;
    const auto add = [&](const Tensor& p) {
        if (p.requires_grad() && seen.insert(p.variable().get()).second) parameters.push_back(p);
    };
    for (const nn::Module* model : models) {
        for (const Tensor& p : model->parameters())
            add(p);
        for (const auto& [name, buffer] : model->named_buffers())
            buffers.push_back(buffer);
    }
    for (const optim::Optimizer* optimizer : optimizers)
        for (const auto& group : optimizer->groups())
            for (const Tensor& p : group.params)
                add(p);
    gradients->average(parameters, buffers, signals ? StopSignals::received() : 0);
}

int Accelerator::Impl::signal() {
    if (!signals) return 0;
    if (!gradients) return StopSignals::received();
    // One process must not save and leave while another one waits for its gradients.
    if (agreed_signal == 0) agreed_signal = gradients->signal_of_all();
    return agreed_signal;
}

void Accelerator::Impl::unscale_gradients() {
    for (optim::Optimizer* optimizer : optimizers)
        scaler.unscale_(*optimizer);
}

Accelerator::Accelerator(AcceleratorOptions o) {
    if (o.gradient_accumulation_steps < 1)
        throw ValueError(
            fmt::format("Accelerator: gradient_accumulation_steps must be at least 1, got {}",
                        o.gradient_accumulation_steps));
    if (o.total_limit < 0)
        throw ValueError(
            fmt::format("Accelerator: total_limit must not be negative, got {}", o.total_limit));
    if (!(o.bucket_cap_mb > 0))
        throw ValueError(
            fmt::format("Accelerator: bucket_cap_mb must be positive, got {}", o.bucket_cap_mb));
    if (o.automatic_checkpoint_naming && o.project_dir.empty())
        throw ValueError("Accelerator: automatic_checkpoint_naming needs a project_dir");
    const std::string precision = chosen_precision(o);
    impl_ = std::make_shared<Impl>(o, precision == "fp16");
    impl_->precision = precision;
    impl_->compute = precision == "bf16"   ? DType::BFloat16
                     : precision == "fp16" ? DType::Float16
                                           : DType::Float32;
    std::string reason = default_device_reason();
    if (o.cpu && default_device().type() != Device::Type::CPU) {
        set_default_device(Device::Type::CPU);
        reason = "the program asked for it";
    }
    impl_->device = default_device();
    if (o.handle_signals) impl_->signals = std::make_unique<StopSignals>();
    if (o.quiet || !is_main_process()) return;
    fmt::print(stderr, "pippin: training on {} ({}; {}), precision {}{}\n", impl_->device.str(),
               impl_->device.description(), reason, precision,
               num_processes() > 1 ? fmt::format(", {} processes", num_processes()) : "");
}

Accelerator::~Accelerator() {
    if (std::uncaught_exceptions() > 0) dist::give_up();
}

Device Accelerator::device() const { return impl_->device; }
const std::string& Accelerator::mixed_precision() const { return impl_->precision; }

void Accelerator::prepare_one(nn::Module& model) {
    add_once(impl_->models, model, "model");
    model.to(impl_->device);
    dist::make_equal(model.state_dict());
}
void Accelerator::prepare_one(optim::Optimizer& optimizer) {
    add_once(impl_->optimizers, optimizer, "optimizer");
    optimizer.set_gate(impl_);
}
void Accelerator::prepare_one(data::DataLoader& loader) {
    add_once(impl_->loaders, loader, "loader");
    if (num_processes() == 1) return;
    loader.split(process_index(), num_processes());
    data::DataLoader::Position p = loader.position();
    dist::broadcast(&p.seed, sizeof p.seed);
    loader.set_position(p);
}
void Accelerator::prepare_one(optim::Scheduler& schedule) {
    add_once(impl_->schedules, schedule, "schedule");
    schedule.set_stride(num_processes());
}

Accelerator::Window::Window(Accelerator& a) : accelerator_(a) {
    Impl& m = *a.impl_;
    if (m.in_window)
        throw ValueError("Accelerator.accumulate: the window of the batch before is still open");
    const data::DataLoader* loader = m.active_loader();
    const std::int64_t left = loader ? loader->size() - loader->position().batch + 1 : 0;
    if (m.window_batch == 0) {
        m.window_size = m.options.gradient_accumulation_steps;
        // The loader's last window holds what is left.
        if (loader) m.window_size = static_cast<int>(std::min<std::int64_t>(m.window_size, left));
    }
    ++m.window_batch;
    m.in_window = true;
}

Accelerator::Window::~Window() {
    Impl& m = *accelerator_.impl_;
    if (m.sync()) m.window_batch = 0;
    m.in_window = false;
    if (m.scaler.is_enabled() && m.optimizers.size() > 1 && m.window_batch == 0) {
        try {
            m.scaler.update();
        } catch (const ValueError&) {  // no optimizer stepped in this window
        }
    }
}

Accelerator::Window Accelerator::accumulate() { return Window(*this); }

bool Accelerator::sync_gradients() const { return impl_->sync(); }

Autocast Accelerator::autocast() const { return Autocast(impl_->compute); }

void Accelerator::backward(const Tensor& loss) {
    Tensor part = loss;
    if (impl_->in_window && impl_->window_size > 1)
        part = part / static_cast<double>(impl_->window_size);
    impl_->scaler.scale(part).backward();
    impl_->gradients_pending = impl_->backward_was_called = true;
    if (impl_->gradients && impl_->sync() && impl_->no_sync == 0) impl_->average_gradients();
}

Tensor Accelerator::clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                                    double p) {
    Impl& m = *impl_;
    if (m.sync()) {
        m.unscale_gradients();
        return nn::clip_grad_norm_(parameters, max_norm, p);
    }
    return zeros({}, m.device);
}

void Accelerator::clip_grad_value_(const std::vector<Tensor>& parameters, double value) {
    Impl& m = *impl_;
    if (!m.sync()) return;
    m.unscale_gradients();
    nn::clip_grad_value_(parameters, value);
}

const amp::GradScaler& Accelerator::scaler() const { return impl_->scaler; }
bool Accelerator::optimizer_step_was_skipped() const { return impl_->skipped; }
std::int64_t Accelerator::steps() const { return impl_->steps; }

void Accelerator::print(const std::string& line) const {
    if (!is_main_process()) return;
    fmt::print("{}\n", line);
    std::fflush(stdout);
}

bool Accelerator::stop_requested() const { return impl_->signal() != 0; }
int Accelerator::exit_code() const {
    const int signal = impl_->signal();
    if (signal == 0) return 0;
    dist::expect_exit();
    return 128 + signal;
}

void Accelerator::init_trackers(const std::string& run,
                                const std::map<std::string, std::string>& config) {
    Impl& m = *impl_;
    if (m.options.log_with.empty()) return;
    if (m.options.project_dir.empty())
        throw ValueError("Accelerator.init_trackers: log_with needs a project_dir to write to");
    m.trackers.clear();
    if (!is_main_process()) return;
    for (const std::string& kind : m.options.log_with) {
        m.trackers.push_back(train::make_tracker(kind, m.options.project_dir / run));
        m.trackers.back()->config(config);
    }
}

void Accelerator::log(const std::map<std::string, double>& values, std::int64_t step) {
    for (auto& tracker : impl_->trackers)
        tracker->log(values, step);
}

void Accelerator::end_training() { impl_->trackers.clear(); }

void Accelerator::register_for_checkpointing(const std::string& name,
                                             std::function<std::string()> save,
                                             std::function<void(const std::string&)> load) {
    for (const Impl::Custom& c : impl_->custom)
        if (c.name == name)
            throw ValueError(fmt::format(
                "Accelerator.register_for_checkpointing: \"{}\" is registered already", name));
    if (!save || !load)
        throw ValueError("Accelerator.register_for_checkpointing: both functions are needed");
    impl_->custom.push_back({name, std::move(save), std::move(load)});
}

void set_seed(std::uint64_t seed, bool device_specific) {
    manual_seed(seed + (device_specific ? static_cast<std::uint64_t>(dist::place().rank) : 0));
}

std::int64_t find_executable_batch_size(std::int64_t starting_batch_size,
                                        const std::function<void(std::int64_t)>& run) {
    if (starting_batch_size < 1)
        throw ValueError(
            fmt::format("find_executable_batch_size: the first size must be at least 1, got {}",
                        starting_batch_size));
    for (std::int64_t size = starting_batch_size;;) {
        try {
            run(size);
            return size;
        } catch (const OutOfMemoryError& e) {
            const auto next = static_cast<std::int64_t>(0.9 * static_cast<double>(size));
            if (next < 1)
                throw OutOfMemoryError(fmt::format(
                    "find_executable_batch_size: not even a batch of {} fits: {}", size, e.what()));
            size = next;
        }
        empty_cache();
    }
}

}  // namespace pippin
