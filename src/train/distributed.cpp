// The thread that talks to the other processes, and how a process leaves them.
#include "train/distributed.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "pippin/command_line.h"
#include "pippin/error.h"
#include "runtime/queue.h"

namespace pippin::dist {
namespace {

struct Leaving {};  ///< thrown by rest() once the process is to end

class Talker : public Talk {
  public:
    Talker() {
        std::promise<Place> found;
        std::future<Place> here = found.get_future();
        thread_ = std::thread([this, &found] { loop(found); });
        try {
            place_ = here.get();
        } catch (...) {
            thread_.join();
            throw;
        }
    }
    const Place& place() const { return place_; }

    void post(std::function<void(Talk&)> task) {
        {
            const std::lock_guard lock(mutex_);
            tasks_.push_back(std::move(task));
        }
        wake_.notify_one();
    }

    /// Orderly: tells the others and waits for them. Otherwise drops what is under way.
    void leave(bool orderly) {
        if (!thread_.joinable()) return;
        {
            const std::lock_guard lock(mutex_);
            quit_ = true;
            finish_ = orderly;
        }
        if (!orderly) leaving_.store(true);
        wake_.notify_one();
        thread_.join();
    }

    Transport& transport() override { return *transport_; }
    void rest(int& rests) override {
        if (leaving_.load(std::memory_order_relaxed)) throw Leaving{};
        // The cores belong to the computation: no busy waiting.
        if (++rests < 50)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(rests < 500 ? 20 : 200));
    }

  private:
    void loop(std::promise<Place>& found) {
        try {
            transport_ = make_transport();
        } catch (...) {
            return found.set_exception(std::current_exception());
        }
        if (!transport_) return found.set_value({});
        found.set_value({transport_->rank(), transport_->size(), transport_->local_rank()});
        std::unique_lock lock(mutex_);
        try {
            for (;;) {
                wake_.wait(lock, [&] { return quit_ || !tasks_.empty(); });
                if (tasks_.empty() || leaving_.load()) break;
                const std::function<void(Talk&)> task = std::move(tasks_.front());
                tasks_.pop_front();
                lock.unlock();
                task(*this);
                lock.lock();
            }
            if (finish_) {
                // All are done before any of them ends: mpirun stops the others of one whose exit
                // code is not 0.
                wait(transport_->start_barrier());
                transport_->finish();
            }
        } catch (const Leaving&) {
        }
        std::deque<std::function<void(Talk&)>> dropped;
        if (!lock.owns_lock()) lock.lock();
        dropped.swap(tasks_);
    }

    std::unique_ptr<Transport> transport_;
    Place place_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::function<void(Talk&)>> tasks_;
    bool quit_ = false, finish_ = false;
    std::atomic<bool> leaving_{false};
    std::thread thread_;
};

std::atomic<bool> exit_is_expected{false}, gave_up{false}, joined{false};
Talker* the_talker = nullptr;  // lives as long as the process

void on_end(int status) { the_talker->leave(!gave_up && (status == 0 || exit_is_expected)); }

// An exit code that is not 0 must end the process although the others still wait for it; mpirun
// then stops them.
void leave_at_end() {
    runtime::queue_stats();  // its threads are ended after this: they may wait for our results
#ifdef __GLIBC__
    ::on_exit([](int status, void*) { on_end(status); }, nullptr);
#else
    std::atexit([] { on_end(0); });
#endif
}

// What nobody catches is told by the C++ runtime, which does not know whose error it is.
std::terminate_handler told_by_runtime = nullptr;
void label_crashes() {
    told_by_runtime = std::set_terminate([] {
        std::fputs(rank_label().c_str(), stderr);
        told_by_runtime();
        std::abort();
    });
}

Talker& talker() {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    if (!the_talker) {
        auto own = std::make_unique<Talker>();
        the_talker = own.release();
        if (the_talker->place().size > 1) {
            leave_at_end();
            label_crashes();
        } else {
            the_talker->leave(false);  // there is nobody to talk to
        }
        joined.store(true);
    }
    return *the_talker;
}

void call(const std::function<void(Talk&)>& task) {
    const auto done = std::make_shared<std::promise<void>>();
    std::future<void> ended = done->get_future();
    // A task that is dropped breaks the promise, which throws here.
    post([task, done](Talk& t) {
        task(t);
        done->set_value();
    });
    ended.get();
}

}  // namespace

