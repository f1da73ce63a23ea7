// In which order dispatches go and which of them wait: for what they read or write over, and for
// nothing else.
#include <gtest/gtest.h>

#include <ostream>

#include "backends/gpu/hazards.h"

namespace pippin::gpu_test {
namespace {

using gpu::Dispatch;
using gpu::Step;
using plan::Slot;

// A plan of launches of one input and one output each: {from, to}, numbers of slots.
plan::Plan plan_of(std::vector<Slot> slots, const std::vector<std::pair<int, int>>& launches) {
    plan::Plan p;
    p.slots = std::move(slots);
    for (const auto& [from, to] : launches) {
        plan::Launch l;
        l.heavy = std::make_unique<plan::HeavyLaunch>();
        l.heavy->operands.resize(1);
        l.heavy->operands[0].slot = from;
        l.heavy->output.slot = to;
        p.launches.push_back(std::move(l));
    }
    return p;
}

struct Ordered {
    std::vector<int> order;
    std::vector<bool> waits;
    bool operator==(const Ordered&) const = default;
};
void PrintTo(const Ordered& o, std::ostream* out) {
    for (std::size_t i = 0; i < o.order.size(); ++i)
        *out << (o.waits[i] ? "| " : "") << o.order[i] << ' ';
}

Ordered ordered(const plan::Plan& p, std::int64_t scratch = 0) {
    gpu::Work w;
    for (std::size_t n = 0; n < p.launches.size(); ++n) {
        Step s;
        s.launch = static_cast<std::int32_t>(n);
        s.scratch_bytes = scratch;
        const plan::HeavyLaunch& h = *p.launches[n].heavy;
        Dispatch d;
        d.groups = 1;
        d.args = {gpu::value_arg(1), gpu::slot_arg(h.operands[0].slot, 0),
                  gpu::slot_arg(h.output.slot, 0)};
        if (scratch > 0) d.args.push_back(gpu::scratch_arg(0));
        s.dispatches.push_back(std::move(d));
        w.steps.push_back(std::move(s));
    }
    gpu::spread_scratch(w);
    gpu::order_dispatches(w, p);
    Ordered out;
    for (const gpu::Work::Turn& t : w.order) {
        out.order.push_back(t.step);
        out.waits.push_back(w.steps[static_cast<std::size_t>(t.step)].dispatches[0].waits);
    }
    return out;
}

Slot arena(std::int64_t offset, std::int64_t bytes) {
    return {Slot::Where::Arena, 0, offset, bytes};
}

TEST(Hazards, ReadersOfOneThingGoSideBySide) {
    const auto p = plan_of({arena(0, 64), arena(64, 64), arena(128, 64), arena(192, 64)},
                           {{0, 1}, {0, 2}, {1, 3}});
    // The second needs nothing, and comes with who writes first.
    EXPECT_EQ(ordered(p), (Ordered{{0, 1, 2}, {false, false, true}}));
}

TEST(Hazards, WritingOverWhatIsReadOrWrittenWaits) {
    const auto p = plan_of({arena(0, 64), arena(64, 64), arena(32, 64)}, {{0, 1}, {1, 2}, {0, 2}});
    EXPECT_EQ(ordered(p), (Ordered{{0, 1, 2}, {false, true, true}}));
    // Slots that share bytes of the arena, though not their first ones.
    const auto q =
        plan_of({arena(0, 64), arena(64, 64), arena(120, 64), arena(256, 8)}, {{0, 1}, {3, 2}});
    EXPECT_EQ(ordered(q), (Ordered{{0, 1}, {false, true}}));
    // A slot that covers two others waits for the later one.
    const auto r =
        plan_of({arena(0, 64), arena(64, 64), arena(128, 64), arena(64, 128), arena(256, 64)},
                {{0, 1}, {1, 2}, {4, 3}});
    EXPECT_EQ(ordered(r), (Ordered{{0, 1, 2}, {false, true, true}}));
}

TEST(Hazards, AnOutputMayBeAnInput) {
    auto p = plan_of({{Slot::Where::Input, 0, 0, 64},
                      {Slot::Where::Input, 1, 0, 64},
                      {Slot::Where::Output, 0, 0, 64},
                      {Slot::Where::Output, 1, 0, 64}},
                     {{0, 2}, {1, 3}});
    p.num_inputs = p.num_outputs = 2;
    p.outputs.resize(2);
    p.outputs[0].slot = 2, p.outputs[1].slot = 3;
    EXPECT_EQ(ordered(p), (Ordered{{0, 1}, {false, false}}));
    p.outputs[0].donated_input = 1;  // the first launch writes what the second reads
    EXPECT_EQ(ordered(p), (Ordered{{0, 1}, {false, true}}));
}

TEST(Hazards, BranchesKeepEachOtherCompany) {
    // 0 -> 1 -> 2 and 0 -> 3 -> 4, one branch after the other in the plan.
    std::vector<Slot> slots;
    for (int n = 0; n < 8; ++n)
        slots.push_back(arena(n * 64, 64));
    const auto p = plan_of(slots, {{0, 1}, {1, 2}, {2, 3}, {1, 4}, {4, 5}});
    EXPECT_EQ(ordered(p), (Ordered{{0, 1, 3, 2, 4}, {false, true, false, true, false}}));
}

TEST(Hazards, WhatNeedsNothingGoesBeforeWhoNeedsIt) {
    std::vector<Slot> slots;
    for (int n = 0; n < 8; ++n)
        slots.push_back(arena(n * 64, 64));
    // The second, of an input that is there, is needed by the fourth alone (over slot 4).
    auto p = plan_of(slots, {{0, 1}, {6, 4}, {1, 2}, {4, 2}});
    EXPECT_EQ(ordered(p), (Ordered{{0, 1, 2, 3}, {false, true, false, true}}));
}

TEST(Hazards, ScratchIsSpreadWhileItIsSmall) {
    std::vector<Slot> slots;
    std::vector<std::pair<int, int>> launches;
    for (int n = 0; n < 4; ++n) {
        slots.push_back(arena(n * 200, 64)), slots.push_back(arena(n * 200 + 100, 64));
        launches.emplace_back(2 * n, 2 * n + 1);
    }
    const auto p = plan_of(slots, launches);
    EXPECT_EQ(ordered(p, 1000), (Ordered{{0, 1, 2, 3}, {false, false, false, false}}));
    // Too large for more than two at a time: the third starts from the beginning again.
    EXPECT_EQ(ordered(p, std::int64_t{32} << 20),
              (Ordered{{0, 1, 2, 3}, {false, false, true, false}}));
    EXPECT_EQ(ordered(p, std::int64_t{80} << 20),
              (Ordered{{0, 1, 2, 3}, {false, true, true, true}}));
}

}  // namespace
}  // namespace pippin::gpu_test
