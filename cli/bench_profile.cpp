#include "bench_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <thread>

#include "pippin/pippin.h"
#include "pippin/profiler.h"

namespace pippin::cli {
namespace {

using nlohmann::json;

double milliseconds() {
    using Milliseconds = std::chrono::duration<double, std::milli>;
    return Milliseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// --- what the machine can do ---

// Enough that one of them meets a quiet moment of the machine.
constexpr int kTries = 7;
constexpr double kTryFor = 300;

// GB/s of the fastest of some copies by all threads, bytes read and written counted: large enough
// that no cache holds them.
double memcpy_rate(int threads) {
    constexpr std::size_t bytes = std::size_t{64} << 20;
    std::vector<char> from(bytes, 1), to(bytes, 2);
    double best = 0;
    const double first = milliseconds();
    for (int i = 0; i < kTries || milliseconds() - first < kTryFor; ++i) {
        const double start = milliseconds();
        std::vector<std::thread> all;
        const auto n = static_cast<std::size_t>(threads);
        for (std::size_t t = 0; t < n; ++t)
            all.emplace_back([&, t] {
                const std::size_t begin = bytes / n * t,
                                  end = t + 1 == n ? bytes : begin + bytes / n;
                std::memcpy(to.data() + begin, from.data() + begin, end - begin);
            });
        for (auto& t : all)
            t.join();
        best = std::max(best, 2e-6 * static_cast<double>(bytes) / (milliseconds() - start));
    }
    return best;
}

// The fastest launch of `kind` in some runs of what `make` computes.
std::optional<ProfileRow> fastest(const std::string& kind, const std::function<Tensor()>& make) {
    std::optional<ProfileRow> best;
    const double first = milliseconds();
    for (int i = 0; i < kTries || milliseconds() - first < kTryFor; ++i) {
        Profile p;
        const Tensor t = make();
        flush();
        p.stop();
        for (const ProfileRow& r : p.key_averages().rows)
            if (r.launch && r.kind == kind && (!best || r.mean_ms() < best->mean_ms())) best = r;
    }
    return best;
}

json measure_limits(const json& what) {
    set_num_threads(what.at("threads"));
    const NoGrad no_grad;
    double copy = 0, matrix = 0;
    if (default_device().type() == Device::Type::CPU) copy = memcpy_rate(what.at("threads"));
    {
        const Tensor x = ones({16 << 20});
        flush();
        if (const auto r = fastest("map", [&] { return x + 1; }))
            copy = std::max(copy, r->gb_per_s());
    }
    std::optional<Autocast> autocast;
    if (what.at("precision") == "bf16") autocast.emplace(bfloat16);
    // As large as it takes until a product is long beside what surrounds it.
    for (std::int64_t n = 512; n <= 8192; n *= 2) {
        const Tensor a = randn({n, n}), b = randn({n, n});
        flush();
        const auto r = fastest("matmul", [&] { return matmul(a, b); });
        if (!r) break;
        matrix = std::max(matrix, r->gflop_per_s());
        if (r->mean_ms() > 20) break;
    }
    return {{"copy_gb_per_s", copy}, {"matrix_gflop_per_s", matrix}};
}

// --- steps ---

json profile_steps(const json& what) {
    const BenchCase c = bench_case(what);
    const std::function<void()> step = bench_step(c);
    for (int i = 0; i < 3; ++i)
        step();
    Profile p;
    int steps = 0;
    const double start = milliseconds();
    do {
        step();
        ++steps;
    } while (steps < 3 || milliseconds() - start < 1e3 * c.seconds);
    const double took = milliseconds() - start;
    p.stop();
    json rows = json::array();
    for (const ProfileRow& r : p.key_averages(true).rows)
        if (r.launch)
            rows.push_back({{"name", r.name},
                            {"kind", r.kind},
                            {"shapes", r.shapes},
                            {"launches", double(r.count) / steps},
                            {"ms", r.total_ms / steps},
                            {"bytes", double(r.bytes) / steps},
                            {"flops", double(r.flops) / steps}});
    return {{"steps", steps}, {"step_ms", took / steps}, {"launches", std::move(rows)}};
}

// --- the tables ---

struct Limits {
    double gb_per_s = 0, gflop_per_s = 0;
};

// One launch, or several together; all of a step.
struct Part {
    std::string name, kind, shapes;
    double launches = 0, ms = 0, bytes = 0, flops = 0;
    double limit_ms = 0;  ///< what the machine would need at its best; never above ms

    double gb_per_s() const { return ms > 0 ? bytes / ms * 1e-6 : 0; }
    double gflop_per_s() const { return ms > 0 ? flops / ms * 1e-6 : 0; }
    double of_limit() const { return ms > 0 ? limit_ms / ms : 0; }
    double lost_ms() const { return ms - limit_ms; }
    void add(const Part& p) {
        launches += p.launches, ms += p.ms, bytes += p.bytes, flops += p.flops;
        limit_ms += p.limit_ms;
    }
    json to_json() const {
        json j{{"kind", kind},
               {"launches", launches},
               {"ms", ms},
               {"limit_ms", limit_ms},
               {"of_limit", of_limit()},
               {"lost_ms", lost_ms()},
               {"gflop_per_s", gflop_per_s()},
               {"gb_per_s", gb_per_s()}};
        if (!name.empty()) j["name"] = name;
        if (!shapes.empty()) j["shapes"] = shapes;
        return j;
    }
};

// The roofline: the longer of moving its bytes and, for products of matrices, of computing. A fused
// program's arithmetic is hidden behind its bytes. What lies in a cache beats memory: no more than
// its own time counts then.
double limit_ms(const Part& p, const Limits& l) {
    double ms = p.bytes / l.gb_per_s * 1e-6;
    if (p.kind == "conv" || p.kind == "matmul" || p.kind == "attention")
        ms = std::max(ms, p.flops / l.gflop_per_s * 1e-6);
    return std::min(ms, p.ms);
}

std::vector<Part> parts_of(const json& launches, const Limits& l) {
    std::vector<Part> parts;
    for (const json& j : launches) {
        Part p{j.at("name"), j.at("kind"),  j.at("shapes"), j.at("launches"),
               j.at("ms"),   j.at("bytes"), j.at("flops"),  0};
        p.limit_ms = limit_ms(p, l);
        parts.push_back(std::move(p));
    }
    return parts;
}

std::vector<Part> by_kind(const std::vector<Part>& parts) {
    std::map<std::string, Part> kinds;
    for (const Part& p : parts) {
        Part& k = kinds[p.kind];
        k.kind = p.kind;
        k.add(p);
    }
    std::vector<Part> out;
    for (auto& [name, p] : kinds)
        out.push_back(std::move(p));
    std::sort(out.begin(), out.end(), [](const Part& a, const Part& b) { return a.ms > b.ms; });
    return out;
}

std::string shortened(const std::string& text, std::size_t length) {
    return text.size() <= length ? text : text.substr(0, length - 3) + "...";
}

std::string head(const char* what) {
    return fmt::format("  {:>9}  {:>6}  {:>8}  {:>7}  {:>8}  {:>9}  {:>8}  {}\n", "ms", "share",
                       "GFLOP/s", "GB/s", "of limit", "lost ms", "launches", what);
}

std::string line(const Part& p, double step_ms, const std::string& what) {
    return fmt::format(
        "  {:>9.3f}  {:>5.1f}%  {:>8.1f}  {:>7.1f}  {:>7.1f}%  {:>9.3f}  {:>8.0f}  {}\n", p.ms,
        100 * p.ms / step_ms, p.gflop_per_s(), p.gb_per_s(), 100 * p.of_limit(), p.lost_ms(),
        p.launches, what);
}

std::string description(const Part& p) {
    return fmt::format("{}  {}", shortened(p.name, 48), p.shapes);
}

constexpr std::size_t kGaps = 5;

json report(const BenchCase& c, const json& measured, const Limits& limits, int top) {
    const double step_ms = measured.at("step_ms");
    std::vector<Part> parts = parts_of(measured.at("launches"), limits);
    const std::vector<Part> kinds = by_kind(parts);
    Part all;
    for (const Part& p : kinds)
        all.add(p);
    // What is no launch: the processor prepares, or waits for the device.
    Part between;
    between.kind = between.name = "between launches";
    between.ms = std::max(0.0, step_ms - all.ms);
    parts.push_back(between);

    std::string text = fmt::format(
        "\n{} {} {}, batch {}: {:.3f} ms a step, {:.1f} % of it is what the machine needs at its "
        "best\n",
        c.model, c.mode, c.precision, c.batch, step_ms, 100 * all.limit_ms / step_ms);
    text += head("kind");
    for (const Part& p : kinds)
        text += line(p, step_ms, p.kind);
    text += line(between, step_ms, between.kind);
    std::vector<Part> by_time(parts.begin(), parts.end() - 1);
    std::stable_sort(by_time.begin(), by_time.end(),
                     [](const Part& a, const Part& b) { return a.ms > b.ms; });
    by_time.resize(std::min(by_time.size(), static_cast<std::size_t>(top)));
    if (top > 0) text += head("launch");
    for (const Part& p : by_time)
        text += line(p, step_ms, description(p));
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Part& a, const Part& b) { return a.lost_ms() > b.lost_ms(); });
    parts.resize(std::min(parts.size(), kGaps));
    text += head("largest gaps: time lost against the limit");
    for (const Part& p : parts)
        text += line(p, step_ms, description(p));
    fmt::print("{}", text);
    std::fflush(stdout);

