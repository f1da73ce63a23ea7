#include "runtime/queue.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "profile/recorder.h"
#include "runtime/allocator.h"

namespace pippin {

void Fence::block() const {
    if (done()) return;
    const recording::Range range("wait for results");
    // A short spin first: a step of a small network ends sooner than a sleeping thread wakes.
    for (int i = 0; i < 200 && !done(); ++i)
        std::this_thread::yield();
    done_.wait(0, std::memory_order_acquire);
}

void Fence::wait() const {
    block();
    if (!error_) return;
    seen_ = true;
    std::rethrow_exception(error_);
}

void Fence::wait_for(std::int32_t result) const {
    block();
    if (!lost(result)) return;
    seen_ = true;
    std::rethrow_exception(error_);
}

void Fence::signal(std::exception_ptr error, std::vector<char> lost) {
    error_ = std::move(error);
    lost_ = std::move(lost);
    done_.store(1, std::memory_order_release);
    done_.notify_all();
}

}  // namespace pippin

namespace pippin::runtime {
namespace {

class Queue {
  public:
    explicit Queue(Device device) : device_(device), thread_([this] { loop(); }) {
        if (device.type() != Device::Type::CPU) finisher_ = std::thread([this] { finish_loop(); });
    }
    ~Queue() {
        {
            std::lock_guard lock(mutex_);
            stop_ = true;
        }
        wake_.notify_all();
        thread_.join();
        {
            std::lock_guard lock(mutex_);
            stop_finisher_ = true;
        }
        flying_.notify_all();
        if (finisher_.joinable()) finisher_.join();
    }

    void submit(Submission s) {
        {
            std::unique_lock lock(mutex_);
            // A bound keeps a program that never reads from queueing without end.
            idle_.wait(lock, [&] { return pending_.size() < kMaxQueued; });
            pending_.push_back(std::move(s));
            queued_.store(pending_.size(), std::memory_order_release);
        }
        wake_.notify_one();
    }

    void drain() {
        std::unique_lock lock(mutex_);
        idle_.wait(lock, [&] { return idle(); });
        if (auto f = std::exchange(failed_, nullptr); f && f->failed_unseen()) f->wait();
    }

    void wait_until_idle() {
        std::unique_lock lock(mutex_);
        idle_.wait(lock, [&] { return idle(); });
    }

    void drop_arena() {
        std::lock_guard lock(mutex_);
        if (idle()) arena_.reset();
    }

    QueueStats stats() {
        std::lock_guard lock(mutex_);
        return {runs_, launches_, arena_ ? std::int64_t(arena_->bytes) : 0};
    }

  private:
    static constexpr std::size_t kMaxQueued = 4, kMaxFlying = 3;

    struct Flight {
        Submission submission;
        std::unique_ptr<Completion> completion;
        BufferPtr arena;  // what it runs in may be replaced by a larger one meanwhile
    };

    bool idle() const { return pending_.empty() && !running_ && flights_.empty() && !landing_; }

    void loop() {
        recording::name_thread(device_.str() + " queue");
        std::unique_lock lock(mutex_);
        for (;;) {
            if (pending_.empty() && !stop_) {
                lock.unlock();
                for (int i = 0; i < 400 && queued_.load(std::memory_order_acquire) == 0; ++i)
                    std::this_thread::yield();
                lock.lock();
            }
            wake_.wait(lock, [&] { return stop_ || !pending_.empty(); });
            if (pending_.empty()) return;
            // Flights are few, so that a device that fails is noticed and memory is given back.
            idle_.wait(lock, [&] { return flights_.size() + landing_ < kMaxFlying; });
            Submission s = std::move(pending_.front());
            pending_.pop_front();
            queued_.store(pending_.size(), std::memory_order_release);
            running_ = true;
            lock.unlock();
            idle_.notify_all();
            std::unique_ptr<Completion> completion;
            Failure failure;
            try {
                completion = run(s, failure);
            } catch (...) {  // before any launch
                failure.error = std::current_exception();
                failure.launches.assign(static_cast<std::size_t>(s.launches), LaunchState::Skipped);
            }
            lock.lock();
            if (completion) {
                flights_.push_back({std::move(s), std::move(completion), arena_});
                running_ = false;
                flying_.notify_one();
            } else {
                lock.unlock();
                finish(std::move(s), std::move(failure), lock, running_);
            }
        }
    }

    void finish_loop() {
        recording::name_thread(device_.str() + " finisher");
        std::unique_lock lock(mutex_);
        for (;;) {
            flying_.wait(lock, [&] { return stop_finisher_ || !flights_.empty(); });
            if (flights_.empty()) return;
            Flight f = std::move(flights_.front());
            flights_.pop_front();
            landing_ = true;
            lock.unlock();
            Failure failure;
            try {
                f.completion->wait();
            } catch (...) {
                failure.error = std::current_exception();
                failure.launches = std::move(f.completion->launches);
            }
            const bool own = failure.error != nullptr;
            std::vector<std::int32_t> lost;
            for (auto& d : f.submission.waits_for)  // in order: all are done
                if (d.fence->lost(d.result)) {
                    lost.push_back(d.input);
                    if (!failure.error) failure.error = d.fence->error();
                }
            if (!lost.empty()) {
                const std::vector<LaunchState> without = f.completion->without(lost);
                if (!own) failure.launches = without;
                // What did not run here, for an error of its own, has not spread garbage either.
                if (own && failure.launches.size() != without.size()) failure.launches.clear();
                for (std::size_t k = 0; k < failure.launches.size(); ++k)
                    if (failure.launches[k] == LaunchState::Done) failure.launches[k] = without[k];
            }
            f.completion.reset();
            f.arena.reset();
            finish(std::move(f.submission), std::move(failure), lock, landing_);
        }
    }

