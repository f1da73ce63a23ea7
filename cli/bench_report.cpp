#include "bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pippin/device.h"

namespace pippin::cli {
namespace {

double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v.empty() ? 0 : v[v.size() / 2];
}

double mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// The batch, marked where it is smaller than the published.
std::string batch_text(const BenchRow& r) {
    return fmt::format("{}{}", r.c.batch, r.c.batch < r.usual_batch ? "*" : "");
}

}  // namespace

double BenchRow::rate() const { return median(rates); }
double BenchRow::peer_rate() const { return median(peer_rates); }

std::string table_head(bool compared) {
    std::string out =
        fmt::format("{:17} {:5} {:9} {:>5}  {:>10}  {:>10}  {:>12}  {:>5}", "model", "mode",
                    "precision", "batch", "samples/s", "first step", "peak memory", "runs");
    if (compared) out += fmt::format("  {:>10}  {:>12}  {:>6}", "PyTorch", "its peak", "ratio");
    return out;
}

std::string table_row(const BenchRow& r, bool compared) {
    std::string out = fmt::format(
        "{:17} {:5} {:9} {:>5}  {:>10.1f}  {:>8.2f} s  {:>8.1f} MiB  {:>5}", r.c.model, r.c.mode,
        r.c.precision, batch_text(r), r.rate(), r.first_step_s, mib(r.peak_bytes), r.launches);
    if (compared)
        out += fmt::format("  {:>10.1f}  {:>8.1f} MiB  {:>5.2f}x", r.peer_rate(),
                           mib(r.peer_peak_bytes), r.ratio());
    return out;
}

nlohmann::json row_json(const BenchRow& r, bool compared) {
    nlohmann::json j{{"model", r.c.model},
                     {"device", default_device().str()},
                     {"mode", r.c.mode},
                     {"precision", r.c.precision},
                     {"batch", r.c.batch},
                     {"usual_batch", r.usual_batch},
                     {"multiply_adds", r.multiply_adds},
                     {"samples_per_s", r.rate()},
                     {"first_step_s", r.first_step_s},
                     {"peak_bytes", r.peak_bytes},
                     {"launches", r.launches}};
    if (compared) {
        j["peer_samples_per_s"] = r.peer_rate();
        j["peer_peak_bytes"] = r.peer_peak_bytes;
        j["ratio"] = r.ratio();
    }
    return j;
}

std::string smaller_batches(const std::vector<BenchRow>& rows) {
    std::string out;
    std::vector<std::string> said;
    for (const BenchRow& r : rows) {
        if (r.c.batch >= r.usual_batch) continue;
        const std::string text =
            fmt::format("{} {} instead of {}", r.c.model, r.c.batch, r.usual_batch);
        if (std::find(said.begin(), said.end(), text) != said.end()) continue;
        said.push_back(text);
        out += (out.empty() ? "" : ", ") + text;
    }
    return out.empty() ? out
                       : "* batches smaller than in the published measurements, so that steps stay "
                         "short: " +
                             out;
}

std::string markdown(const std::vector<BenchRow>& rows, const std::string& peer,
                     const std::string& machine, const std::string& command,
                     const std::filesystem::path& chart) {
    const bool compared = !peer.empty();
    std::string out = "# Performance\n\nWritten by `" + command + "`, on " + machine + ".\n\n";
    if (!chart.empty())
        out += fmt::format("![Speed of the networks]({})\n\n", chart.filename().string());
    if (compared)
        out += fmt::format(
            "Samples per second: medians of rounds in which the two programs take turns. PyTorch's "
            "figure is the {}. Peak memory is the whole process's.\n\n| model | mode | batch | "
            "Pippin | PyTorch | ratio | peak MiB | PyTorch's |\n"
            "|---|---|--:|--:|--:|--:|--:|--:|\n",
            peer == "torch-compile"
                ? "best of its contiguous and channels-last layouts, each as it is and compiled"
                : "better of its contiguous and channels-last layouts");
    else
        out +=
            "Samples per second: medians of rounds. Peak memory is the whole process's.\n\n| model "
            "| mode | batch | samples/s | peak MiB |\n|---|---|--:|--:|--:|\n";
    for (const BenchRow& r : rows) {
        out += fmt::format(
            "| {} | {} | {} | {:.1f} |", r.c.model, r.c.mode,
            r.c.batch < r.usual_batch ? fmt::format("{}\\*", r.c.batch) : std::to_string(r.c.batch),
            r.rate());
        if (compared)
            out += fmt::format(" {:.1f} | {:.2f}x | {:.0f} | {:.0f} |\n", r.peer_rate(), r.ratio(),
                               mib(r.peak_bytes), mib(r.peer_peak_bytes));
        else
            out += fmt::format(" {:.0f} |\n", mib(r.peak_bytes));
    }
    const std::string note = smaller_batches(rows);
    if (!note.empty()) out += "\n\\" + note + "\n";
    return out;
}

