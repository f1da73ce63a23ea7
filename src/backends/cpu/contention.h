// How threads wait for each other where other programs want the same cores.
//
// GNU's OpenMP runtime lets waiting threads spin for milliseconds. On cores of one's own that is
// right: waking a sleeping thread costs 20 to 100 us. Where others compete for the cores, the
// thread that one waits for may be off its core, kept away by the very thread that spins, and a
// step of a small network becomes a hundred times slower. Which of the two it is, only the clock
// tells.
#pragma once

namespace pippin::cpu {

/// What runs of one plan take on average, waiting in each way; 0 before the first.
struct RunTimes {
    double spinning = 0, sleeping = 0;  ///< seconds
};

/// Chooses between spinning and sleeping by trying: a few runs in the other mode, which is kept
/// when they take a fifth less than the same plans did before. Trials take 20 ms (or one run) and
/// come after a tenth of a second of runs, then after 1, 2, 4, ... 16 seconds.
class WaitPolicy {
  public:
    enum class Mode { Spin, Sleep };
    Mode mode() const { return mode_; }
    /// One run of a plan took `seconds`.
    void add(double seconds, RunTimes& of_plan);

  private:
    void switch_mode() { mode_ = mode_ == Mode::Spin ? Mode::Sleep : Mode::Spin; }
    void begin_trial();
    void end_trial();

    Mode mode_ = Mode::Spin;
    bool trial_ = false;
    double until_trial_ = 0.1, interval_ = 0.5;  ///< seconds of runs
    double took_ = 0, before_ = 0;  ///< by the trial's runs, and what is expected of them
};

/// Called after each run by the thread that runs plans: applies the policy. Does nothing when the
/// environment says how threads shall wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT), and with other OpenMP
/// runtimes.
void mind_contention(double seconds, RunTimes& of_plan);

}  // namespace pippin::cpu