    // Called without the lock, and returns with it. `busy` is the caller's flag, taken down.
    void finish(Submission s, Failure failure, std::unique_lock<std::mutex>& lock, bool& busy) {
        std::shared_ptr<Fence> fence = std::move(s.fence);
        std::vector<char> lost;
        if (failure.error && !failure.launches.empty())
            for (const ResultFate& r : s.results)
                lost.push_back(r.lost(failure.launches));
        const std::int64_t launches = s.launches;
        s = {};  // give buffers back before anyone learns that the work is done
        lock.lock();
        if (failure.error) failed_ = fence;
        ++runs_;
        launches_ += launches;
        busy = false;
        lock.unlock();
        fence->signal(failure.error, std::move(lost));
        idle_.notify_all();
        lock.lock();
    }

    std::unique_ptr<Completion> run(Submission& s, Failure& failure) {
        // Most inputs come from earlier runs of this queue, which have ended or are before this one
        // on the device. The others come from the thread that talks to other processes.
        if (device_.type() == Device::Type::CPU)
            for (auto& d : s.waits_for)
                d.fence->block();
        lost_inputs_.clear();
        for (auto& d : s.waits_for)  // in order: what fails is known, but on devices of their own
            if (d.fence->done() && d.fence->lost(d.result)) {
                lost_inputs_.push_back(d.input);
                failure.error = d.fence->error();
            }
        if (!lost_inputs_.empty() && device_.type() != Device::Type::CPU) {
            failure.launches.assign(static_cast<std::size_t>(s.launches), LaunchState::Skipped);
            return nullptr;
        }
        Memory arena;
        if (s.arena_bytes > 0) {
            if (!arena_ || std::int64_t(arena_->bytes) < s.arena_bytes) {
                arena_.reset();
                arena_ = allocate(device_, std::size_t(s.arena_bytes));
            }
            arena = arena_->memory;
        }
        memory_.clear();
        for (auto& b : s.inputs)
            memory_.push_back(b ? b->memory : Memory{});
        for (auto& b : s.outputs)
            memory_.push_back(b ? b->memory : Memory{});
        std::span<const Memory> all(memory_);
        const recording::Range range("run plan");
        return s.executable->run({all.first(s.inputs.size()), all.subspan(s.inputs.size()), arena,
                                  s.scalars, lost_inputs_, &failure, &s.fence->progress()});
    }

    const Device device_;
    std::mutex mutex_;
    std::condition_variable wake_, idle_, flying_;
    std::deque<Submission> pending_;
    std::deque<Flight> flights_;
    std::atomic<std::size_t> queued_{0};
    bool stop_ = false, stop_finisher_ = false, running_ = false, landing_ = false;
    std::shared_ptr<Fence> failed_;  // the last run that went wrong
    std::int64_t runs_ = 0, launches_ = 0;
    BufferPtr arena_;
    std::vector<Memory> memory_;
    std::vector<std::int32_t> lost_inputs_;
    std::thread thread_, finisher_;  // last: start when all else is ready
};

std::atomic<std::int64_t> fallbacks{0};

// Queues are there; outlives them.
std::atomic<bool> has_queues = false;

struct Queues {
    std::mutex mutex;
    std::array<std::unique_ptr<Queue>, kMaxDevices> all;
    Queues() { has_queues = true; }
    ~Queues() { has_queues = false; }
    Queues(const Queues&) = delete;
    Queues& operator=(const Queues&) = delete;
};
Queues& queues() {
    static Queues q;
    return q;
}

Queue& queue(Device device) {
    Queues& q = queues();
    std::lock_guard lock(q.mutex);
    auto& own = q.all[device_number(device)];
    if (!own) own = std::make_unique<Queue>(device);
    return *own;
}

// Waits for the work in flight when a thread that gave work ends. At the program's end that comes
// before all static objects are destroyed: those that libraries make while they run, too, with
// generated code in them that the work may be running.
struct Finisher {
    ~Finisher() {
        if (has_queues) wait_until_idle();
    }
    void be_there() {}
};

}  // namespace

void submit(Device device, Submission s) {
    static thread_local Finisher finisher;
    finisher.be_there();
    const recording::Range range("submit");
    queue(device).submit(std::move(s));
}

void drain() {
    const recording::Range range("wait for devices");
    for (const Device d : devices_in_use())
        queue(d).drain();
}

void wait_until_idle() {
    for (const Device d : devices_in_use())
        queue(d).wait_until_idle();
}

void drop_idle_arena(Device device) { queue(device).drop_arena(); }

void count_fallback() { ++fallbacks; }

QueueStats queue_stats() {
    QueueStats sum;
    sum.fallbacks = fallbacks;
    for (const Device d : devices_in_use()) {
        const QueueStats s = queue(d).stats();
        sum.runs += s.runs;
        sum.launches += s.launches;
        sum.arena_bytes += s.arena_bytes;
    }
    return sum;
}

}  // namespace pippin::runtime
