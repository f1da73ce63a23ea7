// pippin bench: training and evaluation speed of the models, beside PyTorch's if asked.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench_case.h"
#include "bench_profile.h"
#include "bench_report.h"
#include "chart_file.h"
#include "commands.h"
#include "model_cost.h"
#include "pippin/device.h"
#include "pippin/error.h"
#include "pippin/models.h"
#include "system.h"

namespace pippin::cli {
namespace {

using nlohmann::json;

struct Args {
    std::vector<std::string> models, modes{"train", "eval"};  // NAME or NAME:BATCH; none: all
    std::string precision = "fp32", json_file, markdown_file, plot_file, compare,
                python = "python3", one;
    std::int64_t batch = 0;  // 0: the model's own
    double seconds = 3, budget = 0.5;
    int rounds = 3, top = 10;
    bool profile = false;
};

// The batch size of the published measurements, halved until a training step is within the budget.
std::int64_t batch_within(double budget, const models::Info& info, std::int64_t multiply_adds) {
    // Backward costs twice as much as forward; a multiply-add is two operations.
    const double sample = 3 * 2 * static_cast<double>(multiply_adds);
    std::int64_t batch = info.batch;
    while (batch > 1 && sample * static_cast<double>(batch) > budget * 1e12)
        batch /= 2;
    return batch;
}

// A network to measure.
struct Asked {
    models::Info info;
    std::int64_t batch = 0;  // 0: the model's own, within the budget
};

// The batch size behind a colon; 0 where it is none.
std::int64_t batch_of(const std::string& text, std::size_t colon) {
    const char *first = text.data() + colon + 1, *last = text.data() + text.size();
    std::int64_t batch = 0;
    const auto [end, error] = std::from_chars(first, last, batch);
    return error != std::errc() || end != last ? 0 : std::max<std::int64_t>(batch, 0);
}

// What is wrong with NAME or NAME:BATCH.
std::string check_asked(const std::string& text) {
    const std::size_t colon = text.find(':');
    std::string name = text.substr(0, colon);
    std::string wrong = model_name()(name);
    if (wrong.empty() && colon != text.npos && batch_of(text, colon) < 1)
        wrong = fmt::format(
            "the batch size in '{}' must be a whole number from 1 on (for example {}:16)", text,
            name);
    return wrong;
}

std::vector<Asked> asked_models(const Args& a) {
    std::vector<Asked> out;
    for (const std::string& text : a.models) {
        const std::size_t colon = text.find(':');
        out.push_back({models::info(text.substr(0, colon)),
                       colon == text.npos ? a.batch : batch_of(text, colon)});
    }
    if (a.models.empty())
        for (const models::Info& info : models::list())
            out.push_back({info, a.batch});
    return out;
}

// The PyTorch side, in the source tree or where it was installed.
std::string peer_script() {
    namespace fs = std::filesystem;
    const fs::path own = own_path();
    for (fs::path p = own.parent_path(); p.has_relative_path(); p = p.parent_path())
        for (const char* place : {"bench/torch_peer.py", "share/pippin/bench/torch_peer.py"})
            if (fs::exists(p / place)) return (p / place).string();
    throw FileError("bench/torch_peer.py was not found beside " + own.string());
}

json measure_peer(const Args& a, const BenchCase& c) {
    json what = to_json(c);
    what["compile"] = a.compare == "torch-compile";
    return result_of({a.python, peer_script(), what.dump()});
}

void write_file(const std::string& path, const std::string& text) {
    std::ofstream out(path);
    out << text;
    if (!out.flush()) throw FileError("cannot write " + path);
}

// What people wrote below the table, from this line on, stays when the table is made again.
std::string kept_part(const std::string& path) {
    constexpr std::string_view mark = "<!-- pippin bench keeps what follows -->";
    std::ifstream in(path);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::size_t at = text.find(mark);
    return at == text.npos ? "" : "\n" + text.substr(at);
}

// What a reader types to have the same measurements, without this machine's paths.
std::string command_line(const Args& a) {
    std::string out = "pippin bench";
    if (!a.compare.empty()) out += " --compare " + a.compare;
    std::string names;
    for (const auto& model : a.models)
        names += (names.empty() ? "" : ",") + model;
    if (!names.empty()) out += " --models " + names;
    if (a.batch) out += fmt::format(" --batch_size {}", a.batch);
    out += fmt::format(" --precision {} --budget {:g} --seconds {:g} --rounds {}", a.precision,
                       a.budget, a.seconds, a.rounds);
    if (!a.markdown_file.empty())
        out += " --markdown " + std::filesystem::path(a.markdown_file).filename().string();
    if (!a.plot_file.empty())
        out += " --plot " + std::filesystem::path(a.plot_file).filename().string();
    return out;
}

int run(const Args& a) {
    if (!a.one.empty()) {
        const json what = json::parse(a.one);
        const json result =
            what.contains("profile") ? run_profile_case(what) : run_bench_case(bench_case(what));
        fmt::print("{}\n", result.dump());
        return 0;
    }
    const bool compared = !a.compare.empty();
    std::ofstream lines;
    if (!a.json_file.empty()) {
        lines.open(a.json_file);
        if (!lines) throw FileError(fmt::format("cannot write {}", a.json_file));
    }
    const std::vector<Asked> asked = asked_models(a);
    if (a.profile) {
        std::vector<BenchCase> cases;
        for (const auto& [info, own_batch] : asked) {
            const std::int64_t batch =
                own_batch ? own_batch : batch_within(a.budget, info, forward_multiply_adds(info));
            for (const auto& mode : a.modes)
                cases.push_back({info.name, mode, a.precision, batch, a.seconds, num_threads()});
        }
        return profile_models(cases, a.top, lines.is_open() ? &lines : nullptr);
    }
    const std::string machine = default_device().description();
    fmt::print("{} on {}\n{}\n", default_device().str(), machine, table_head(compared));
    std::vector<BenchRow> rows;
    for (const auto& [info, own_batch] : asked) {
        const std::int64_t cost = forward_multiply_adds(info);
        const std::int64_t batch = own_batch ? own_batch : batch_within(a.budget, info, cost);
        for (const auto& mode : a.modes) {
            BenchRow r;
            r.usual_batch = own_batch ? own_batch : info.batch;
            r.multiply_adds = cost;
            r.c = {info.name, mode, a.precision, batch, a.seconds, num_threads()};
            // The two programs take turns, so that a slow spell of the machine meets both.
            for (int round = 0; round < a.rounds; ++round) {
                const json own = bench_in_child(to_json(r.c));
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
            fmt::print("{}\n", table_row(r, compared));
            std::fflush(stdout);
            if (lines.is_open()) lines << row_json(r, compared).dump() << std::endl;
            rows.push_back(std::move(r));
        }
        // Written as rows come in: a run over all networks is long.
        if (!a.markdown_file.empty())
            write_file(a.markdown_file,
                       markdown(rows, a.compare, machine, command_line(a), a.plot_file) +
                           kept_part(a.markdown_file));
        if (!a.plot_file.empty())
            write_chart(a.plot_file, bars_extent(rows), bars_title(compared),
                        [&](train::Canvas& canvas) { draw_bars(canvas, rows, compared, machine); });
    }
    const std::string note = smaller_batches(rows);
    if (!note.empty()) fmt::print("{}\n", note);
    return 0;
}

std::function<int()> setup(CLI::App& app) {
    auto a = std::make_shared<Args>();
    app.add_option(
           "--models", a->models,
           "models to run, each NAME or NAME:BATCH for a batch size of its own (default: all; see "
           "pippin models)")
        ->type_name("MODEL")
        ->delimiter(',')
        ->check(checked(check_asked));
    app.add_option("--modes", a->modes, "train, eval")
        ->delimiter(',')
        ->check(one_of({"train", "eval"}));
    app.add_option("--precision", a->precision, "fp32 or bf16")->check(one_of({"fp32", "bf16"}));
    app.add_option(flag("batch_size"), a->batch,
                   "samples a step (default: 128 for resnet50, else 64; less by --budget)")
        ->check(CLI::PositiveNumber);
    app.add_option("--budget", a->budget,
                   "most work of a training step, in 1e12 operations: the default batch sizes are "
                   "halved until it is kept")
        ->check(CLI::PositiveNumber);
    app.add_option("--seconds", a->seconds, "time of one measurement")->check(CLI::PositiveNumber);
    app.add_option("--rounds", a->rounds, "measurements of each; medians are shown")
        ->check(CLI::PositiveNumber);
    app.add_option("--json", a->json_file, "write one JSON object a line to this file")
        ->type_name("FILE");
    app.add_option("--markdown", a->markdown_file,
                   "write the table to this Markdown file (what follows the line "
                   "'<!-- pippin bench keeps what follows -->' in it stays)")
        ->type_name("FILE");
    app.add_option("--plot", a->plot_file, "draw a bar chart into this .svg or .png file")
        ->type_name("FILE")
        ->check(checked(chart_name_fault));
    app.add_option(
           "--compare", a->compare,
           "torch: the better of PyTorch's layouts, alternating; torch-compile: and of what "
           "torch.compile makes of them, after a minute or more")
        ->check(one_of({"torch", "torch-compile"}));
    app.add_option("--python", a->python, "the Python that has PyTorch")->type_name("PROGRAM");
    auto* profile = app.add_flag("--profile", a->profile,
                                 "where a step goes, against what the machine can do at most");
    app.add_option("--top", a->top, "with --profile: how many launches to show")
        ->needs(profile)
        ->check(CLI::NonNegativeNumber);
    for (const char* other : {"--compare", "--markdown", "--plot", "--rounds"})
        profile->excludes(app.get_option(other));
    app.add_option("--one", a->one, "")->group("");
    app.footer(
        "Examples:\n  pippin bench\n  pippin bench --models resnet50 --batch_size 8 --modes train\n"
        "  pippin bench --models lenet5:64,resnet50:16,bert_base:8\n"
        "  pippin bench --profile --models resnet50 --modes train\n"
        "  pippin bench --compare torch --python ~/torch/bin/python3 --json bench.jsonl\n"
        "  pippin bench --compare torch --markdown docs/performance.md --plot "
        "docs/performance.svg");
    return [a] { return run(*a); };
}

const Register command{{"bench", "measure the models' speed, memory and first step", setup}};

}  // namespace
}  // namespace pippin::cli
