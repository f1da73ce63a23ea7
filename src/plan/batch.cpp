// Batching: equal programs over flat memory become one launch of many segments.
#include <algorithm>

#include "plan/lowering.h"

namespace pippin::plan {

namespace {

bool is_flat(const Program& p) {
    if (p.form != Form::Map || p.rank != 1 || !p.index_ops.empty()) return false;
    for (auto& a : p.accesses)
        if (a.offset != 0 || (a.strides[0] != 0 && a.strides[0] != 1)) return false;
    for (auto& i : p.body)
        if (i.op == Opcode::Iota) return false;
    return true;
}

bool same_program(const Program& a, const Program& b) {
    return a.body == b.body && a.accesses == b.accesses;
}

bool touches(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
    for (auto x : a)
        if (std::find(b.begin(), b.end(), x) != b.end()) return true;
    return false;
}

}  // namespace

void batch(const Lowering& l, std::vector<Draft>& drafts) {
    constexpr std::int64_t kSmall = 1 << 16;
    auto eligible = [&](const Draft& d) {
        if (!d.launch.program || !is_flat(d.launch.program->program)) return false;
        if (d.launch.program->program.extents[0] <= kSmall) return true;
        // Moving a large program later keeps its inputs alive longer: only where they live on
        // anyway.
        return std::all_of(d.writes.begin(), d.writes.end(), [&](auto w) { return l[w].target; });
    };
    std::vector<char> gone(drafts.size(), 0);
    for (std::size_t last = drafts.size(); last-- > 0;) {
        if (gone[last] || !eligible(drafts[last])) continue;
        Draft& d = drafts[last];
        std::vector<std::size_t> members;
        for (std::size_t i = last; i-- > 0;) {
            if (gone[i] || !eligible(drafts[i]) ||
                !same_program(drafts[i].launch.program->program, d.launch.program->program))
                continue;
            bool movable = true;
            for (std::size_t k = i + 1; k <= last && movable; ++k)
                movable = gone[k] || (!touches(drafts[i].writes, drafts[k].reads) &&
                                      !touches(drafts[i].writes, drafts[k].writes));
            if (movable) members.push_back(i);
        }
        if (members.empty()) continue;
        Segment& first = d.launch.program->segments[0];
        first.extent = d.launch.program->program.extents[0];
        std::reverse(members.begin(), members.end());
        for (auto i : members) {
            Draft& m = drafts[i];
            Segment s;
            s.extent = m.launch.program->program.extents[0];
            d.launch.program->segments.push_back(std::move(s));
            d.access_nodes.push_back(std::move(m.access_nodes[0]));
            d.reads.insert(d.reads.end(), m.reads.begin(), m.reads.end());
            d.writes.insert(d.writes.end(), m.writes.begin(), m.writes.end());
            d.launch.bytes_moved += m.launch.bytes_moved;
            d.launch.flops += m.launch.flops;
            gone[i] = 1;
        }
        d.launch.name += " x" + std::to_string(members.size() + 1);
    }
    std::vector<Draft> kept;
    for (std::size_t i = 0; i < drafts.size(); ++i)
        if (!gone[i]) kept.push_back(std::move(drafts[i]));
    drafts = std::move(kept);
}

}  // namespace pippin::plan
