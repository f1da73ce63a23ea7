// One measurement of `pippin bench`.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace pippin::cli {

struct BenchCase {
    std::string model, mode = "train", precision = "fp32";
    std::int64_t batch = 64;
    double seconds = 3;
    int threads = 1;
};

nlohmann::json to_json(const BenchCase& c);
BenchCase bench_case(const nlohmann::json& j);

/// One step of it, which waits for its end. Makes the model; sets threads and the seed.
std::function<void()> bench_step(const BenchCase& c);
/// Runs a program and reads the object that it prints last. What a measurement leaves behind
/// (memory, caches) ends with its process.
nlohmann::json result_of(const std::vector<std::string>& command);
/// Of `pippin bench --one <what>`.
nlohmann::json bench_in_child(const nlohmann::json& what);

/// Runs steps for about c.seconds in this process: samples_per_s (from the median step),
/// first_step_s, peak_bytes (of the whole process) and launches of a step.
nlohmann::json run_bench_case(const BenchCase& c);

}  // namespace pippin::cli
