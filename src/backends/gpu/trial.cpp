#include "backends/gpu/trial.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backends/gpu/conv.h"
#include "backends/gpu/expression.h"
#include "backends/gpu/gemm.h"
#include "graph/ops/records_attention.h"
#include "pippin/error.h"

namespace pippin::gpu {
namespace {

namespace ops = graph::ops;

constexpr std::int64_t kMostElements = std::int64_t{1} << 30;
// A product with less of the launch's work is not worth a trial.
constexpr double kShare = 1.0 / 8;
// Of all products of a launch, at a time.
constexpr std::size_t kMostForms = 7;

bool is_conv(const graph::OpRecord* op) {
    return op == &ops::kConv2d || op == &ops::kConv2dGradInput || op == &ops::kConv2dGradWeight;
}

// Sums in another order, weights of attention that are rounded or not, Winograd's last digits; a
// fault is far above. Of a dtype; sums of k terms in float32 add kOfSums times the root of k.
constexpr double kOfSums = 1e-7;
double tolerance_of(DType t) {
    return t == DType::BFloat16 ? 4e-2 : t == DType::Float16 ? 5e-3 : 1e-4;
}

// That copy and compare a result: a few elements a thread.
std::int64_t groups_for(const plan::Operand& result) {
    return std::clamp<std::int64_t>(ceil_div(result.shape.numel(), 1024), 1, 1024);
}

Dispatch tool(Work& w, KernelSource k, std::int64_t groups, std::vector<Arg> args) {
    Dispatch d;
    d.groups = groups;
    d.args = std::move(args);
    d.args.insert(d.args.begin(), value_arg(groups));
    d.kernel = w.add(std::move(k));
    return d;
}

// A loop of all threads of all groups over `count` (an expression) elements.
std::string loop(const std::string& count, std::int64_t groups) {
    return fmt::format(
        "ROLL for (int e = int(GROUP * THREADS + LANE); e < {}; e += {} * int(THREADS)) {{\n",
        count, groups);
}

std::string names(const plan::Operand& o, std::vector<std::string>& coordinates) {
    std::vector<std::pair<std::string, std::int64_t>> parts;
    for (int d = 0; d < o.shape.rank(); ++d) {
        coordinates.push_back(fmt::format("d{}", d));
        parts.emplace_back(coordinates.back(), o.shape[d]);
    }
    return cut("e", parts);
}

}  // namespace

bool has_ways(const plan::Launch& l) {
    return l.heavy &&
           (l.heavy->op == &ops::kMatmul || is_conv(l.heavy->op) || ops::is_attention(l.heavy->op));
}

Trial::Trial(const plan::Plan& plan, std::size_t launch, const Features& features)
    : features_(features) {
    const plan::Launch& from = plan.launches[launch];
    plan::Launch alone;
    alone.name = from.name;
    alone.heavy = std::make_unique<plan::HeavyLaunch>(*from.heavy);
    alone.flops = from.flops;
    alone.bytes_moved = from.bytes_moved;
    std::vector<std::int32_t> known;
    const auto place = [&](plan::Operand& o) {
        const auto it = std::ranges::find(known, o.slot);
        const auto n = static_cast<std::int32_t>(it - known.begin());
        if (it == known.end()) {
            known.push_back(o.slot);
            plan_.slots.push_back({plan::Slot::Where::Input, n, 0,
                                   plan.slots[static_cast<std::size_t>(o.slot)].bytes});
        }
        o.slot = n;
        tolerance_ = std::max(tolerance_, tolerance_of(o.dtype));
    };
    for (plan::Operand& o : alone.heavy->operands)
        place(o);
    place(alone.heavy->output);
    plan_.num_inputs = static_cast<std::int64_t>(plan_.slots.size());
    plan_.launches.push_back(std::move(alone));
    if (!add({})) throw Error(ways_.empty() ? "it has no kernel" : "it cannot be tried");
    double longest = 0;
    for (const auto& p : step(ways_[0]).taken.products)
        longest = std::max(longest, static_cast<double>(p.shape.k));
    tolerance_ += kOfSums * std::sqrt(longest);
    if (plan_.launches[0].heavy->output.shape.numel() > kMostElements)
        throw Error("it is too large to be tried");
    write_fill();
    write_keep();
    write_compare();
}

bool Trial::add(LaunchChoice choice) {
    Way w;
    w.work = make_work(plan_, features_, std::span(&choice, 1));
    const Step& s = w.work.steps[0];
    if (s.on_cpu || s.dispatches.empty() || !w.work.checks.empty()) return false;
    if (choice.algorithm != Algorithm::Default && choice.algorithm != s.taken.algorithm)
        return false;
    if (!ways_.empty() &&
        w.work.scratch_bytes > std::max(ways_[0].work.scratch_bytes, features_.tile_bytes))
        return false;
    // What a wish has not changed is there already.
    for (const Way& o : ways_) {
        const Taken &a = s.taken, &b = step(o).taken;
        if (a.algorithm == b.algorithm &&
            std::ranges::equal(a.products, b.products, [](const auto& x, const auto& y) {
                return x.shape == y.shape && x.form == y.form;
            }))
            return false;
    }
    w.choice = std::move(choice);
    ways_.push_back(std::move(w));
    return true;
}

std::size_t Trial::branch(std::size_t base) {
    const std::size_t before = ways_.size();
    const graph::OpRecord* op = plan_.launches[0].heavy->op;
    if (base == 0) {
        std::vector<Algorithm> all;
        if (is_conv(op)) all = {Algorithm::Product, Algorithm::Direct, Algorithm::Winograd};
        if (ops::is_attention(op)) all = {Algorithm::Scores, Algorithm::OnePass};
        for (const Algorithm a : all)
            if (a != step(ways_[0]).taken.algorithm) add({a, {}});
    }
    const Taken taken = step(ways_[base]).taken;
    const LaunchChoice chosen = ways_[base].choice;
    double operations = 0;
    for (const auto& p : taken.products)
        operations += p.shape.operations() * p.times;
    const auto is_large = [&](const Taken::Product& p) {
        return p.shape.operations() * p.times >= kShare * operations;
    };
    const auto large = static_cast<std::size_t>(std::ranges::count_if(taken.products, is_large));
    LaunchChoice together = chosen;
    std::size_t better = 0;
    for (const auto& p : taken.products) {
        if (!is_large(p)) continue;
        std::vector<ProductForm> forms = other_forms(p.shape, p.halves, p.form, features_);
        forms.resize(std::min(forms.size(), std::max<std::size_t>(kMostForms / large, 2)));
        for (const ProductForm& form : forms) {
            LaunchChoice c = chosen;
            c.set(p.shape, form);
            add(std::move(c));
        }
        // The best form of this product alone, among what was measured.
        double best = ways_[0].seconds * 0.99;
        for (std::size_t k = 0; k < before; ++k) {
            const Way& w = ways_[k];
            if (w.out() || w.seconds >= best || w.choice.algorithm != chosen.algorithm ||
                w.choice.products.size() != 1 || w.choice.products[0].first != p.shape)
                continue;
            best = w.seconds;
            together.set(p.shape, w.choice.products[0].second);
        }
        better += best < ways_[0].seconds * 0.99;
    }
    if (better > 1) add(std::move(together));
    return ways_.size() - before;
}

std::vector<const Work*> Trial::works(std::size_t from) const {
    std::vector<const Work*> all;
    if (from == 0) all = {&fill_, &keep_, &compare_};
    for (std::size_t k = from; k < ways_.size(); ++k)
        all.push_back(&ways_[k].work);
    return all;
}

Trial::Places Trial::places() const {
    Places p;
    const auto take = [&](std::int64_t bytes) {
        const std::int64_t at = p.end;
        p.end += scratch_align(bytes + 64);
        return at;
    };
    for (const plan::Slot& s : plan_.slots)
        p.slots.push_back(take(s.bytes));
    const plan::Operand& y = plan_.launches[0].heavy->output;
    p.kept = take(y.shape.numel() * static_cast<std::int64_t>(size_of(y.dtype)));
    p.sums = take(groups_for(y) * 12);
    p.slots.push_back(p.kept);
    p.slots.push_back(p.sums);
    std::int64_t scratch = 0;
    for (const Way& w : ways_)
        if (!w.out()) scratch = std::max(scratch, w.work.scratch_bytes);
    p.scratch = take(scratch);
    return p;
}

// Numbers from -1/2 to 1/2, whole ones for integers, and the result's place full of other ones.
void Trial::write_fill() {
    const plan::HeavyLaunch& l = *plan_.launches[0].heavy;
    Step s;
    std::vector<bool> known(plan_.slots.size());
    const auto add_slot = [&](const plan::Operand& o) {
        const auto k = static_cast<std::size_t>(o.slot);
        if (known[k]) return false;
        known[k] = true;
        const std::int64_t count =
            plan_.slots[k].bytes / static_cast<std::int64_t>(size_of(o.dtype));
        if (count > kMostElements * 2 - 4096 * 256) throw Error("it is too large to be tried");
        const std::int64_t groups = std::clamp<std::int64_t>(ceil_div(count, 256), 1, 4096);
        const char* value = o.dtype == DType::Bool    ? "(h & 1u) != 0u"
                            : o.dtype == DType::Int64 ? "I64(int(h & 1023u))"
                            : is_floating(o.dtype)    ? "float(int(h >> 8)) * 5.9604645e-8f - 0.5f"
                                                      : "int(h & 127u)";
        KernelSource kernel;
        kernel.name = "fill";
        kernel.body = loop("int(ARG(2))", groups) +
                      "uint h = uint(e) * 2654435761u + uint(int(ARG(3)));\n"
                      "h = (h ^ (h >> 16)) * 2246822519u;\nh = (h ^ (h >> 13)) * 3266489917u;\n"
                      "h = h ^ (h >> 16);\n" +
                      store(o.dtype, "ADDRESS(1)", "e", value) + ";\n}\n";
        s.dispatches.push_back(
            tool(fill_, std::move(kernel), groups,
                 {slot_arg(o.slot, 0), value_arg(count), value_arg(1000003 * (o.slot + 1))}));
        return true;
    };
    for (const plan::Operand& o : l.operands)
        add_slot(o);
    output_fill_ = add_slot(l.output) ? s.dispatches.size() - 1 : s.dispatches.size();
    fill_.steps.push_back(std::move(s));
}

void Trial::write_keep() {
    const plan::Operand& y = plan_.launches[0].heavy->output;
    std::vector<std::string> at;
    const std::string cuts = names(y, at);
    KernelSource k;
    k.name = "keep";
    k.body = loop(std::to_string(y.shape.numel()), groups_for(y)) + cuts +
             store(y.dtype, "ADDRESS(2)", "e", load(y.dtype, "ADDRESS(1)", strided_index(y, at))) +
             ";\n}\n";
    Step s;
    s.dispatches.push_back(
        tool(keep_, std::move(k), groups_for(y),
             {operand_arg(y), slot_arg(static_cast<std::int32_t>(plan_.slots.size()), 0)}));
    keep_.steps.push_back(std::move(s));
}

// Of each group: the largest difference, the largest number kept, and whether there is one that is
// not finite.
void Trial::write_compare() {
    const plan::Operand& y = plan_.launches[0].heavy->output;
    std::vector<std::string> at;
    const std::string cuts = names(y, at);
    KernelSource k;
    k.name = "compare";
    k.shared = {{"float", "worst_of", k.threads},
                {"float", "largest_of", k.threads},
                {"float", "odd_of", k.threads}};
    k.body =
        "float worst = 0.0f;\nfloat largest = 0.0f;\nfloat odd = 0.0f;\n" +
        loop(std::to_string(y.shape.numel()), groups_for(y)) + cuts +
        fmt::format(
            "float a = {};\nfloat b = {};\n"
            "if ((AS_UINT(a) & 0x7f800000u) == 0x7f800000u || "
            "(AS_UINT(b) & 0x7f800000u) == 0x7f800000u) {{\nodd = 1.0f;\n}} else {{\n"
            "float d = m_abs(a - b);\nif (d > worst) worst = d;\n"
            "float m = m_abs(a);\nif (m > largest) largest = m;\n}}\n}}\n",
            load(y.dtype, "ADDRESS(2)", "e"), load(y.dtype, "ADDRESS(1)", strided_index(y, at)));
    k.body +=
        "worst_of[int(LANE)] = worst;\nlargest_of[int(LANE)] = largest;\nodd_of[int(LANE)] = odd;\n"
        "BARRIER();\nif (int(LANE) == 0) {\n"
        "ROLL for (int t = 1; t < int(THREADS); t++) {\n"
        "if (worst_of[t] > worst) worst = worst_of[t];\n"
        "if (largest_of[t] > largest) largest = largest_of[t];\n"
        "if (odd_of[t] > odd) odd = odd_of[t];\n}\n"
        "ST_F32(ADDRESS(3), int(GROUP) * 3, worst);\nST_F32(ADDRESS(3), int(GROUP) * 3 + 1, "
        "largest);\nST_F32(ADDRESS(3), int(GROUP) * 3 + 2, odd);\n}\n";
    Step s;
    const auto kept = static_cast<std::int32_t>(plan_.slots.size());
    s.dispatches.push_back(tool(compare_, std::move(k), groups_for(y),
                                {operand_arg(y), slot_arg(kept, 0), slot_arg(kept + 1, 0)}));
    compare_.steps.push_back(std::move(s));
}

void Trial::fill(Bench& bench, const Places& at, std::int64_t seed) {
    auto& dispatches = fill_.steps[0].dispatches;
    if (output_fill_ < dispatches.size()) dispatches[output_fill_].args[3] = value_arg(seed);
    bench.run(fill_, at.slots, at.scratch, 1);
}

Trial::Difference Trial::compare(Bench& bench, const Places& at) {
    bench.run(compare_, at.slots, at.scratch, 1);
    std::vector<float> sums(static_cast<std::size_t>(groups_for(plan_.launches[0].heavy->output)) *
                            3);
    bench.read(sums.data(), at.sums, static_cast<std::int64_t>(sums.size() * sizeof(float)));
    Difference d;
    for (std::size_t g = 0; g < sums.size(); g += 3) {
        d.worst = std::max(d.worst, static_cast<double>(sums[g]));
        d.largest = std::max(d.largest, static_cast<double>(sums[g + 1]));
        d.finite = d.finite && sums[g + 2] == 0;
    }
    return d;
}

void Trial::check(Bench& bench, const Places& at, Way& w, std::int64_t seed, double largest) {
    try {
        fill(bench, at, seed);
        w.first = bench.run(w.work, at.slots, at.scratch, 1);
        const Difference d = compare(bench, at);
        if (!d.finite)
            w.fault = "its results are not finite";
        else if (!(d.worst <= tolerance_ * largest))
            w.fault = fmt::format("its results are off by {:.3g} of {:.3g}", d.worst, largest);
    } catch (const Error& e) {
        w.fault = e.what();
    }
}

bool Trial::measure(Bench& bench, std::size_t from) {
    const Places at = places();
    if (at.end > bench.most_bytes() || !bench.reserve(at.end)) return false;
    Way& standard = ways_[0];
    if (standard.out()) return false;
    fill(bench, at, 1);
    standard.first = bench.run(standard.work, at.slots, at.scratch, 1);
    bench.run(keep_, at.slots, at.scratch, 1);
    const Difference self = compare(bench, at);
    if (!self.finite || self.largest == 0) return false;
    std::vector<Way*> running{&standard};
    double fastest = standard.first;
    for (std::size_t k = std::max<std::size_t>(from, 1); k < ways_.size(); ++k) {
        if (ways_[k].out()) continue;
        check(bench, at, ways_[k], static_cast<std::int64_t>(k) + 2, self.largest);
        if (ways_[k].out()) continue;
        running.push_back(&ways_[k]);
        fastest = std::min(fastest, ways_[k].first);
    }
    // First runs bear what is done once; what is far behind then stays there.
    std::erase_if(running,
                  [&](const Way* w) { return w != &standard && w->first > 2 * fastest + 1e-4; });
    // In turns, so that a device's changing clock or other work on it meets all alike.
    const int rounds = fastest > 3e-3 ? 2 : 4;
    for (int r = 0; r < rounds; ++r)
        for (Way* w : running) {
            const double once = std::max(std::min(w->first, w->seconds), 1e-7);
            const int times = std::clamp(static_cast<int>(4e-4 / once), 1, 20);
            const double t = bench.run(w->work, at.slots, at.scratch, times) / times;
            w->seconds = std::min(w->seconds, t);
        }
    return true;
}

std::size_t Trial::best(double margin) const {
    std::size_t best = 0;
    for (std::size_t k = 1; k < ways_.size(); ++k)
        if (!ways_[k].out() && ways_[k].seconds < ways_[best].seconds) best = k;
    return ways_[best].seconds < ways_[0].seconds * (1 - margin) ? best : 0;
}

}  // namespace pippin::gpu
