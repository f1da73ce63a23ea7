// Where a run's numbers go: TensorBoard event files, CSV, JSON lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace pippin::train {

class Tracker {
  public:
    virtual ~Tracker() = default;
    /// The run's settings, once, as text.
    virtual void config(const std::map<std::string, std::string>& values) = 0;
    /// Scalars of one step; on disk when this returns.
    virtual void log(const std::map<std::string, double>& values, std::int64_t step) = 0;
};

/// "tensorboard": an event file (events.out.tfevents.<time>.<host>) that TensorBoard reads;
/// "csv": metrics.csv with a column a name, rewritten when a new name comes;
/// "jsonl": metrics.jsonl, an object a step. ValueError for another kind; FileError when `folder`
/// cannot be written.
std::unique_ptr<Tracker> make_tracker(std::string_view kind, const std::filesystem::path& folder);

}  // namespace pippin::train
