#include "backends/cpu/contention.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#ifndef PIPPIN_NO_OPENMP
#include <omp.h>
#endif

namespace pippin::cpu {
namespace {

constexpr double kTrial = 0.02, kLongestInterval = 16, kBetter = 0.8;

}  // namespace

void WaitPolicy::begin_trial() {
    trial_ = true;
    took_ = before_ = 0;
    switch_mode();
}

void WaitPolicy::end_trial() {
    trial_ = false;
    if (took_ < kBetter * before_) {
        interval_ = 1;
    } else {
        switch_mode();
        interval_ = std::min(interval_ * 2, kLongestInterval);
    }
    until_trial_ = interval_;
}

void WaitPolicy::add(double seconds, RunTimes& of_plan) {
    double& here = mode_ == Mode::Spin ? of_plan.spinning : of_plan.sleeping;
    const double there = mode_ == Mode::Spin ? of_plan.sleeping : of_plan.spinning;
    here = here == 0 ? seconds : 0.7 * here + 0.3 * seconds;
    if (trial_) {
        if (there == 0) return end_trial();  // a new plan: nothing to compare with
        took_ += seconds;
        before_ += there;
        if (took_ >= kTrial) end_trial();
    } else if ((until_trial_ -= seconds) <= 0) {
        begin_trial();
    }
}

#if !defined(PIPPIN_NO_OPENMP) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
namespace {

// The runtime spins no longer once it manages more threads than there are cores. This thread has it
// manage as many, which sleep.
class Ballast {
  public:
    explicit Ballast(int threads)
        : thread_([this, threads] {
              std::atomic<int> count{0};  // a region that the compiler may not leave out
#pragma omp parallel num_threads(threads)
              count.fetch_add(1, std::memory_order_relaxed);
              ready_.store(1);
              ready_.notify_all();
              end_.wait(0);
          }) {
        ready_.wait(0);
    }
    ~Ballast() {
        end_.store(1);
        end_.notify_all();
        thread_.join();
    }
    Ballast(const Ballast&) = delete;
    Ballast& operator=(const Ballast&) = delete;

  private:
    std::atomic<int> ready_{0}, end_{0};
    std::thread thread_;  // last: starts when the rest is there
};

}  // namespace

void mind_contention(double seconds, RunTimes& of_plan) {
    static const bool told = std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT");
    if (told) return;
    thread_local WaitPolicy policy;
    thread_local std::unique_ptr<Ballast> ballast;
    policy.add(seconds, of_plan);
    const bool sleep = policy.mode() == WaitPolicy::Mode::Sleep;
    if (sleep && !ballast) ballast = std::make_unique<Ballast>(omp_get_num_procs() + 1);
    if (!sleep) ballast.reset();
}
#else
void mind_contention(double, RunTimes&) {}
#endif

}  // namespace pippin::cpu
