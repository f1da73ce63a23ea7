// Accelerator: one training loop for every device and precision, with accumulation, checkpoints and
// tracking. The vocabulary is Hugging Face Accelerate's.
//
//   Accelerator accelerator({.gradient_accumulation_steps = 4, .project_dir = "runs/cats"});
//   accelerator.prepare(*model, optimizer, train_loader, schedule);
//   for (const auto& batch : train_loader) {
//       const auto window = accelerator.accumulate();
//       Tensor loss;
//       {
//           const auto autocast = accelerator.autocast();
//           loss = cross_entropy((*model)(batch.data), batch.target);
//       }
//       accelerator.backward(loss);
//       accelerator.clip_grad_norm_(model->parameters(), 1.0);
//       optimizer.step();
//       schedule.step();
//       optimizer.zero_grad();
//   }
//
// Prepared objects are held by reference: they must be there as long as the accelerator is used,
// and may be destroyed before it, as here. While gradients add up, optimizer.step(),
// schedule.step() and optimizer.zero_grad() do nothing.
//
// `pippin launch --num_processes N` runs the same program as N processes that train one model: each
// takes every N-th batch (the batch size is a process's own), and gradients are averaged.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pippin/amp.h"
#include "pippin/data.h"
#include "pippin/nn.h"
#include "pippin/optim.h"
#include "pippin/profiler.h"
#include "pippin/trackers.h"

namespace pippin {

struct AcceleratorOptions {
    /// "no", "bf16" or "fp16". Unset: PIPPIN_MIXED_PRECISION, which `pippin launch` sets, else
    /// "no".
    std::optional<std::string> mixed_precision = std::nullopt;
    bool cpu = false;  ///< the processor, whatever else there is
    int gradient_accumulation_steps = 1;
    amp::GradScalerOptions scaler{};           ///< of fp16
    std::filesystem::path project_dir{};       ///< where automatic checkpoints and logs go
    bool automatic_checkpoint_naming = false;  ///< project_dir/checkpoints/checkpoint_<i>
    int total_limit = 0;                       ///< automatic checkpoints kept; 0: all
    std::vector<std::string> log_with{};       ///< "tensorboard", "csv", "jsonl"
    bool quiet = false;          ///< do not say which device and precision the run has
    bool handle_signals = true;  ///< SIGINT and SIGTERM set stop_requested() instead of killing
    /// With several processes: gradients travel together in buckets of this size, each as soon as
    /// it is complete.
    double bucket_cap_mb = 25;
};

class Accelerator {
  public:
    /// ValueError for options that are not as above. Says on stderr which device and precision the
    /// run has, and why.
    explicit Accelerator(AcceleratorOptions o = {});
    ~Accelerator();
    Accelerator(const Accelerator&) = delete;
    Accelerator& operator=(const Accelerator&) = delete;

    Device device() const;
    const std::string& mixed_precision() const;

    /// Registers modules (moving them to the device), optimizers, loaders and schedules, in any
    /// number and order. save_state() and load_state() cover them in this order. With several
    /// processes, all get process 0's parameters, buffers and order of samples; loaders are split
    /// (DataLoader::split); a schedule's step() takes as many steps as there are processes.
    template <class... T>
    void prepare(T&... objects) {
        (prepare_one(objects), ...);
    }

    // --- the loop ---
    /// While one lives, a batch is part of a window of gradient_accumulation_steps batches. The
    /// loader's last batch ends its window.
    class Window {
      public:
        ~Window();
        Window(const Window&) = delete;
        Window& operator=(const Window&) = delete;

      private:
        friend class Accelerator;
        explicit Window(Accelerator& a);
        Accelerator& accelerator_;
    };
    [[nodiscard]] Window accumulate();
    /// Whether the optimizer's next step() is a real one.
    bool sync_gradients() const;
    /// Convolutions, linear layers and matrix products of this thread in the run's precision.
    [[nodiscard]] Autocast autocast() const;
    /// loss.backward(), divided by the number of batches in the window (the last window of an epoch
    /// may have fewer) and scaled for fp16. With several processes it submits the work, and at the
    /// end of a window the gradients become their mean over all processes.
    void backward(const Tensor& loss);
    /// While it lives, backward() leaves each process its own gradients; the next one averages them
    /// all. (Between the batches of accumulate()'s windows that is so anyway.)
    class Guard;
    [[nodiscard]] Guard no_sync() const;
    /// Unscales first. Does nothing but give the norm while gradients add up. Returns the norm
    /// before clipping (0-d).
    Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double p = 2);
    void clip_grad_value_(const std::vector<Tensor>& parameters, double value);
    const amp::GradScaler& scaler() const;
    /// Whether fp16 made the last optimizer step a skipped one.
    bool optimizer_step_was_skipped() const;

