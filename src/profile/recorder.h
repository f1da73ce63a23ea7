// What runs when, for people: ranges of time on rows (threads, device queues), kept by whoever
// asked for a recording. Every layer may record; nothing here knows any of them. When nobody
// records, a range costs one branch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pippin::recording {

enum class Category : std::uint8_t {
    Launch,  ///< a kernel of a plan
    Part,    ///< a piece of a launch, drawn inside of it and counted nowhere
    Host,    ///< what Pippin does on the processor: flushing, waiting, loading
    Module,  ///< a module's forward(), which builds the graph
    User,    ///< record_function
};
const char* name_of(Category c);

/// Something that happens again and again, described once.
struct Work {
    std::string name;  ///< of a launch: what was fused, "conv2d+bias+relu"
    Category category = Category::Host;
    // of a launch:
    std::string kind;    ///< "conv", "matmul", ..., "map", "reduce rows", "reduce columns"
    std::string shapes;  ///< operands -> result, or the iteration space
    std::string site;    ///< "file.cpp:12", where it is known
    std::int64_t bytes = 0, flops = 0;
};
using WorkPtr = std::shared_ptr<const Work>;

/// The one Work of that name.
WorkPtr named(Category c, std::string_view name);

struct Event {
    std::int64_t begin = 0, end = 0;  ///< nanoseconds of the steady clock
    std::uint32_t row = 0;
    WorkPtr work;
};

/// A line of the picture.
struct Row {
    std::string process, name;
};

/// The steady clock, in nanoseconds.
std::int64_t now();

/// What has been recorded between its start and its stop. Any thread.
class Recording {
  public:
    Recording();
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    struct Sum {
        WorkPtr work;
        std::int64_t count = 0, nanoseconds = 0;
    };

    void start();
    void stop();
    bool is_running() const;
    /// From the first start to the last stop, or to now.
    std::int64_t nanoseconds() const;
    std::vector<Sum> sums() const;
    /// Writes a Chrome trace (also Perfetto's) under that name in one step; FileError.
    void write_trace(const std::string& path) const;
    /// Nothing was launched nor marked by the user.
    bool is_empty() const;

    struct State;

  private:
    std::shared_ptr<State> state_;
};

namespace detail {
extern std::atomic<int> recordings;
}
/// Whether anybody records.
inline bool on() { return detail::recordings.load(std::memory_order_relaxed) != 0; }

void add(Event e);
/// Of the calling thread.
std::uint32_t thread_row();
/// How the calling thread's row is called; before its first event.
void name_thread(std::string name);
/// A row beside those of threads.
std::uint32_t device_row(const std::string& process, const std::string& name);

/// From construction to destruction, on the calling thread's row.
class Range {
  public:
    Range() = default;
    explicit Range(const char* name, Category c = Category::Host) {
        if (on()) open(named(c, name));
    }
    explicit Range(const WorkPtr& work) {
        if (on()) open(work);
    }
    ~Range() {
        if (work_) close();
    }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

    void open(WorkPtr work);
    void close();

  private:
    WorkPtr work_;
    std::int64_t begin_ = 0;
};

/// PIPPIN_PROFILE's recording; null where it is not set.
Recording* of_environment();
/// Writes it, if there is one that has something to show. Complaints go to stderr.
void write_environment_trace();

}  // namespace pippin::recording
