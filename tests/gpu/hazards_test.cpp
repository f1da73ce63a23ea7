// Which dispatches wait: for what they read or write over, and for nothing else.
#include <gtest/gtest.h>

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

std::vector<bool> waits_of(const plan::Plan& p, std::int64_t scratch = 0) {
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
    gpu::find_waits(w, p);
    std::vector<bool> waits;
    for (const Step& s : w.steps)
        waits.push_back(s.dispatches[0].waits);
    return waits;
}

Slot arena(std::int64_t offset, std::int64_t bytes) {
    return {Slot::Where::Arena, 0, offset, bytes};
}

TEST(Hazards, ReadersOfOneThingGoSideBySide) {
    const auto p = plan_of({arena(0, 64), arena(64, 64), arena(128, 64), arena(192, 64)},
                           {{0, 1}, {0, 2}, {1, 3}, {0, 2}});
    // The third reads what the first wrote; the last writes what nobody touched since that wait.
    EXPECT_EQ(waits_of(p), (std::vector<bool>{false, false, true, false}));
}

TEST(Hazards, WritingOverWhatIsReadOrWrittenWaits) {
    const auto p = plan_of({arena(0, 64), arena(64, 64), arena(32, 64)}, {{0, 1}, {1, 2}, {0, 2}});
    EXPECT_EQ(waits_of(p), (std::vector<bool>{false, true, true}));
    // Slots that share bytes of the arena, though not their first ones.
    const auto q =
        plan_of({arena(0, 64), arena(64, 64), arena(120, 64), arena(256, 8)}, {{0, 1}, {3, 2}});
    EXPECT_EQ(waits_of(q), (std::vector<bool>{false, true}));
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
    EXPECT_EQ(waits_of(p), (std::vector<bool>{false, false}));
    p.outputs[0].donated_input = 1;  // the first launch writes what the second reads
    EXPECT_EQ(waits_of(p), (std::vector<bool>{false, true}));
}

TEST(Hazards, ScratchIsSpreadWhileItIsSmall) {
    std::vector<Slot> slots;
    std::vector<std::pair<int, int>> launches;
    for (int n = 0; n < 4; ++n) {
        slots.push_back(arena(n * 200, 64)), slots.push_back(arena(n * 200 + 100, 64));
        launches.emplace_back(2 * n, 2 * n + 1);
    }
    const auto p = plan_of(slots, launches);
    EXPECT_EQ(waits_of(p, 1000), (std::vector<bool>{false, false, false, false}));
    // Too large for more than two at a time: the third starts from the beginning again.
    EXPECT_EQ(waits_of(p, std::int64_t{32} << 20), (std::vector<bool>{false, false, true, false}));
    EXPECT_EQ(waits_of(p, std::int64_t{80} << 20), (std::vector<bool>{false, true, true, true}));
}

}  // namespace
}  // namespace pippin::gpu_test
