// pippin bench: training and evaluation speed of the models, beside PyTorch's if asked.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench_case.h"
#include "commands.h"
#include "pippin/device.h"
#include "pippin/error.h"
#include "pippin/models.h"
#include "system.h"

namespace pippin::cli {
namespace {

using nlohmann::json;

struct Args {
    std::vector<std::string> models{"lenet5", "resnet18"}, modes{"train", "eval"};
    std::string precision = "fp32", json_file, compare, python = "python3", one;
    std::int64_t batch = 0;  // 0: the model's own
    double seconds = 3;
    int rounds = 3;
};

// The batch sizes of the published measurements, smaller where a processor would take minutes.
std::int64_t usual_batch(const std::string& model) { return model == "lenet5" ? 64 : 16; }

double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v.empty() ? 0 : v[v.size() / 2];
}

struct Row {
    BenchCase c;
    std::vector<double> rates, peer_rates;
    double first_step_s = 0;
    std::int64_t peak_bytes = 0, launches = 0, peer_peak_bytes = 0;
};

// The PyTorch side, in the source tree or where it was installed.
std::string peer_script() {
    namespace fs = std::filesystem;
    const fs::path own = own_path();
    for (fs::path p = own.parent_path(); p.has_relative_path(); p = p.parent_path())
        for (const char* place : {"bench/torch_peer.py", "share/pippin/bench/torch_peer.py"})
            if (fs::exists(p / place)) return (p / place).string();
    throw FileError("bench/torch_peer.py was not found beside " + own.string());
}

json parsed(const std::string& text, const std::string& who) {
    // Warnings may come first; the result is the last line.
    const auto end = text.find_last_not_of("\n");
    if (end == std::string::npos) throw Error(who + " printed nothing");
    const auto start = text.rfind('\n', end);
    return json::parse(text.substr(start == std::string::npos ? 0 : start + 1));
}

// Each measurement is a process of its own: its first step is cold and its peak memory its own.
json measure_in_child(const BenchCase& c) {
    const std::vector<std::string> command{own_path(), "bench", "--one", to_json(c).dump()};
    return parsed(output_of(command), "pippin bench");
}

json measure_peer(const Args& a, const BenchCase& c) {
    return parsed(output_of({a.python, peer_script(), to_json(c).dump()}), "bench/torch_peer.py");
}

void print_row(const Row& r, bool compared) {
    const double rate = median(r.rates);
    fmt::print("{:10} {:5} {:9} {:5}  {:>10.1f}  {:>8.2f} s  {:>8.1f} MiB  {:>5}", r.c.model,
               r.c.mode, r.c.precision, r.c.batch, rate, r.first_step_s,
               double(r.peak_bytes) / (1 << 20), r.launches);
    if (compared)
        fmt::print("  {:>10.1f}  {:>8.1f} MiB  {:>5.2f}x", median(r.peer_rates),
                   double(r.peer_peak_bytes) / (1 << 20), rate / median(r.peer_rates));
    fmt::print("\n");
}

json row_json(const Row& r, bool compared) {
    json j{{"model", r.c.model},
           {"device", default_device().str()},
           {"mode", r.c.mode},
           {"precision", r.c.precision},
           {"batch", r.c.batch},
           {"samples_per_s", median(r.rates)},
           {"first_step_s", r.first_step_s},
           {"peak_bytes", r.peak_bytes},
           {"launches", r.launches}};
    if (compared) {
        j["peer_samples_per_s"] = median(r.peer_rates);
        j["peer_peak_bytes"] = r.peer_peak_bytes;
        j["ratio"] = median(r.rates) / median(r.peer_rates);
    }
    return j;
}

int run(const Args& a) {
    if (!a.one.empty()) {
        fmt::print("{}\n", run_bench_case(bench_case(json::parse(a.one))).dump());
        return 0;
    }
    const bool compared = !a.compare.empty();
    std::ofstream lines;
    if (!a.json_file.empty()) {
        lines.open(a.json_file);
        if (!lines) throw FileError(fmt::format("cannot write {}", a.json_file));
    }
    const auto known = models::names();
    for (const auto& model : a.models)
        if (std::find(known.begin(), known.end(), model) == known.end())
            models::create(model, 10);  // raises, naming those that there are
    fmt::print("{} on {}\n", default_device().str(), default_device().description());
    fmt::print("{:10} {:5} {:9} {:>5}  {:>10}  {:>10}  {:>12}  {:>5}", "model", "mode", "precision",
               "batch", "samples/s", "first step", "peak memory", "runs");
    if (compared) fmt::print("  {:>10}  {:>12}  {:>6}", "PyTorch", "its peak", "ratio");
    fmt::print("\n");
    for (const auto& model : a.models)
        for (const auto& mode : a.modes) {
            Row r;
            r.c = {model,     mode,         a.precision, a.batch ? a.batch : usual_batch(model),
                   a.seconds, num_threads()};
            // The two programs take turns, so that a slow spell of the machine meets both.
            for (int round = 0; round < a.rounds; ++round) {
                const json own = measure_in_child(r.c);
                r.rates.push_back(own.at("samples_per_s"));
                if (round == 0) r.first_step_s = own.at("first_step_s");
                r.peak_bytes = std::max(r.peak_bytes, own.at("peak_bytes").get<std::int64_t>());
                r.launches = own.at("launches");
                if (!compared) continue;
                const json peer = measure_peer(a, r.c);
                r.peer_rates.push_back(peer.at("samples_per_s"));
                r.peer_peak_bytes =
                    std::max(r.peer_peak_bytes, peer.at("peak_bytes").get<std::int64_t>());
            }
            print_row(r, compared);
            if (lines.is_open()) lines << row_json(r, compared).dump() << std::endl;
        }
    return 0;
}

std::function<int()> setup(CLI::App& app) {
    auto a = std::make_shared<Args>();
    app.add_option("--models", a->models, "models to run (default: lenet5 resnet18)")
        ->delimiter(',');
    app.add_option("--modes", a->modes, "train, eval")
        ->delimiter(',')
        ->check(CLI::IsMember({"train", "eval"}));
    app.add_option("--precision", a->precision, "fp32 or bf16")
        ->check(CLI::IsMember({"fp32", "bf16"}));
    app.add_option(flag("batch_size"), a->batch, "samples a step (default: 64 for lenet5, else 16)")
        ->check(CLI::PositiveNumber);
    app.add_option("--seconds", a->seconds, "time of one measurement")->check(CLI::PositiveNumber);
    app.add_option("--rounds", a->rounds, "measurements of each; medians are shown")
        ->check(CLI::PositiveNumber);
    app.add_option("--json", a->json_file, "write one JSON object a line to this file");
    app.add_option("--compare", a->compare, "torch: the better of PyTorch's layouts, alternating")
        ->check(CLI::IsMember({"torch"}));
    app.add_option("--python", a->python, "the Python that has PyTorch");
    app.add_option("--one", a->one, "")->group("");
    app.footer(
        "Examples:\n  pippin bench\n  pippin bench --models resnet50 --batch_size 8 --modes train\n"
        "  pippin bench --compare torch --python ~/torch/bin/python3 --json bench.jsonl");
    return [a] { return run(*a); };
}

const Register command{{"bench", "measure the models' speed, memory and first step", setup}};

}  // namespace
}  // namespace pippin::cli
