// The Trace Event Format (Google, "Trace Event Format", 2016), and PIPPIN_PROFILE.
#include "profile/trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "io/atomic_file.h"
#include "pippin/error.h"

namespace pippin::recording {
namespace {

std::string json_text(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Microseconds with every nanosecond.
std::string microseconds(std::int64_t ns) {
    return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

// What is the same for all events of a work.
std::string constant_part(const Work& w) {
    std::string out = fmt::format("\"ph\":\"X\",\"name\":{},\"cat\":\"{}\"", json_text(w.name),
                                  name_of(w.category));
    if (w.category != Category::Launch) return out;
    out += fmt::format(",\"args\":{{\"kind\":{},\"shapes\":{},\"bytes\":{},\"flops\":{}",
                       json_text(w.kind), json_text(w.shapes), w.bytes, w.flops);
    if (!w.site.empty()) out += ",\"site\":" + json_text(w.site);
    return out;
}

class Writer {
  public:
    explicit Writer(const std::string& path) : file_(path) {}
    void put(const std::string& text) {
        buffer_ += text;
        if (buffer_.size() > (1 << 20)) flush();
    }
    void commit() {
        flush();
        file_.commit();
    }

  private:
    void flush() {
        file_.write(buffer_.data(), buffer_.size());
        buffer_.clear();
    }
    io::AtomicFile file_;
    std::string buffer_;
};

struct OfEnvironment {
    std::string path;
    pid_t process = 0;
    std::unique_ptr<Recording> recording;
};

// Never destroyed. Made while the library loads, so that its atexit handler runs after queues have
// ended their work.
OfEnvironment& of_environment_state() {
    static auto* s = [] {
        auto* made = new OfEnvironment;
        const char* text = std::getenv("PIPPIN_PROFILE");
        if (!text || !*text) return made;
        made->path = expanded(text);
        made->process = getpid();
        const auto folder = std::filesystem::absolute(made->path).parent_path();
        if (access(folder.c_str(), W_OK) != 0)
            fmt::print(stderr, "pippin: warning: PIPPIN_PROFILE={}: cannot write into {}\n", text,
                       folder.string());
        made->recording = std::make_unique<Recording>();
        made->recording->start();
        std::atexit(write_environment_trace);
        return made;
    }();
    return *s;
}

[[maybe_unused]] const bool loaded = of_environment_state().recording != nullptr;

}  // namespace

std::string expanded(std::string path) {
    for (std::size_t at; (at = path.find("%p")) != std::string::npos;)
        path.replace(at, 2, std::to_string(getpid()));
    return path;
}

void write_chrome_trace(Trace t, const std::string& path) {
    // What encloses comes before what it encloses.
    std::stable_sort(t.events.begin(), t.events.end(), [](const Event& a, const Event& b) {
        return std::tuple(a.row, a.begin, -a.end) < std::tuple(b.row, b.begin, -b.end);
    });
    Writer out(path);
    out.put("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"version\":\"pippin " PIPPIN_VERSION
            "\",\"dropped_events\":" +
            std::to_string(t.dropped) + "},\n\"traceEvents\":[\n");
    // Processes in the order of their first rows: the host, then devices.
    std::vector<std::string> processes{"host"};
    std::vector<std::size_t> process_of;
    bool first = true;
    const auto line = [&](const std::string& body) {
        out.put((first ? "{" : ",\n{") + body + "}");
        first = false;
    };
    const auto meta = [&](const char* what, std::size_t pid, std::size_t tid,
                          const std::string& args) {
        line(fmt::format("\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{{}}}", what,
                         pid, tid, args));
    };
    for (std::size_t r = 0; r < t.rows.size(); ++r) {
        auto at = std::find(processes.begin(), processes.end(), t.rows[r].process);
        if (at == processes.end()) at = processes.insert(at, t.rows[r].process);
        process_of.push_back(static_cast<std::size_t>(at - processes.begin()) + 1);
        meta("thread_name", process_of[r], r + 1, "\"name\":" + json_text(t.rows[r].name));
        meta("thread_sort_index", process_of[r], r + 1, fmt::format("\"sort_index\":{}", r));
    }
    for (std::size_t p = 0; p < processes.size(); ++p) {
        meta("process_name", p + 1, 0, "\"name\":" + json_text(processes[p]));
        meta("process_sort_index", p + 1, 0, fmt::format("\"sort_index\":{}", p));
    }
    std::unordered_map<const Work*, std::string> constants;
    for (const Event& e : t.events) {
        std::string& constant = constants[e.work.get()];
        if (constant.empty()) constant = constant_part(*e.work);
        std::string rates;
        if (e.work->category == Category::Launch) {
            // A byte a nanosecond is a GB/s.
            const double ns = static_cast<double>(std::max<std::int64_t>(1, e.end - e.begin));
            rates = fmt::format(",\"GB/s\":{:.2f},\"GFLOP/s\":{:.2f}}}",
                                static_cast<double>(e.work->bytes) / ns,
                                static_cast<double>(e.work->flops) / ns);
        }
        line(fmt::format("{}{},\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}", constant, rates,
                         process_of[e.row], e.row + 1, microseconds(e.begin - t.origin),
                         microseconds(e.end - e.begin)));
    }
    out.put("\n]}\n");
    out.commit();
}

Recording* of_environment() { return of_environment_state().recording.get(); }

void write_environment_trace() {
    OfEnvironment& s = of_environment_state();
    // A child that was forked is not who was asked; a program that ran nothing (a launcher) must
    // not replace what its child wrote.
    if (!s.recording || s.process != getpid() || s.recording->is_empty()) return;
    try {
        s.recording->write_trace(s.path);
    } catch (const std::exception& e) {
        fmt::print(stderr, "pippin: PIPPIN_PROFILE: {}\n", e.what());
    }
}

}  // namespace pippin::recording
