// The text that explain() gives.
#include <fmt/format.h>

#include "plan/describe.h"
#include "plan/plan.h"

namespace pippin::plan {

namespace {

std::string size_text(std::int64_t bytes) {
    if (bytes < 10 << 10) return fmt::format("{} B", bytes);
    if (bytes < 10 << 20) return fmt::format("{:.1f} KiB", double(bytes) / (1 << 10));
    return fmt::format("{:.1f} MiB", double(bytes) / (1 << 20));
}

std::string place_text(const Plan& p, std::int32_t slot) {
    if (slot < 0) return "-";
    const Slot& s = p.slots[static_cast<std::size_t>(slot)];
    switch (s.where) {
        case Slot::Where::Input:
            return fmt::format("in{}", s.index);
        case Slot::Where::Output:
            return fmt::format("out{}", s.index);
        case Slot::Where::Arena:
            break;
    }
    return fmt::format("@{}", s.offset);
}

}  // namespace

std::string Plan::str() const {
    std::int64_t moved = 0;
    std::string lines;
    int number = 0;
    for (auto& l : launches) {
        std::string places, kind;
        if (l.heavy) {
            for (auto& o : l.heavy->operands)
                places += (places.empty() ? "" : " ") + place_text(*this, o.slot);
            places += " -> " + place_text(*this, l.heavy->output.slot);
            kind = l.heavy->output.shape.str();
        } else {
            const Program& p = l.program->program;
            std::string out;
            for (std::size_t a = 0; a < p.accesses.size(); ++a) {
                std::string& to = p.accesses[a].writes ? out : places;
                to += (to.empty() ? "" : " ") + place_text(*this, l.program->segments[0].slots[a]);
            }
            places += " -> " + out;
            kind = form_text(p);
            if (l.program->segments.size() > 1)
                kind += fmt::format(" and {} more", l.program->segments.size() - 1);
        }
        lines += fmt::format("{:4}  {:10}  {}  {}  {}\n", number++, size_text(l.bytes_moved),
                             l.name, kind, places);
        moved += l.bytes_moved;
    }
    std::int64_t in_place = 0;
    for (auto& o : outputs)
        in_place += o.donated_input >= 0;
    return fmt::format(
        "plan: {} graph nodes in {} launches, {} moved, arena {}, {} inputs, {} outputs ({} in "
        "place)\n{}",
        nodes, launches.size(), size_text(moved), size_text(arena_bytes), num_inputs,
        outputs.size(), in_place, lines);
}

}  // namespace pippin::plan
