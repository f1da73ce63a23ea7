// pippin plot: the curves of one or several runs, as SVG and PNG.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "chart_file.h"
#include "commands.h"
#include "pippin/error.h"
#include "run_files.h"
#include "spelling.h"

namespace pippin::cli {
namespace {

namespace fs = std::filesystem;

struct Args {
    std::vector<std::string> runs, out, metrics;
    std::string title;
};

// "train_loss" is the loss, of training: panels hold one kind of number.
struct Metric {
    std::string base, part;
};
Metric split(const std::string& name) {
    for (const char* part : {"train", "training", "test", "eval", "valid", "validation", "val"})
        for (const char* mark : {"_", "/", "-", "."})
            if (const std::string head = std::string(part) + mark;
                name.rfind(head, 0) == 0 && name.size() > head.size())
                return {name.substr(head.size()), part};
    return {name, ""};
}

bool is_of_training(const std::string& part) { return part.empty() || part.rfind("train", 0) == 0; }

// What tells the runs apart: their paths without the folders that all share.
std::vector<std::string> run_names(const std::vector<std::string>& runs) {
    std::vector<std::vector<std::string>> parts;
    for (const std::string& run : runs) {
        parts.emplace_back();
        fs::path path = fs::path(run).lexically_normal();
        if (!path.has_filename()) path = path.parent_path();
        for (const fs::path& p : path)
            parts.back().push_back(p.string());
    }
    std::size_t shared = 0;
    const auto same = [&](std::size_t i) {
        return std::all_of(parts.begin(), parts.end(), [&](const auto& p) {
            return i + 1 < p.size() && p[i] == parts.front()[i];
        });
    };
    while (same(shared))
        ++shared;
    std::vector<std::string> names;
    for (const auto& p : parts)
        names.push_back(fmt::format(
            "{}", fmt::join(p.begin() + static_cast<std::ptrdiff_t>(shared), p.end(), "/")));
    return names;
}

std::vector<train::Panel> make_panels(const Args& args, const std::vector<RunMetrics>& runs) {
    const std::vector<std::string> names = run_names(args.runs);
    std::vector<train::Panel> panels;
    std::vector<std::string> known, found;
    for (std::size_t r = 0; r < runs.size(); ++r)
        for (const std::string& name : runs[r].order) {
            const Metric m = split(name);
            known.push_back(name);
            known.push_back(m.base);
            if (!args.metrics.empty()) {
                const auto asked = [&](const std::string& n) {
                    return std::find(args.metrics.begin(), args.metrics.end(), n) !=
                           args.metrics.end();
                };
                if (!asked(name) && !asked(m.base)) continue;
                found.push_back(asked(name) ? name : m.base);
            } else if (name == "epoch" || name == "step") {
                continue;  // the other way to count, no result
            }
            auto panel = std::find_if(panels.begin(), panels.end(), [&](const train::Panel& p) {
                return p.title == m.base && p.x_label == runs[r].x_name;
            });
            if (panel == panels.end())
                panel =
                    panels.insert(panels.end(), train::Panel{m.base, runs[r].x_name, m.base, {}});
            train::Series s;
            s.points = runs[r].values.at(name);
            s.marks = s.points.size() <= 20;
            s.name = runs.size() == 1 ? m.part : names[r] + (m.part.empty() ? "" : " " + m.part);
            if (runs.size() > 1) {
                // A colour is a run; what is measured on other data is dashed.
                s.colour = static_cast<int>(r);
                s.dashed = !is_of_training(m.part);
            }
            panel->series.push_back(std::move(s));
        }
    for (const std::string& name : args.metrics)
        if (std::find(found.begin(), found.end(), name) == found.end()) {
            std::sort(known.begin(), known.end());
            known.erase(std::unique(known.begin(), known.end()), known.end());
            throw UsageError(fmt::format("no run has a metric \"{}\"{}; there are: {}", name,
                                         suggestion(name, known), fmt::join(known, ", ")));
        }
    return panels;
}

int run(const Args& a) {
    std::vector<std::string> out = a.out;
    if (out.empty()) {
        out.emplace_back("plot.svg");
        if (can_write_png()) out.emplace_back("plot.png");
    }
    std::vector<RunMetrics> runs;
    for (const std::string& path : a.runs)
        runs.push_back(read_run(path));
    const std::vector<train::Panel> panels = make_panels(a, runs);
    const std::string title = !a.title.empty()   ? a.title
                              : runs.size() == 1 ? run_names(a.runs).front()
                                                 : fmt::format("{} runs", runs.size());
    for (const std::string& file : out)
        write_chart(file, train::curves_extent(panels.size()), title,
                    [&](train::Canvas& canvas) { train::draw_curves(canvas, title, panels); });
    fmt::print("wrote {}\n", fmt::join(out, ", "));
    return 0;
}

std::function<int()> setup(CLI::App& app) {
    auto a = std::make_shared<Args>();
    app.add_option("runs", a->runs,
                   "folders of runs, or their metrics.csv, metrics.jsonl or event files")
        ->type_name("RUN")
        ->required();
    app.add_option("--out,-o", a->out,
                   "what to write, .svg or .png; several with commas (default: plot.svg and, "
                   "where cairo is, plot.png)")
        ->type_name("FILE")
        ->delimiter(',')
        ->check(checked(chart_name_fault))
        ->allow_extra_args(false);
    app.add_option("--metric,-m", a->metrics,
                   "what to draw, as loss or train_loss; several are possible (default: all)")
        ->type_name("NAME")
        ->delimiter(',')
        ->allow_extra_args(false);
    app.add_option("--title", a->title, "the line above the chart")->type_name("TEXT");
    app.footer(
        "Examples:\n  pippin plot runs/demo\n  pippin plot runs/a runs/b --metric loss --out "
        "loss.png\n  pippin plot logs/complete_cv_example -m accuracy -o accuracy.svg");
    return [a] { return run(*a); };
}

const Register command{{"plot", "draw the curves of runs", setup}};

}  // namespace
}  // namespace pippin::cli