    // --- processes: what all of them call alike ---
    bool is_main_process() const { return process_index() == 0; }
    bool is_local_main_process() const { return local_process_index() == 0; }
    bool is_last_process() const { return process_index() == num_processes() - 1; }
    int process_index() const;
    int local_process_index() const;  ///< among those on this machine
    int num_processes() const;
    void wait_for_everyone() const;
    /// A line on stdout, by the main process alone.
    void print(const std::string& line) const;
    /// The tensors of all processes, one behind the other along dim 0 (scalars become a vector).
    /// Waits, and carries no gradient. ValueError where shapes or dtypes differ.
    Tensor gather(const Tensor& t) const;
    /// gather(), without the samples that filled up the last batch of the loop under way.
    Tensor gather_for_metrics(const Tensor& t) const;
    /// One text of each process.
    std::vector<std::string> gather_object(const std::string& text) const;
    /// The sum or the mean over the processes, times `scale`. Integers are summed as integers.
    Tensor reduce(const Tensor& t, const std::string& reduction = "sum", double scale = 1) const;
    /// That of one process. ValueError where shapes or dtypes differ.
    Tensor broadcast(const Tensor& t, int from_process = 0) const;
    /// Made as long along `dim` as the longest of all processes', so that gather() takes it.
    Tensor pad_across_processes(const Tensor& t, int dim = 0, double pad_index = 0,
                                bool pad_first = false) const;
    /// The others wait where they make it until the main process's is gone: for a download, say.
    [[nodiscard]] Guard main_process_first() const;
    [[nodiscard]] Guard local_main_process_first() const;  ///< of each machine
    /// This process's part, equal for all but for the first ones' one item more; apply_padding
    /// repeats the last item so that all parts are as long as the first.
    template <class T>
    std::vector<T> split_between_processes(const std::vector<T>& all,
                                           bool apply_padding = false) const {
        std::vector<T> own;
        for (const std::int64_t i : part_of(static_cast<std::int64_t>(all.size()), apply_padding))
            own.push_back(all[static_cast<std::size_t>(i)]);
        return own;
    }
    Tensor split_between_processes(const Tensor& all, bool apply_padding = false) const;

    // --- checkpoints ---
    /// Writes all prepared and registered objects, random state and counters into a new folder,
    /// which appears under its name only when it is whole and on the disk. Unset: the next
    /// automatic name. FileError when the folder is there already or cannot be written. Returns its
    /// path.
    std::filesystem::path save_state(const std::filesystem::path& folder = {});
    /// Takes everything back, after verifying the checksum of each file and that it fits: an Error
    /// leaves all objects as they were. Unset: the newest automatic checkpoint that is whole. A
    /// loop over a prepared loader goes on at the batch where the checkpoint was made. Returns the
    /// path.
    std::filesystem::path load_state(const std::filesystem::path& folder = {});
    /// The newest whole automatic checkpoint, if there is one.
    std::optional<std::filesystem::path> latest_checkpoint() const;
    /// Text of your own that travels with checkpoints: `save` gives it, `load` gets it back.
    void register_for_checkpointing(const std::string& name, std::function<std::string()> save,
                                    std::function<void(const std::string&)> load);
    /// Weights alone, as model.safetensors in `folder`, or in shards of at most `max_shard_size`
    /// (a number of bytes, or as in "500MB" and "2GiB") with an index (io::save_sharded). FileError
    /// when that fails, ValueError for a size that is none.
    void save_model(const nn::Module& model, const std::filesystem::path& folder,
                    const std::string& max_shard_size = "10GB") const;
    /// The next loop over this loader begins at that batch of its epoch and loads none before.
    void skip_first_batches(data::DataLoader& loader, std::int64_t batches) const {
        loader.skip_to(batches);
    }
    /// Steps of prepared optimizers since the start of the first run.
    std::int64_t steps() const;

    // --- stopping ---
    /// SIGINT or SIGTERM came (a second one ends the process at once). Finish the step,
    /// save_state() and return exit_code(). Several processes learn of it together, up to two
    /// steps later.
    bool stop_requested() const;
    /// 128 + the signal's number, as shells report it; 0 if none came.
    int exit_code() const;

    // --- tracking ---
    /// Opens the trackers of log_with under project_dir/`run`.
    void init_trackers(const std::string& run,
                       const std::map<std::string, std::string>& config = {});
    void log(const std::map<std::string, double>& values, std::int64_t step);
    /// Records until it is stopped or dies: profiler.h.
    [[nodiscard]] Profile profile(ProfileOptions o = {}) const { return Profile(std::move(o)); }
    void end_training();  ///< closes the trackers; the destructor does it too

  private:
    void prepare_one(nn::Module& model);
    void prepare_one(optim::Optimizer& optimizer);
    void prepare_one(data::DataLoader& loader);
    void prepare_one(optim::Scheduler& schedule);
    /// Numbers of the items that are this process's.
    std::vector<std::int64_t> part_of(std::int64_t items, bool apply_padding) const;
    struct Impl;
    std::shared_ptr<Impl> impl_;  ///< its optimizers look at it as long as it is there
};

/// What ends with its scope.
class [[nodiscard]] Accelerator::Guard {
  public:
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

  private:
    friend class Accelerator;
    explicit Guard(std::function<void()> end) : end_(std::move(end)) {}
    std::function<void()> end_;
};

/// Seeds everything: weights, dropout, and loaders made afterwards. device_specific: each process
/// draws numbers of its own (prepare() gives all the same weights and order of samples anyway).
void set_seed(std::uint64_t seed, bool device_specific = false);

/// Calls run(batch_size), and again with int(0.9 * batch_size) after freeing caches as long as it
/// throws OutOfMemoryError. Returns the size that worked; OutOfMemoryError when 0 is reached.
std::int64_t find_executable_batch_size(std::int64_t starting_batch_size,
                                        const std::function<void(std::int64_t)>& run);

}  // namespace pippin
