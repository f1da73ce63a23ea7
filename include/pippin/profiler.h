// Where the time goes: every launch with its bytes and FLOPs, and what the processor does beside.
//
//   auto p = profile({.trace = "trace.json"});   // or accelerator.profile({...})
//   for (int i = 0; i < 20; ++i) {
//       const auto range = record_function("step");
//       ...
//   }
//   p.stop();
//   std::cout << p.key_averages().str();
//
// The vocabulary is torch.profiler's. The trace opens in Perfetto (ui.perfetto.dev) and in
// chrome://tracing. PIPPIN_PROFILE=trace.json records a whole program without a line of code; "%p"
// in the name becomes the process's number. While nobody records, a launch costs one branch more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pippin {

struct ProfileOptions {
    /// Where stop() writes a Chrome trace; empty: nowhere. "%p" becomes the process's number.
    std::filesystem::path trace{};
};

/// All events of one name.
struct ProfileRow {
    std::string name;    ///< of a launch: the ops that were fused, "conv2d+bias+relu"
    std::string kind;    ///< "conv", "matmul", "attention", "pool", a heavy op's own name; of fused
                         ///< programs "map", "reduce rows", "reduce columns"; "host", "module" (its
                         ///< forward() builds the graph), "user" (record_function)
    std::string shapes;  ///< of a launch, where key_averages() groups by them
    bool launch = false;  ///< a kernel; else a range of time on the processor
    std::int64_t count = 0;
    double total_ms = 0;
    double share = 0;                   ///< of the time of all launches; 0 for what is none
    std::int64_t bytes = 0, flops = 0;  ///< of all of them together

    double mean_ms() const { return count ? total_ms / static_cast<double>(count) : 0; }
    double gb_per_s() const {
        return total_ms > 0 ? static_cast<double>(bytes) / total_ms * 1e-6 : 0;
    }
    double gflop_per_s() const {
        return total_ms > 0 ? static_cast<double>(flops) / total_ms * 1e-6 : 0;
    }
};

/// Launches by time, then ranges by time (which may lie in one another).
struct ProfileTable {
    std::vector<ProfileRow> rows;
    double wall_ms = 0;    ///< from start to stop
    double launch_ms = 0;  ///< in launches

    /// Lines for people; at most `row_limit` launches and as many ranges.
    std::string str(std::size_t row_limit = 100) const;
};

/// Records from construction to stop(). Several may record at the same time.
class Profile {
  public:
    /// Waits for work that was submitted before, so that it is not counted. FileError where the
    /// trace's folder is not there.
    explicit Profile(ProfileOptions options = {});
    /// stop(), with errors told on stderr.
    ~Profile();
    Profile(Profile&&) noexcept;
    Profile& operator=(Profile&&) noexcept;

    /// Waits for submitted work (but submits nothing that is pending), ends the recording and
    /// writes the trace. Does nothing the second time. FileError when the trace cannot be written.
    void stop();
    /// Sums by name, or by name and shapes. While it records: of what has ended so far.
    ProfileTable key_averages(bool group_by_input_shape = false) const;
    /// Writes what has been recorded so far; the file appears whole or not at all. FileError.
    void export_chrome_trace(const std::filesystem::path& path) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

[[nodiscard]] inline Profile profile(ProfileOptions options = {}) {
    return Profile(std::move(options));
}

/// A range of your own on the calling thread's row, as long as it lives. Inside of a step it covers
/// building the graph; the launches of it come later, on the device's row.
class RecordFunction {
  public:
    explicit RecordFunction(std::string_view name);
    ~RecordFunction();
    RecordFunction(const RecordFunction&) = delete;
    RecordFunction& operator=(const RecordFunction&) = delete;

  private:
    std::shared_ptr<const void> work_;
    std::int64_t begin_ = 0;
};
[[nodiscard]] inline RecordFunction record_function(std::string_view name) {
    return RecordFunction(name);
}

/// Writes PIPPIN_PROFILE's trace as it is now; it is written again when the program ends. False
/// where PIPPIN_PROFILE is not set or nothing ran yet. Waits for submitted work.
bool flush_profile();

}  // namespace pippin
