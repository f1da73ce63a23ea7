// The flags that training examples share, by Accelerate's names where it has them.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "flags.h"
#include "pippin/accelerator.h"
#include "pippin/pippin.h"
#include "pippin/train.h"

namespace examples {

struct TrainingFlags {
    std::string mixed_precision = "no";
    bool cpu = false;
    int epochs = 3, workers = 2, gradient_accumulation_steps = 1;
    std::int64_t batch_size = 64;
    double lr = 0;  ///< 0: not given
    std::uint64_t seed = 42;
};

/// `lr` says what is taken where --lr is not given.
inline void add_training_flags(CLI::App& app, TrainingFlags& f, const std::string& lr) {
    app.option_defaults()->always_capture_default();
    app.add_option("--mixed_precision", f.mixed_precision, "no (float32), bf16 or fp16")
        ->envname("PIPPIN_MIXED_PRECISION")
        ->check(CLI::IsMember({"no", "bf16", "fp16"}));
    app.add_flag("--cpu", f.cpu, "train on the processor");
    app.add_option("--epochs,--num_epochs", f.epochs)->check(positive);
    app.add_option("--batch_size", f.batch_size)->check(positive);
    app.add_option("--gradient_accumulation_steps", f.gradient_accumulation_steps,
                   "batches whose gradients add up to one step")
        ->check(positive);
    app.add_option("--lr", f.lr, "highest learning rate; default: " + lr)
        ->always_capture_default(false)
        ->check(CLI::PositiveNumber);
    app.add_option("--seed", f.seed);
    app.add_option("--workers", f.workers, "threads that make batches ahead")
        ->check(CLI::NonNegativeNumber);
}

struct CheckpointFlags {
    std::string checkpointing_steps, output_dir = ".", resume_from_checkpoint, project_dir = "logs";
    bool with_tracking = false;
};

/// A number of steps, or "epoch".
inline const CLI::Validator steps_or_epoch(
    [](std::string& text) -> std::string {
        if (text == "epoch" || positive(text).empty()) return "";
        return "expected epoch or a number of steps from 1, got " + text;
    },
    "N|epoch");

inline void add_checkpoint_flags(CLI::App& app, CheckpointFlags& f) {
    app.add_option("--checkpointing_steps", f.checkpointing_steps,
                   "save every so many steps, or \"epoch\"")
        ->check(steps_or_epoch);
    app.add_option("--output_dir", f.output_dir, "where checkpoints go");
    app.add_option("--resume_from_checkpoint", f.resume_from_checkpoint,
                   "a folder step_N or epoch_N");
    app.add_flag("--with_tracking", f.with_tracking, "log to TensorBoard, CSV and JSON lines");
    app.add_option("--project_dir", f.project_dir, "where logs go");
}

inline std::vector<std::string> trackers(const CheckpointFlags& f) {
    if (!f.with_tracking) return {};
    return {"tensorboard", "csv", "jsonl"};
}

inline std::map<std::string, std::string> settings(const TrainingFlags& f) {
    return {{"lr", fmt::format("{}", f.lr)},
            {"num_epochs", std::to_string(f.epochs)},
            {"seed", std::to_string(f.seed)},
            {"batch_size", std::to_string(f.batch_size)}};
}

/// Saves every N steps or every epoch, resumes, and ends a run in order: what --checkpointing_steps
/// and its like ask for.
class Checkpoints {
  public:
    Checkpoints(const CheckpointFlags& f, pippin::Accelerator& accelerator)
        : accelerator_(accelerator),
          output_(f.output_dir),
          each_epoch_(f.checkpointing_steps == "epoch") {
        if (!each_epoch_) every_ = std::atoll(f.checkpointing_steps.c_str());
    }

    /// Before resume(): a mean over the epoch that goes on where the checkpoint was made.
    void keep(pippin::train::Mean& mean) {
        accelerator_.register_for_checkpointing(
            "mean", [&mean] { return fmt::format("{:a} {}", mean.total(), mean.count()); },
            [this, &mean](const std::string& text) {
                char* end = nullptr;
                const auto total = static_cast<float>(std::strtod(text.c_str(), &end));
                const std::int64_t count = std::strtoll(end, nullptr, 10);
                mean.reset();
                if (count == 0) return;
                mean.add_total(
                    pippin::from_bytes(&total, {}, pippin::float32).to(accelerator_.device()),
                    count);
                pippin::flush();  // the next step is planned as all others
            });
    }

    /// After everything is prepared.
    void resume(const std::string& folder, const pippin::data::DataLoader& train_loader) {
        if (folder.empty()) return;
        accelerator_.load_state(folder);
        const auto at = train_loader.position();
        accelerator_.print(fmt::format("Resumed from checkpoint: {} (epoch {}, batch {})", folder,
                                       at.epoch, at.batch));
    }

    /// After each batch. True when a signal asks the run to end: it is saved then.
    bool after_batch() {
        const bool stop = accelerator_.stop_requested();
        const bool due =
            every_ > 0 && accelerator_.sync_gradients() && accelerator_.steps() % every_ == 0;
        if (!stop && !due) return false;
        const auto folder = save(fmt::format("step_{}", accelerator_.steps()));
        if (stop)
            accelerator_.print("stopped; go on with --resume_from_checkpoint " + folder.string());
        return stop;
    }
    void after_epoch(std::int64_t epoch) {
        if (each_epoch_) save(fmt::format("epoch_{}", epoch));
    }

  private:
    // A folder of this name was saved at this very step already.
    std::filesystem::path save(const std::string& name) {
        const auto folder = output_ / name;
        if (!std::filesystem::exists(folder)) accelerator_.save_state(folder);
        return folder;
    }

    pippin::Accelerator& accelerator_;
    std::filesystem::path output_;
    bool each_epoch_;
    std::int64_t every_ = 0;
};

}  // namespace examples
