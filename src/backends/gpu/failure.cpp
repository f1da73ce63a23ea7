#include "backends/gpu/failure.h"

#include <algorithm>

namespace pippin::gpu {

Aftermath::Aftermath(const plan::Plan& plan) {
    // Outputs that take over an input's buffer are that input's memory.
    std::vector<char> lasting;
    for (const plan::Slot& s : plan.slots) {
        const bool input = s.where == plan::Slot::Where::Input;
        lasting.push_back(input);
        inputs_.push_back(input ? s.index : -1);
    }
    for (const plan::OutputInfo& o : plan.outputs)
        if (o.donated_input >= 0 && o.slot >= 0) lasting[static_cast<std::size_t>(o.slot)] = 1;
    for (const plan::Launch& l : plan.launches) {
        Touched t;
        if (l.heavy) {
            for (const plan::Operand& o : l.heavy->operands)
                t.reads.push_back(o.slot);
            t.writes.push_back(l.heavy->output.slot);
        } else {
            const auto& accesses = l.program->program.accesses;
            for (const plan::Segment& s : l.program->segments)
                for (std::size_t k = 0; k < s.slots.size(); ++k)
                    if (s.slots[k] >= 0)
                        (accesses[k].writes ? t.writes : t.reads).push_back(s.slots[k]);
        }
        t.lasting = std::any_of(t.writes.begin(), t.writes.end(), [&](std::int32_t s) {
            return lasting[static_cast<std::size_t>(s)];
        });
        launches_.push_back(std::move(t));
    }
}

std::vector<runtime::LaunchState> Aftermath::states(const std::vector<std::int32_t>& failed,
                                                    bool stopped) const {
    using runtime::LaunchState;
    std::vector<LaunchState> out(launches_.size(), LaunchState::Done);
    std::vector<char> lost(inputs_.size(), 0);
    for (auto n = static_cast<std::size_t>(failed.at(0)); n < launches_.size(); ++n) {
        const Touched& t = launches_[n];
        const bool is_first = n == static_cast<std::size_t>(failed[0]);
        // Bad indices of what read garbage are no failures of their own.
        if (!is_first && (stopped || t.lasting ||
                          std::any_of(t.reads.begin(), t.reads.end(), [&](std::int32_t s) {
                              return lost[static_cast<std::size_t>(s)];
                          })))
            out[n] = LaunchState::Skipped;
        else if (std::find(failed.begin(), failed.end(), static_cast<std::int32_t>(n)) !=
                 failed.end())
            out[n] = LaunchState::Failed;
        for (const std::int32_t s : t.writes)
            lost[static_cast<std::size_t>(s)] = out[n] != LaunchState::Done;
    }
    return out;
}

std::vector<runtime::LaunchState> Aftermath::without(
    const std::vector<std::int32_t>& inputs) const {
    using runtime::LaunchState;
    std::vector<char> lost;
    for (const std::int32_t i : inputs_)
        lost.push_back(i >= 0 && std::find(inputs.begin(), inputs.end(), i) != inputs.end());
    std::vector<LaunchState> out;
    for (const Touched& t : launches_) {
        out.push_back(std::any_of(t.reads.begin(), t.reads.end(),
                                  [&](std::int32_t s) { return lost[static_cast<std::size_t>(s)]; })
                          ? LaunchState::Failed
                          : LaunchState::Done);
        for (const std::int32_t s : t.writes)
            lost[static_cast<std::size_t>(s)] = out.back() != LaunchState::Done;
    }
    return out;
}

}  // namespace pippin::gpu
