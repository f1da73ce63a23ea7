#include "backends/gpu/hazards.h"

#include <algorithm>

namespace pippin::gpu {

namespace {

constexpr std::int64_t kSpread = std::int64_t{64} << 20;

// Bytes of one buffer: the arena, the scratch memory, the error record, an input or an output.
struct Range {
    std::int32_t buffer;
    std::int64_t first, last;
    bool meets(const Range& o) const {
        return buffer == o.buffer && first < o.last && o.first < last;
    }
};
constexpr std::int32_t kArena = -1, kScratch = -2, kError = -3;

bool meet(const std::vector<Range>& all, const Range& r) {
    return std::ranges::any_of(all, [&](const Range& a) { return a.meets(r); });
}

class Finder {
  public:
    explicit Finder(const plan::Plan& plan) : plan_(plan) {
        for (std::int64_t o = 0; o < plan.num_outputs; ++o)
            output_.push_back(static_cast<std::int32_t>(plan.num_inputs + o));
        for (const plan::OutputInfo& o : plan.outputs) {
            const std::int32_t input = o.donated_input >= 0 ? o.donated_input : o.same_as_input;
            if (o.slot < 0 || input < 0) continue;
            const plan::Slot& s = plan.slots[static_cast<std::size_t>(o.slot)];
            if (s.where == plan::Slot::Where::Output)
                output_[static_cast<std::size_t>(s.index)] = input;
        }
    }

    void step(const Step& s) {
        written_.assign(plan_.slots.size(), false);
        const plan::Launch& l = plan_.launches[static_cast<std::size_t>(s.launch)];
        if (l.heavy) written_[static_cast<std::size_t>(l.heavy->output.slot)] = true;
        if (l.program)
            for (const plan::Segment& segment : l.program->segments)
                for (std::size_t a = 0; a < segment.slots.size(); ++a)
                    if (segment.slots[a] >= 0 && l.program->program.accesses[a].writes)
                        written_[static_cast<std::size_t>(segment.slots[a])] = true;
        scratch_ = {kScratch, s.scratch_from, s.scratch_from + s.scratch_bytes};
    }
    bool dispatch(const Dispatch& d) {
        std::vector<Range> reads, writes;
        for (const Arg& a : d.args) {
            if (a.kind == Arg::Kind::Slot) {
                const Range r = range_of(a.index);
                (written_[static_cast<std::size_t>(a.index)] ? writes : reads).push_back(r);
            } else if (a.kind == Arg::Kind::Scratch) {
                writes.push_back(scratch_);
            } else if (a.kind == Arg::Kind::Error && d.guarded) {
                reads.push_back({kError, 0, 1});
            } else if (a.kind == Arg::Kind::Error) {
                writes.push_back({kError, 0, 1});
            }
        }
        const bool wait =
            std::ranges::any_of(reads, [&](const Range& r) { return meet(writes_, r); }) ||
            std::ranges::any_of(
                writes, [&](const Range& r) { return meet(writes_, r) || meet(reads_, r); });
        if (wait) forget();
        reads_.insert(reads_.end(), reads.begin(), reads.end());
        writes_.insert(writes_.end(), writes.begin(), writes.end());
        return wait;
    }
    void forget() {
        reads_.clear();
        writes_.clear();
    }

  private:
    Range range_of(std::int32_t slot) const {
        const plan::Slot& s = plan_.slots[static_cast<std::size_t>(slot)];
        if (s.where == plan::Slot::Where::Arena) return {kArena, s.offset, s.offset + s.bytes};
        const std::int32_t buffer = s.where == plan::Slot::Where::Input
                                        ? s.index
                                        : output_[static_cast<std::size_t>(s.index)];
        return {buffer, 0, 1};
    }

    const plan::Plan& plan_;
    std::vector<std::int32_t> output_;  // the buffer of each output
    std::vector<bool> written_;         // slots, by this step
    Range scratch_{};
    std::vector<Range> reads_, writes_;  // since the last wait
};

}  // namespace

void spread_scratch(Work& w) {
    std::int64_t most = kSpread, next = 0, end = 0;
    for (const Step& s : w.steps)
        most = std::max(most, s.scratch_bytes);
    for (Step& s : w.steps) {
        if (s.scratch_bytes == 0) continue;
        if (next + s.scratch_bytes > most) next = 0;
        s.scratch_from = next;
        for (Dispatch& d : s.dispatches)
            for (Arg& a : d.args)
                if (a.kind == Arg::Kind::Scratch) a.value += next;
        next += scratch_align(s.scratch_bytes);
        end = std::max(end, next);
    }
    w.scratch_bytes = end;
}

void find_waits(Work& w, const plan::Plan& plan) {
    Finder finder(plan);
    for (Step& s : w.steps) {
        // The processor waits for all before it, and is waited for.
        if (s.on_cpu) {
            finder.forget();
            continue;
        }
        finder.step(s);
        for (Dispatch& d : s.dispatches)
            d.waits = finder.dispatch(d);
    }
}

}  // namespace pippin::gpu
