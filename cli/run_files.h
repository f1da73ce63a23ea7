// The numbers that a run has left: metrics.csv, metrics.jsonl or TensorBoard's event files.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pippin::cli {

struct RunMetrics {
    std::string x_name;  ///< "epoch" or "step"
    /// For each metric its values over x, in the file's order; NaN where a value is no number.
    std::map<std::string, std::vector<std::pair<double, double>>> values;
    std::vector<std::string> order;  ///< metrics as they came
    std::filesystem::path file;      ///< what was read

    void add(const std::string& metric, double x, double y);
};

/// The metrics of a run's folder (the file of the three kinds that there is, in the order above;
/// looked for in the folder itself and one below), or of such a file. FileError that says what was
/// looked for where there is none, or what is wrong in it. A last line or record that is cut, as in
/// a run that goes on or was killed, is left out.
RunMetrics read_run(const std::filesystem::path& path);

}  // namespace pippin::cli
