// One measurement of `pippin bench`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace pippin::cli {

struct BenchCase {
    std::string model, mode = "train", precision = "fp32";
    std::int64_t batch = 64;
    double seconds = 3;
    int threads = 1;
};

nlohmann::json to_json(const BenchCase& c);
BenchCase bench_case(const nlohmann::json& j);

/// Runs steps for about c.seconds in this process: samples_per_s (from the median step),
/// first_step_s, peak_bytes (of the whole process) and launches of a step.
nlohmann::json run_bench_case(const BenchCase& c);

}  // namespace pippin::cli
