#include "profile/recorder.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "profile/sites.h"
#include "profile/trace.h"

namespace pippin::recording {

namespace detail {
std::atomic<int> recordings{0};
}

namespace {

// Beyond it totals go on and the picture does not: viewers take files of some hundred MB.
constexpr std::size_t kMaxEvents = 1'000'000;

// Never destroyed: threads may record until the very end of the program.
struct Global {
    std::mutex mutex;
    std::vector<std::shared_ptr<Recording::State>> running;
    std::vector<Row> rows;
    std::map<std::pair<std::string, std::string>, std::uint32_t> device_rows;
    std::map<std::pair<Category, std::string>, WorkPtr, std::less<>> works;
    const std::thread::id main = std::this_thread::get_id();  // made while the library loads
    int threads = 0;
};
Global& global() {
    static auto* g = new Global;
    return *g;
}

[[maybe_unused]] const bool loaded = (global(), true);

thread_local std::string thread_name;
thread_local std::uint32_t own_row = 0;  // 0: none yet

std::uint32_t new_row(Global& g, Row row) {
    g.rows.push_back(std::move(row));
    return static_cast<std::uint32_t>(g.rows.size());
}

}  // namespace

struct Recording::State {
    mutable std::mutex mutex;
    std::vector<Event> events;
    std::int64_t dropped = 0;
    std::unordered_map<const Work*, Sum> sums;
    std::int64_t first_start = 0, last_stop = 0;
    bool running = false;

    void add(const Event& e) {
        std::lock_guard lock(mutex);
        // Begun before this recording: its inside is missing here.
        if (!running || e.begin < first_start) return;
        Sum& s = sums[e.work.get()];
        if (!s.work) s.work = e.work;
        ++s.count;
        s.nanoseconds += e.end - e.begin;
        if (events.size() < kMaxEvents)
            events.push_back(e);
        else
            ++dropped;
    }
};

const char* name_of(Category c) {
    switch (c) {
        case Category::Launch:
            return "launch";
        case Category::Part:
            return "dispatch";
        case Category::Host:
            return "host";
        case Category::Module:
            return "module";
        case Category::User:
            return "user";
    }
    return "";
}

std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

WorkPtr named(Category c, std::string_view name) {
    Global& g = global();
    std::lock_guard lock(g.mutex);
    WorkPtr& w = g.works[{c, std::string(name)}];
    if (!w) {
        auto made = std::make_shared<Work>();
        made->name = name;
        made->category = c;
        w = std::move(made);
    }
    return w;
}

Recording::Recording() : state_(std::make_shared<State>()) {}
Recording::~Recording() { stop(); }

void Recording::start() {
    Global& g = global();
    std::lock_guard lock(g.mutex);
    std::lock_guard own(state_->mutex);
    if (state_->running) return;
    state_->running = true;
    if (state_->first_start == 0) state_->first_start = now();
    if (g.running.empty()) clear_sites();  // of addresses that have new nodes since
    g.running.push_back(state_);
    ++detail::recordings;
}

void Recording::stop() {
    Global& g = global();
    std::lock_guard lock(g.mutex);
    std::lock_guard own(state_->mutex);
    if (!state_->running) return;
    state_->running = false;
    state_->last_stop = now();
    std::erase(g.running, state_);
    --detail::recordings;
}

bool Recording::is_running() const {
    std::lock_guard own(state_->mutex);
    return state_->running;
}

std::int64_t Recording::nanoseconds() const {
    std::lock_guard own(state_->mutex);
    if (state_->first_start == 0) return 0;
    return (state_->running ? now() : state_->last_stop) - state_->first_start;
}

std::vector<Recording::Sum> Recording::sums() const {
    std::lock_guard own(state_->mutex);
    std::vector<Sum> out;
    for (const auto& [work, sum] : state_->sums)
        out.push_back(sum);
    return out;
}

bool Recording::is_empty() const {
    std::lock_guard own(state_->mutex);
    return std::none_of(state_->sums.begin(), state_->sums.end(), [](const auto& s) {
        const Category c = s.second.work->category;
        return c == Category::Launch || c == Category::User;
    });
}

void Recording::write_trace(const std::string& path) const {
    Trace t;
    {
        Global& g = global();
        std::lock_guard lock(g.mutex);
        t.rows = g.rows;
    }
    {
        std::lock_guard own(state_->mutex);
        t.events = state_->events;
        t.dropped = state_->dropped;
        t.origin = state_->first_start;
    }
    write_chrome_trace(std::move(t), path);
}

void add(Event e) {
    Global& g = global();
    std::lock_guard lock(g.mutex);
    for (const auto& r : g.running)
        r->add(e);
}

std::uint32_t thread_row() {
    if (own_row == 0) {
        Global& g = global();
        std::lock_guard lock(g.mutex);
        if (thread_name.empty())
            thread_name = std::this_thread::get_id() == g.main
                              ? "main"
                              : "thread " + std::to_string(++g.threads);
        own_row = new_row(g, {"host", thread_name});
    }
    return own_row - 1;
}

void name_thread(std::string name) { thread_name = std::move(name); }

std::uint32_t device_row(const std::string& process, const std::string& name) {
    Global& g = global();
    std::lock_guard lock(g.mutex);
    std::uint32_t& row = g.device_rows[{process, name}];
    if (row == 0) row = new_row(g, {process, name});
    return row - 1;
}

void Range::open(WorkPtr work) {
    work_ = std::move(work);
    begin_ = now();
}

void Range::close() {
    const std::int64_t end = now();
    add({begin_, end, thread_row(), std::move(work_)});
    work_ = nullptr;
}

}  // namespace pippin::recording
