#include "backends/gpu/tuner.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "backends/gpu/gemm.h"
#include "backends/gpu/gemm_matrix.h"
#include "graph/ops/records_attention.h"
#include "pippin/error.h"

namespace pippin::gpu {
namespace {

namespace ops = graph::ops;

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

std::string features_text(const Features& f) {
    return fmt::format("{} {} {} {} {} {} {} {} {} {}", f.float64, f.large_tiles, f.small_tiles,
                       f.matrices, f.shared_bytes, f.parallel_groups, f.max_loop, f.winograd_tiles,
                       f.winograd_channels, f.tile_bytes);
}

std::string operand_text(const plan::Operand& o) {
    // Of the offset, kernels know how it is aligned.
    std::string out = fmt::format("{}@{}", static_cast<int>(o.dtype), o.offset % 8);
    for (int d = 0; d < o.shape.rank(); ++d)
        out += fmt::format(",{}:{}", o.shape[d], o.strides[static_cast<std::size_t>(d)]);
    return out;
}

// For people: what the launch is and how large.
std::string title(const plan::Launch& l) {
    std::string out = l.name;
    for (const plan::Operand& o : l.heavy->operands) {
        out += out.size() == l.name.size() ? " " : " x ";
        for (int d = 0; d < o.shape.rank(); ++d)
            out += fmt::format("{}{}", d ? "," : "[", o.shape[d]);
        out += fmt::format("]{}", o.dtype == DType::Float32 ? "" : name_of(o.dtype));
    }
    return out;
}

}  // namespace

TuneMode tune_mode(bool otherwise) {
    const char* text = std::getenv("PIPPIN_GPU_TUNE");
    const std::string_view mode = text ? text : "";
    if (mode.empty()) return otherwise ? TuneMode::On : TuneMode::Off;
    if (mode == "0") return TuneMode::Off;
    if (mode == "1") return TuneMode::On;
    if (mode == "log") return TuneMode::Log;
    if (mode == "full") return TuneMode::Full;
    throw ValueError(fmt::format("PIPPIN_GPU_TUNE={}: it must be 0, 1, log or full", mode));
}

TextKey launch_key(const plan::HeavyLaunch& l) {
    std::string text = l.op->name;
    for (const std::int64_t i : l.attrs.i)
        text += fmt::format(" {}", i);
    for (const double f : l.attrs.f)
        text += fmt::format(" {:x}", std::bit_cast<std::uint64_t>(f));
    for (const plan::Operand& o : l.operands)
        text += " " + operand_text(o);
    text += fmt::format(" {} {} {} {}", operand_text(l.output), l.epilogue.bias,
                        l.epilogue.residual, static_cast<int>(l.epilogue.activation));
    return TextKey::of(text);
}

// The ways of a few launches of each kind stand for the texts of all kernels.
TextKey kernels_key(const Features& f) {
    std::string text = std::string(kHalfSource) + kMathSource;
    const auto add = [&](const graph::OpRecord& op, std::initializer_list<std::int64_t> attrs,
                         DType dtype, std::initializer_list<Shape> shapes, const Shape& result) {
        plan::Plan plan;
        plan::Launch l;
        l.heavy = std::make_unique<plan::HeavyLaunch>();
        plan::HeavyLaunch& h = *l.heavy;
        h.op = &op;
        for (const auto a : attrs)
            h.attrs.i.push_back(a);
        if (ops::is_attention(&op)) h.attrs.f.push_back(0.125);
        const auto operand = [&](const Shape& shape) {
            plan::Operand o;
            o.slot = static_cast<std::int32_t>(plan.slots.size());
            o.dtype = dtype;
            o.shape = shape;
            o.strides = plan::dense_strides(shape, plan::Order::RowMajor);
            plan.slots.push_back({plan::Slot::Where::Input, o.slot, 0, 0});
            return o;
        };
        for (const Shape& shape : shapes)
            h.operands.push_back(operand(shape));
        h.output = operand(result);
        plan.launches.push_back(std::move(l));
        const auto write = [&](const LaunchChoice& c) {
            for (const KernelSource& k : make_work(plan, f, std::span(&c, 1)).kernels)
                text += k.functions + k.body;
        };
        for (const auto a : {Algorithm::Product, Algorithm::Direct, Algorithm::Winograd,
                             Algorithm::Scores, Algorithm::OnePass})
            write({a, {}});
        for (int tile = 0; &op == &ops::kMatmul && tile < kFirstMatrixTile + 20; ++tile)
            if (tile < 20 || tile >= kFirstMatrixTile)
                for (const std::int64_t splits : {1, 2})
                    write({Algorithm::Default, {{{1, 128, 96, 256}, {tile, splits}}}});
    };
    for (const DType t : {DType::Float32, DType::Float16}) {
        add(ops::kMatmul, {0, 0}, t, {{128, 256}, {256, 96}}, {128, 96});
        add(ops::kConv2d, {1, 1, 1, 1, 1, 1, 1}, t, {{2, 8, 8, 8}, {16, 8, 3, 3}}, {2, 16, 8, 8});
        add(ops::kConv2dGradInput, {1, 1, 1, 1, 1, 1, 1, 8, 8}, t, {{2, 16, 8, 8}, {16, 8, 3, 3}},
            {2, 8, 8, 8});
        add(ops::kConv2dGradWeight, {1, 1, 1, 1, 1, 1, 1, 3, 3}, t, {{2, 8, 8, 8}, {2, 16, 8, 8}},
            {16, 8, 3, 3});
    }
    return TextKey::of(text);
}

// A launch that has no choice yet, and all that are like it.
struct Tuner::Subject {
    TextKey key;
    std::size_t launch = 0;  // the first of them
    int count = 0;           // of them
    double cost = 0;         // of all, rough, to know the dearest
    std::unique_ptr<Trial> trial;
    std::size_t next = 0;  // the first way that is not measured
    bool failed = false;