namespace {

constexpr double kBar = 14, kGap = 8, kLeft = 150, kPlot = 520, kRight = 70, kTop = 54;
constexpr const char *kTraining = "#c2410c", *kEvaluation = "#0f766e";

// Rows of one network come one after the other; a gap follows them.
bool starts_group(const std::vector<BenchRow>& rows, std::size_t i) {
    return i > 0 && rows[i - 1].c.model != rows[i].c.model;
}

}  // namespace

train::Extent bars_extent(const std::vector<BenchRow>& rows) {
    double height = kTop + 28;
    for (std::size_t i = 0; i < rows.size(); ++i)
        height += kBar + (starts_group(rows, i) ? kGap : 0);
    return {kLeft + kPlot + kRight, height};
}

void draw_bars(train::Canvas& canvas, const std::vector<BenchRow>& rows, bool compared,
               const std::string& machine) {
    using Anchor = train::TextStyle::Anchor;
    double largest = compared ? 1 : 10, least = 1;
    for (const BenchRow& r : rows) {
        const double v = compared ? r.ratio() : r.rate();
        if (!std::isfinite(v) || v <= 0) continue;
        largest = std::max(largest, v);
        least = std::min(least, v);
    }
    const double low = std::floor(std::log10(least)), high = std::ceil(std::log10(largest));
    const auto position = [&](double v) {
        if (!std::isfinite(v) || v <= 0) return 0.0;
        return kPlot * (compared ? v / (largest * 1.05) : (std::log10(v) - low) / (high - low));
    };
    canvas.text(10, 18, bars_title(compared), {.size = 14});
    canvas.text(10, 36, machine, {.size = 11});
    // What the colours mean, at the right end of the first line.
    canvas.text(kLeft + kPlot - 60, 18, "training", {.size = 11, .colour = kTraining});
    canvas.text(kLeft + kPlot, 18, "evaluation", {.size = 11, .colour = kEvaluation});
    const double end = bars_extent(rows).height - 24;
    const auto line = [&](double v, const std::string& label) {
        const double x = kLeft + position(v);
        canvas.line({x, kTop - 4}, {x, end}, "#999999");
        canvas.text(x, end + 14, label, {.anchor = Anchor::Middle, .size = 11});
    };
    if (compared)
        line(1, "PyTorch = 1");
    else
        for (double e = low; e <= high; ++e)
            line(std::pow(10, e), fmt::format("{:g}", std::pow(10, e)));
    double y = kTop;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const BenchRow& r = rows[i];
        if (starts_group(rows, i)) y += kGap;
        if (i == 0 || starts_group(rows, i))
            canvas.text(kLeft - 8, y + kBar - 3, r.c.model, {.anchor = Anchor::End, .size = 11});
        const double v = compared ? r.ratio() : r.rate(), width = std::max(1.0, position(v));
        canvas.rect(kLeft, y, width, kBar - 2, r.c.mode == "train" ? kTraining : kEvaluation);
        canvas.text(kLeft + width + 4, y + kBar - 3,
                    compared ? fmt::format("{:.2f}x", v) : fmt::format("{:.1f}", v), {.size = 11});
        y += kBar;
    }
}

std::string bars_title(bool compared) {
    return compared ? "Speed relative to PyTorch" : "Samples per second";
}

}  // namespace pippin::cli
