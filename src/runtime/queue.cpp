#include "runtime/queue.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "runtime/allocator.h"

namespace pippin {

void Fence::wait() const {
    // A short spin first: a step of a small network ends sooner than a sleeping thread wakes.
    for (int i = 0; i < 200 && !done(); ++i)
        std::this_thread::yield();
    done_.wait(0, std::memory_order_acquire);
    if (!error_) return;
    seen_ = true;
    std::rethrow_exception(error_);
}

void Fence::signal(std::exception_ptr error) {
    error_ = std::move(error);
    done_.store(1, std::memory_order_release);
    done_.notify_all();
}

}  // namespace pippin

namespace pippin::runtime {
namespace {

class Queue {
  public:
    Queue() : thread_([this] { loop(); }) {}
    ~Queue() {
        {
            std::lock_guard lock(mutex_);
            stop_ = true;
        }
        wake_.notify_all();
        thread_.join();
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
        idle_.wait(lock, [&] { return pending_.empty() && !running_; });
        if (auto f = std::exchange(failed_, nullptr); f && f->failed_unseen()) f->wait();
    }

    void drop_arena() {
        std::lock_guard lock(mutex_);
        if (pending_.empty() && !running_) arena_.reset();
    }

    QueueStats stats() {
        std::lock_guard lock(mutex_);
        return {runs_, launches_, arena_ ? std::int64_t(arena_->bytes) : 0};
    }

  private:
    static constexpr std::size_t kMaxQueued = 4;

    void loop() {
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
            Submission s = std::move(pending_.front());
            pending_.pop_front();
            queued_.store(pending_.size(), std::memory_order_release);
            running_ = true;
            lock.unlock();
            idle_.notify_all();
            std::exception_ptr error = run(s);
            std::shared_ptr<Fence> fence = std::move(s.fence);
            const std::int64_t launches = s.launches;
            s = {};  // give buffers back before anyone learns that the work is done
            lock.lock();
            if (error) failed_ = fence;
            ++runs_;
            launches_ += launches;
            running_ = false;
            lock.unlock();
            fence->signal(error);
            idle_.notify_all();
            lock.lock();
        }
    }

    std::exception_ptr run(Submission& s) {
        try {
            for (auto& f : s.waits_for)
                f->wait();  // in order: never blocks, but passes errors on
            void* arena = nullptr;
            if (s.arena_bytes > 0) {
                if (!arena_ || std::int64_t(arena_->bytes) < s.arena_bytes) {
                    arena_.reset();
                    arena_ = allocate(s.outputs.empty() ? Device{} : s.outputs[0]->device,
                                      std::size_t(s.arena_bytes));
                }
                arena = arena_->data;
            }
            pointers_.clear();
            for (auto& b : s.inputs)
                pointers_.push_back(b->data);
            for (auto& b : s.outputs)
                pointers_.push_back(b ? b->data : nullptr);
            std::span<void* const> all(pointers_);
            s.executable->run(
                {all.first(s.inputs.size()), all.subspan(s.inputs.size()), arena, s.scalars});
            return nullptr;
        } catch (...) {
            return std::current_exception();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, idle_;
    std::deque<Submission> pending_;
    std::atomic<std::size_t> queued_{0};
    bool stop_ = false, running_ = false;
    std::shared_ptr<Fence> failed_;  // the last run that went wrong
    std::int64_t runs_ = 0, launches_ = 0;
    BufferPtr arena_;
    std::vector<void*> pointers_;
    std::thread thread_;  // last: starts when all else is ready
};

Queue& queue(Device) {
    static Queue q;
    return q;
}

}  // namespace

void submit(Device device, Submission s) { queue(device).submit(std::move(s)); }
void drain() { queue({}).drain(); }
void drop_idle_arena(Device device) { queue(device).drop_arena(); }
QueueStats queue_stats() { return queue({}).stats(); }

}  // namespace pippin::runtime