void Talk::wait(Transport::Request r) {
    for (int rests = 0; !transport().ended(r);)
        rest(rests);
}

const Place& place() { return talker().place(); }

const Place& place_so_far() {
    static const Place alone;
    return joined.load() ? talker().place() : alone;
}

void post(std::function<void(Talk&)> task) { talker().post(std::move(task)); }

void barrier() {
    if (place().size == 1) return;
    call([](Talk& t) { t.wait(t.transport().start_barrier()); });
}

void all_reduce(void* data, std::size_t count, Element type, Op op) {
    if (place().size == 1) return;
    call([=](Talk& t) { t.wait(t.transport().start_all_reduce(data, count, type, op)); });
}

void broadcast(void* data, std::size_t bytes, int from) {
    if (place().size == 1) return;
    call([=](Talk& t) { t.wait(t.transport().start_broadcast(data, bytes, from)); });
}

std::vector<std::byte> all_gather(const void* data, std::size_t bytes) {
    const Place& p = place();
    std::vector<std::byte> out(bytes * static_cast<std::size_t>(p.size));
    if (p.size == 1) {
        const auto* first = static_cast<const std::byte*>(data);
        out.assign(first, first + bytes);
        return out;
    }
    call([&](Talk& t) { t.wait(t.transport().start_all_gather(data, out.data(), bytes)); });
    return out;
}

std::vector<std::string> all_gather(const std::string& text) {
    const auto size = static_cast<std::int64_t>(text.size());
    const std::vector<std::byte> sizes = all_gather(&size, sizeof size);
    std::vector<std::string> out;
    for (int k = 0; k < place().size; ++k) {
        std::int64_t n = 0;
        std::copy_n(sizes.data() + static_cast<std::size_t>(k) * sizeof n, sizeof n,
                    reinterpret_cast<std::byte*>(&n));
        std::string one = k == place().rank ? text : std::string(static_cast<std::size_t>(n), '\0');
        broadcast(one.data(), one.size(), k);
        out.push_back(std::move(one));
    }
    return out;
}

std::string broadcast(const std::string& text, int from) {
    std::int64_t n = static_cast<std::int64_t>(text.size());
    broadcast(&n, sizeof n, from);
    std::string out = text;
    out.resize(static_cast<std::size_t>(n));
    broadcast(out.data(), out.size(), from);
    return out;
}

void together(const std::function<void()>& f) {
    if (place().size == 1) return f();
    std::string error;
    std::exception_ptr own;
    try {
        f();
    } catch (const std::exception& e) {
        own = std::current_exception();
        error = dynamic_cast<const FileError*>(&e)    ? "F"
                : dynamic_cast<const ValueError*>(&e) ? "V"
                                                      : "-";
        error += e.what();
    }
    const std::vector<std::string> errors = all_gather(error);
    if (own) std::rethrow_exception(own);
    for (std::size_t k = 0; k < errors.size(); ++k) {
        if (errors[k].empty()) continue;
        const std::string what = fmt::format("in process {}: {}", k, errors[k].substr(1));
        if (errors[k][0] == 'F') throw FileError(what);
        if (errors[k][0] == 'V') throw ValueError(what);
        throw Error(what);
    }
}

void expect_exit() { exit_is_expected.store(true); }
void give_up() {
#ifndef __GLIBC__
    gave_up.store(true);
#endif
}

}  // namespace pippin::dist

namespace pippin {

std::string rank_label() {
    const int rank = dist::started_rank();
    return rank < 0 ? "" : fmt::format("[rank {}] ", rank);
}

}  // namespace pippin