    bool is_open() const { return trial && !failed; }
};

Tuner::Tuner(Settings settings, Bench& bench)
    : settings_(std::move(settings)), bench_(bench), born_(now()) {}

TuningStats Tuner::stats() const {
    std::lock_guard lock(mutex_);
    const auto changed =
        std::ranges::count_if(known_, [](const auto& k) { return !k.second.choice.is_default(); });
    return {static_cast<std::int64_t>(known_.size()), tried_, changed, spent_};
}

std::vector<LaunchChoice> Tuner::choose(const plan::Plan& plan) {
    std::vector<LaunchChoice> choices(plan.launches.size());
    if (settings_.mode == TuneMode::Off ||
        std::ranges::none_of(plan.launches, [](const auto& l) { return has_ways(l); }))
        return choices;
    std::lock_guard lock(mutex_);
    if (!file_) {
        const TextKey kernels = kernels_key(settings_.features);
        file_ = std::make_unique<TuningFile>(
            settings_.file,
            TextKey::of(fmt::format("{}\n{}\n{:x} {:x}", settings_.device,
                                    features_text(settings_.features), kernels.a, kernels.b)));
        known_ = file_->load();
    }
    std::vector<TextKey> keys(plan.launches.size());
    std::vector<Subject> unknown;
    double cost = 0, unknown_cost = 0;  // of the plan, rough
    for (std::size_t n = 0; n < plan.launches.size(); ++n) {
        const plan::Launch& l = plan.launches[n];
        if (!has_ways(l)) continue;
        keys[n] = launch_key(*l.heavy);
        const double own =
            std::max(static_cast<double>(l.flops), 20.0 * static_cast<double>(l.bytes_moved));
        cost += own;
        if (known_.contains(keys[n])) continue;
        auto it = std::ranges::find(unknown, keys[n], &Subject::key);
        if (it == unknown.end()) {
            unknown.push_back({keys[n], n, 0, 0, nullptr, 0, false});
            it = std::prev(unknown.end());
        }
        it->cost += own;
        ++it->count;
        unknown_cost += own;
    }
    // What is left over by an earlier program is not to make each start slow: with half of a plan
    // known, the rest stays with the defaults.
    double seconds = std::min(
        unknown_cost < cost / 2 ? 0 : settings_.plan_seconds * unknown_cost / std::max(cost, 1.0),
        settings_.all_seconds + settings_.share * (now() - born_ - spent_) - spent_);
    if (settings_.mode == TuneMode::Full) seconds = 1e9;
    if (!unknown.empty() && seconds > 0 && seconds >= settings_.least_seconds) {
        std::ranges::stable_sort(unknown, std::ranges::greater{}, &Subject::cost);
        const double start = now();
        try {
            tune(plan, unknown, seconds);
        } catch (...) {
            bench_.release();
            throw;
        }
        bench_.release();
        file_->add(fresh_);
        const double took = now() - start;
        spent_ += took;
        if (tells()) report(unknown, took);
        fresh_.clear();
    }
    for (std::size_t n = 0; n < plan.launches.size(); ++n)
        if (const auto it = known_.find(keys[n]); has_ways(plan.launches[n]) && it != known_.end())
            choices[n] = it->second.choice;
    return choices;
}

// Some of the dearest together, so that all cores have kernels to compile. Each goes up to three
// steps from way to way: another algorithm or form, then other forms of that, then once more.
void Tuner::tune(const plan::Plan& plan, std::span<Subject> unknown, double seconds) {
    constexpr int kRounds = 3;
    const double end = now() + seconds, late = end + seconds / 2;  // what is compiled is measured
    while (!unknown.empty() && now() < end) {
        std::size_t count = 0, kernels = 0;
        for (; count < unknown.size() && kernels < settings_.kernels_at_once; ++count)
            kernels += open(plan, unknown[count]);
        const auto wave = unknown.first(count);
        unknown = unknown.subspan(count);
        for (int round = 0; round < kRounds; ++round) {
            const double start = now();
            compile(wave);
            const double compiling = now() - start;
            for (Subject& s : wave) {
                if (!s.is_open() || s.next == s.trial->ways().size() || now() > late) continue;
                try {
                    s.failed = !s.trial->measure(bench_, s.next);
                } catch (const Error&) {  // a lost device says so again when the plan runs
                    s.failed = true;
                }
                s.next = s.trial->ways().size();
            }
            if (now() + compiling > end || round + 1 == kRounds) break;
            std::size_t more = 0;
            for (Subject& s : wave)
                if (s.is_open()) more += s.trial->branch(s.trial->best(settings_.margin));
            if (more == 0) break;
        }
        for (Subject& s : wave)
            settle(plan.launches[s.launch], s);
        bench_.forget();
    }
}

// The number of kernels that its ways have.
std::size_t Tuner::open(const plan::Plan& plan, Subject& s) const {
    std::size_t kernels = 0;
    const plan::Launch& l = plan.launches[s.launch];
    s.failed = !bench_.is_brief(static_cast<double>(l.flops), static_cast<double>(l.bytes_moved));
    if (s.failed) return 0;
    try {
        s.trial = std::make_unique<Trial>(plan, s.launch, settings_.features);
        s.trial->branch(0);
        for (const Work* w : s.trial->works(0))
            kernels += w->kernels.size();
    } catch (const Error&) {  // the processor does it, or it is too large
        s.failed = true;
    }
    return kernels;
}

void Tuner::compile(std::span<Subject> wave) {
    std::vector<const Work*> works;
    std::vector<std::pair<Subject*, Trial::Way*>> owners;  // no way: what trials need themselves
    for (Subject& s : wave) {
        if (!s.is_open()) continue;
        for (const Work* w : s.trial->works(s.next)) {
            works.push_back(w);
            owners.emplace_back(&s, nullptr);
            for (Trial::Way& way : s.trial->ways())
                if (&way.work == w) owners.back().second = &way;
        }
    }
    if (works.empty()) return;
    const std::vector<std::string> errors = bench_.prepare(works);
    for (std::size_t k = 0; k < errors.size(); ++k) {
        if (errors[k].empty()) continue;
        const auto [subject, way] = owners[k];
        if (way && way != &subject->trial->ways()[0])
            way->fault = errors[k];
        else
            subject->failed = true;
    }
}

void Tuner::settle(const plan::Launch& launch, Subject& s) {
    if (s.trial) {
        const std::size_t best = s.failed ? 0 : s.trial->best(settings_.margin);
        bench_.keep(s.trial->ways()[best].work);
    }
    if (!s.failed && s.next == 0) {  // there was no time for it
        s.trial.reset();
        return;
    }
    Tuned t;
    if (!s.failed) {
        const auto& ways = s.trial->ways();
        const std::size_t best = s.trial->best(settings_.margin);
        t = {ways[best].choice, ways[0].seconds, ways[best].seconds};
        fresh_[s.key] = t;
        ++tried_;
        if (tells()) {
            fmt::print(stderr, "tuning: {} x {}: default {:.1f} us, {} {:.1f} us\n", s.count,
                       title(launch), t.standard * 1e6, t.choice.str(), t.chosen * 1e6);
            for (const auto& w : ways)
                if (w.out())
                    fmt::print(stderr, "tuning:   {} is out: {}\n", w.choice.str(), w.fault);
        }
    } else if (tells()) {
        fmt::print(stderr, "tuning: {} x {}: cannot be measured\n", s.count, title(launch));
    }
    known_[s.key] = std::move(t);
    s.trial.reset();
}

void Tuner::report(std::span<const Subject> subjects, double seconds) const {
    double standard = 0, chosen = 0;
    std::size_t known = 0;
    for (const Subject& s : subjects) {
        known += known_.contains(s.key);
        if (const auto it = fresh_.find(s.key); it != fresh_.end()) {
            standard += it->second.standard * s.count;
            chosen += it->second.chosen * s.count;
        }
    }
    fmt::print(stderr,
               "tuning: {} of {} kinds of launches in {:.2f} s; all of them: default {:.3f} ms, "
               "chosen {:.3f} ms\n",
               known, subjects.size(), seconds, standard * 1e3, chosen * 1e3);
}

}  // namespace pippin::gpu