    json out = to_json(c);
    for (const char* own : {"seconds", "input", "vocabulary", "num_classes"})
        out.erase(own);
    out["device"] = default_device().str();
    out["limits"] = {{"copy_gb_per_s", limits.gb_per_s},
                     {"matrix_gflop_per_s", limits.gflop_per_s}};
    out["steps"] = measured.at("steps");
    out["step_ms"] = step_ms;
    out["launch_ms"] = all.ms;
    out["limit_ms"] = all.limit_ms;
    out["of_limit"] = all.limit_ms / step_ms;
    const auto list = [](const std::vector<Part>& from) {
        json a = json::array();
        for (const Part& p : from)
            a.push_back(p.to_json());
        return a;
    };
    out["kinds"] = list(kinds);
    out["top"] = list(by_time);
    out["gaps"] = list(parts);
    return out;
}

}  // namespace

json run_profile_case(const json& what) {
    return what.at("profile") == "limits" ? measure_limits(what) : profile_steps(what);
}

int profile_models(const std::vector<BenchCase>& cases, int top, std::ostream* lines) {
    if (cases.empty()) return 0;
    const json measured = bench_in_child(
        {{"profile", "limits"}, {"precision", cases[0].precision}, {"threads", cases[0].threads}});
    const Limits limits{measured.at("copy_gb_per_s"), measured.at("matrix_gflop_per_s")};
    fmt::print("{} on {}\nlimits, measured now: copying {:.1f} GB/s, {} matrices {:.4g} GFLOP/s\n",
               default_device().str(), default_device().description(), limits.gb_per_s,
               cases[0].precision, limits.gflop_per_s);
    std::fflush(stdout);
    for (const BenchCase& c : cases) {
        json what = to_json(c);
        what["profile"] = "steps";
        const json j = report(c, bench_in_child(what), limits, top);
        if (lines) *lines << j.dump() << std::endl;
    }
    return 0;
}

}  // namespace pippin::cli
