// Which way each heavy launch goes on a device: tried once, then remembered.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/gpu/trial.h"
#include "backends/gpu/tuning_file.h"
#include "pippin/tuning.h"

namespace pippin::gpu {

/// PIPPIN_GPU_TUNE: 0 takes the defaults, 1 tunes, "log" tunes and says on stderr what came out,
/// "full" does so until all is known. Unset: `otherwise`. ValueError for what is none of these.
enum class TuneMode { Off, On, Log, Full };
TuneMode tune_mode(bool otherwise);

/// Any thread.
class Tuner {
  public:
    struct Settings {
        TuneMode mode = TuneMode::On;
        std::filesystem::path file;  ///< empty: nothing is remembered beyond this process
        std::string device;          ///< its name and driver's version
        Features features;
        double plan_seconds = 3;     ///< that a plan may take of which nothing is known
        double least_seconds = 0.1;  ///< with less left, nothing is tried
        /// That all plans of the process may take, and the part of its later time: programs whose
        /// shapes keep changing go on, too.
        double all_seconds = 12, share = 0.1;
        double margin = 0.05;              ///< by which another way must win over the default
        std::size_t kernels_at_once = 32;  ///< that are compiled before they are measured
    };
    /// The bench outlives it.
    Tuner(Settings settings, Bench& bench);

    /// A choice for each launch of a plan, all of them default where it is off. What is not known
    /// yet is tried, the dearest first, as long as there is time for it.
    std::vector<LaunchChoice> choose(const plan::Plan& plan);
    TuningStats stats() const;

  private:
    struct Subject;
    void tune(const plan::Plan& plan, std::span<Subject> unknown, double seconds);
    std::size_t open(const plan::Plan& plan, Subject& subject) const;
    void compile(std::span<Subject> wave);
    void settle(const plan::Launch& launch, Subject& subject);
    void report(std::span<const Subject> subjects, double seconds) const;
    bool tells() const { return settings_.mode >= TuneMode::Log; }

    Settings settings_;
    Bench& bench_;
    mutable std::mutex mutex_;
    std::unique_ptr<TuningFile> file_;  // from the first plan with something to choose on
    std::map<TextKey, Tuned> known_, fresh_;
    std::int64_t tried_ = 0;
    double spent_ = 0;
    const double born_;  // seconds of the steady clock
};

/// Stands for a launch: what its kernels depend on.
TextKey launch_key(const plan::HeavyLaunch& launch);
/// Stands for the texts of all kernels that have ways.
TextKey kernels_key(const Features& features);

}  // namespace pippin::gpu
