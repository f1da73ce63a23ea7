#include "data/prefetcher.h"

#include <utility>

#include "profile/recorder.h"

namespace pippin::data {

Prefetcher::Prefetcher(DatasetPtr dataset, int workers, int ahead)
    : dataset_(std::move(dataset)), slots_(static_cast<std::size_t>(ahead)) {
    // One for each slot, one in each worker's hands, one in the caller's: more there never are.
    spare_.reserve(slots_.size() + static_cast<std::size_t>(workers) + 1);
    try {
        for (int i = 0; i < workers; ++i)
            threads_.emplace_back([this] { work(); });
    } catch (...) {  // no more threads to be had
        quit();
        throw;
    }
}

Prefetcher::~Prefetcher() { quit(); }

void Prefetcher::quit() {
    {
        const std::lock_guard lock(mutex_);
        quit_ = true;
    }
    may_work_.notify_all();
    for (std::thread& t : threads_)
        t.join();
}

void Prefetcher::start(std::shared_ptr<const EpochPlan> plan, std::int64_t first) {
    stop();
    {
        const std::lock_guard lock(mutex_);
        plan_ = std::move(plan);
        taken_ = given_ = first;
    }
    may_work_.notify_all();
}

void Prefetcher::stop() {
    std::unique_lock lock(mutex_);
    plan_ = nullptr;
    is_ready_.wait(lock, [&] { return busy_ == 0; });
    for (Slot& s : slots_) {
        keep(std::move(s.batch));
        s = Slot{};
    }
}

std::unique_ptr<Example> Prefetcher::next() {
    std::unique_lock lock(mutex_);
    if (threads_.empty()) {
        std::unique_ptr<Example> batch = spare();
        const std::int64_t k = given_++;
        lock.unlock();
        return make(*plan_, k, std::move(batch));
    }
    {
        const recording::Range range("wait for a batch");
        is_ready_.wait(lock, [&] { return slot(given_).ready; });
    }
    Slot done = std::exchange(slot(given_), Slot{});
    ++given_;
    lock.unlock();
    may_work_.notify_one();
    if (done.error) std::rethrow_exception(done.error);
    return std::move(done.batch);
}

void Prefetcher::recycle(std::unique_ptr<Example> batch) {
    const std::lock_guard lock(mutex_);
    keep(std::move(batch));
}

std::unique_ptr<Example> Prefetcher::spare() {
    if (spare_.empty()) return nullptr;
    std::unique_ptr<Example> batch = std::move(spare_.back());
    spare_.pop_back();
    return batch;
}

void Prefetcher::keep(std::unique_ptr<Example> batch) {
    if (batch && spare_.size() < spare_.capacity()) spare_.push_back(std::move(batch));
}

std::unique_ptr<Example> Prefetcher::make(const EpochPlan& plan, std::int64_t k,
                                          std::unique_ptr<Example> batch) const {
    const recording::Range range("load a batch");
    if (!batch) batch = std::make_unique<Example>();
    dataset_->load_batch(plan.batch(k), plan.draws, *batch);
    return batch;
}

void Prefetcher::work() {
    recording::name_thread("loader worker");
    std::unique_lock lock(mutex_);
    const auto has_work = [&] {
        return plan_ && taken_ < plan_->batches &&
               taken_ < given_ + static_cast<std::int64_t>(slots_.size());
    };
    for (;;) {
        may_work_.wait(lock, [&] { return quit_ || has_work(); });
        if (quit_) return;
        const std::shared_ptr<const EpochPlan> plan = plan_;
        const std::int64_t k = taken_++;
        ++busy_;
        Slot done{true, spare(), nullptr};
        lock.unlock();
        try {
            done.batch = make(*plan, k, std::move(done.batch));
        } catch (...) {
            done.error = std::current_exception();
        }
        lock.lock();
        slot(k) = std::move(done);
        --busy_;
        is_ready_.notify_one();
    }
}

}  // namespace pippin::data
