#include "backends/gpu/hazards.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace pippin::gpu {

namespace {

constexpr std::int64_t kSpread = std::int64_t{64} << 20;

// Bytes of one buffer: the arena, the scratch memory, the error record, an input or an output.
struct Range {
    std::int32_t buffer;
    std::int64_t first, last;
};
constexpr std::int32_t kArena = -1, kScratch = -2, kError = -3;

struct Touched {
    std::vector<Range> reads, writes;
};

// What dispatches touch.
class Memory {
  public:
    explicit Memory(const plan::Plan& plan) : plan_(plan) {
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

    /// Which slots a launch writes; the dispatches of its step are asked for next.
    void enter(const Step& s) {
        written_.assign(plan_.slots.size(), false);
        const plan::Launch& l = plan_.launches[static_cast<std::size_t>(s.launch)];
        if (l.heavy) written_[static_cast<std::size_t>(l.heavy->output.slot)] = true;
        if (l.program)
            for (const plan::Segment& segment : l.program->segments)
                for (std::size_t a = 0; a < segment.slots.size(); ++a)
                    if (segment.slots[a] >= 0 && l.program->program.accesses[a].writes)
                        written_[static_cast<std::size_t>(segment.slots[a])] = true;
    }
    Touched touched(const Step& s, const Dispatch& d) const {
        Touched t;
        for (const Arg& a : d.args) {
            if (a.kind == Arg::Kind::Slot)
                (written_[static_cast<std::size_t>(a.index)] ? t.writes : t.reads)
                    .push_back(range_of(a.index));
            else if (a.kind == Arg::Kind::Scratch)
                t.writes.push_back({kScratch, s.scratch_from, s.scratch_from + s.scratch_bytes});
            else if (a.kind == Arg::Kind::Error)
                (d.guarded ? t.reads : t.writes).push_back({kError, 0, 1});
        }
        return t;
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
    std::vector<bool> written_;         // slots, by the step that was entered
};

// Levels of those who touched memory so far: the largest ones, and which conflict.
class Levels {
  public:
    static constexpr int kNone = std::numeric_limits<int>::min();

    /// The largest level of those that conflict with t; kNone if none does.
    int conflict(const Touched& t) const {
        int level = kNone;
        for (const Range& r : t.reads)
            visit(r, [&](const Entry& e) { level = std::max(level, e.write); });
        for (const Range& r : t.writes)
            visit(r, [&](const Entry& e) { level = std::max({level, e.write, e.read}); });
        return level;
    }
    /// t is at `level`, which is larger than that of all that conflict with it.
    void add(const Touched& t, int level) {
        for (const Range& r : t.reads) {
            std::vector<Entry>& all = buffers_[r.buffer];
            const auto same = std::ranges::find_if(
                all, [&](const Entry& e) { return e.first == r.first && e.last == r.last; });
            if (same == all.end())
                all.push_back({r.first, r.last, kNone, level});
            else
                same->read = std::max(same->read, level);
        }
        for (const Range& r : t.writes) {
            std::vector<Entry>& all = buffers_[r.buffer];
            std::erase_if(all,
                          [&](const Entry& e) { return r.first <= e.first && e.last <= r.last; });
            all.push_back({r.first, r.last, level, kNone});
        }
    }

  private:
    struct Entry {
        std::int64_t first, last;
        int write, read;
    };
    template <typename F>
    void visit(const Range& r, const F& f) const {
        const auto found = buffers_.find(r.buffer);
        if (found == buffers_.end()) return;
        for (const Entry& e : found->second)
            if (e.first < r.last && r.first < e.last) f(e);
    }

    std::unordered_map<std::int32_t, std::vector<Entry>> buffers_;
};

struct Item {
    Work::Turn turn;
    Touched touched;
    int level = 0;
    bool source = false;  // depends on nothing
};

void order_run(Work& w, std::vector<Item>& items) {
    Levels before;
    for (Item& i : items) {
        const int level = before.conflict(i.touched);
        i.source = level == Levels::kNone;
        i.level = i.source ? 0 : level + 1;
        before.add(i.touched, i.level);
    }
    // From the end on with levels turned round, so that the largest is the next one.
    Levels after;
    for (auto i = items.rbegin(); i != items.rend(); ++i) {
        const int next = after.conflict(i->touched);
        if (i->source && next != Levels::kNone) i->level = -next - 1;
        after.add(i->touched, -i->level);
    }
    std::ranges::stable_sort(items, {}, &Item::level);
    for (std::size_t n = 0; n < items.size(); ++n) {
        const Item& i = items[n];
        w.steps[static_cast<std::size_t>(i.turn.step)]
            .dispatches[static_cast<std::size_t>(i.turn.dispatch)]
            .waits = n > 0 && i.level != items[n - 1].level;
        w.order.push_back(i.turn);
    }
    items.clear();
}

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

void order_dispatches(Work& w, const plan::Plan& plan) {
    Memory memory(plan);
    w.order.clear();
    std::vector<Item> items;
    for (std::size_t s = 0; s < w.steps.size(); ++s) {
        const Step& step = w.steps[s];
        Work::Turn turn{static_cast<std::int32_t>(s), -1};
        // The processor waits for all before it, and is waited for.
        if (step.on_cpu) {
            order_run(w, items);
            w.order.push_back(turn);
            continue;
        }
        memory.enter(step);
        for (const Dispatch& d : step.dispatches) {
            ++turn.dispatch;
            items.push_back({turn, memory.touched(step, d)});
        }
    }
    order_run(w, items);
}

}  // namespace pippin::gpu
