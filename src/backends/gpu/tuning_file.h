// What tuning has found, on disk: a line of text for each launch, of any device and driver.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backends/gpu/choice.h"
#include "backends/gpu/text_key.h"

namespace pippin::gpu {

struct Tuned {
    LaunchChoice choice;
    double standard = 0, chosen = 0;  ///< seconds of the default way and of the chosen one
};

/// A line that is damaged, or of another version, is as if it were not there.
class TuningFile {
  public:
    /// `scope` stands for the device, its driver and the kernels: only what has the same is found.
    /// An empty path: nothing is kept.
    TuningFile(std::filesystem::path path, const TextKey& scope);

    /// What is known for the scope.
    std::map<TextKey, Tuned> load() const;
    /// Adds to what the file holds by now (other programs write to it, too) and replaces it as a
    /// whole. At most kMostLines stay, those of the scope and the newest first of all. A file that
    /// cannot be written is no error: the next program tunes again.
    void add(const std::map<TextKey, Tuned>& found) const;

    static constexpr std::size_t kMostLines = 8192, kMostBytes = std::size_t{4} << 20;

  private:
    struct Line {
        TextKey scope, key;
        Tuned tuned;
    };
    static std::string text_of(const Line& line);
    std::vector<Line> read() const;

    std::filesystem::path path_;
    TextKey scope_;
};

}  // namespace pippin::gpu
