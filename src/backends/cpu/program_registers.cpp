// Where stores happen and where registers live.
#include <algorithm>
#include <map>

#include "backends/cpu/program_emit.h"

namespace pippin::cpu {
namespace {

// The last block step that reads memory of a view, or -1.
std::ptrdiff_t last_read(const BlockProgram& p, const Code& code, std::int32_t view) {
    const auto points = [&](std::int16_t slot) {
        const auto v = code.view_of_slot.find(slot);
        return v != code.view_of_slot.end() && v->second == view && code.slot(slot).element == 0;
    };
    // Reductions read their operands after the block.
    for (const auto& r : p.reductions)
        if (points(r.slot)) return static_cast<std::ptrdiff_t>(p.block.size());
    for (std::size_t n = p.block.size(); n-- > 0;) {
        const Step& s = p.block[n];
        if ((s.kind == Step::Kind::Gather && s.aux == view) || points(s.a) || points(s.b) ||
            points(s.c))
            return static_cast<std::ptrdiff_t>(n);
    }
    return -1;
}

std::size_t bytes_of(const BlockProgram& p, const Slot& s) {
    const std::int64_t rows = p.tile ? p.block_rows : 1;
    std::int64_t n = 1;
    if (s.count == Count::Rows) n = rows;
    if (s.count == Count::Columns) n = p.tile ? p.block_columns : p.columns;
    if (s.count == Count::Full) n = rows * p.block_columns;
    // some room behind, and no two registers at the same place of a page
    return (static_cast<std::size_t>(n) * s.element + 63) / 64 * 64 + 64;
}

// Hands out scratch memory, and again what has become free.
class Scratch {
  public:
    std::size_t take(std::size_t bytes) {
        auto& list = free_[bytes];
        if (list.empty()) {
            top_ += bytes;
            return top_ - bytes;
        }
        const std::size_t offset = list.back();
        list.pop_back();
        return offset;
    }
    void give(std::size_t bytes, std::size_t offset) { free_[bytes].push_back(offset); }
    std::size_t top() const { return top_; }

  private:
    std::size_t top_ = 0;
    std::map<std::size_t, std::vector<std::size_t>> free_;
};

// Element by element a result may take its operand's place.
bool works_in_place(const Code& code, const Step& s) {
    if (s.kind != Step::Kind::Call) return false;
    const Slot& out = code.slot(s.out);
    for (const std::int16_t operand : {s.a, s.b, s.c}) {
        const Slot& in = code.slot(operand);
        if (in.is_register() && (in.count != out.count || in.element != out.element)) return false;
    }
    return true;
}

}  // namespace

void place_stores(BlockProgram& p, Code& code, const Part& part) {
    std::vector<std::vector<Step>> after(p.block.size() + 1);
    for (const PendingStore& s : code.stores) {
        const std::int32_t shared = part.views[static_cast<std::size_t>(s.view)].alias_of;
        const std::ptrdiff_t read = shared < 0 ? -1 : last_read(p, code, shared);
        const auto defined = static_cast<std::ptrdiff_t>(s.defined);
        Slot* direct = s.direct_slot < 0 ? nullptr : &code.slot(s.direct_slot);
        if (direct && read <= defined) {
            p.block_direct.push_back(
                {s.direct_slot, s.view, static_cast<std::uint8_t>(direct->element), direct->count});
            direct->element = 0;
            continue;
        }
        auto& list =
            p.block.empty() ? after[0] : after[static_cast<std::size_t>(std::max(read, defined))];
        if (!direct) {
            list.insert(list.end(), s.steps.begin(), s.steps.begin() + s.count);
            continue;
        }
        // The buffer is still read when the value is there: copied to it later.
        const DType t = part.views[static_cast<std::size_t>(s.view)].dtype;
        code.slots.push_back({0, direct->count, true});
        Step copy;
        copy.function = find_convert(t, t);
        copy.count = code.slots.back().count;
        copy.a = s.direct_slot;
        copy.out = static_cast<std::int16_t>(code.slots.size() - 1);
        p.block_direct.push_back(
            {copy.out, s.view, static_cast<std::uint8_t>(size_of(t)), copy.count});
        list.push_back(copy);
    }
    std::vector<Step> ordered;
    for (std::size_t n = 0; n < p.block.size(); ++n) {
        ordered.push_back(p.block[n]);
        ordered.insert(ordered.end(), after[n].begin(), after[n].end());
    }
    const auto& last = after[p.block.size()];
    ordered.insert(ordered.end(), last.begin(), last.end());
    p.block = std::move(ordered);
}

void allocate_registers(BlockProgram& p, const Code& code) {
    const std::size_t n = code.slots.size();
    const auto at = [](std::int16_t s) { return static_cast<std::size_t>(s); };
    p.slot_offsets.assign(n, BlockProgram::kNowhere);
    Scratch scratch;
    for (std::size_t s = 0; s < n; ++s)
        if (code.slots[s].element != 0 && code.slots[s].persistent)
            p.slot_offsets[s] = scratch.take(bytes_of(p, code.slots[s]));
    p.column_bytes = 0;
    for (const Slot& s : code.slots)
        if (s.element != 0 && s.count == Count::Columns) p.column_bytes += bytes_of(p, s);

    std::vector<std::size_t> last(n, 0);
    for (std::size_t k = 0; k < p.block.size(); ++k)
        for (const std::int16_t slot : {p.block[k].out, p.block[k].a, p.block[k].b, p.block[k].c})
            last[at(slot)] = k;
    for (const auto& r : p.reductions)
        last[at(r.slot)] = p.block.size();

    for (std::size_t k = 0; k < p.block.size(); ++k) {
        const Step& s = p.block[k];
        const auto take = [&](std::int16_t slot) {
            if (code.slot(slot).is_register() && p.slot_offsets[at(slot)] == BlockProgram::kNowhere)
                p.slot_offsets[at(slot)] = scratch.take(bytes_of(p, code.slot(slot)));
        };
        const auto release = [&](bool outputs) {
            std::array<std::int16_t, 4> slots{s.out, s.a, s.b, s.c};
            for (std::size_t i = 0; i < 4; ++i) {
                const std::int16_t slot = slots[i];
                const bool again =
                    std::find(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(i),
                              slot) != slots.begin() + static_cast<std::ptrdiff_t>(i);
                if (again || (slot == s.out) != outputs) continue;
                if (code.slot(slot).is_register() && last[at(slot)] == k)
                    scratch.give(bytes_of(p, code.slot(slot)), p.slot_offsets[at(slot)]);
            }
        };
        const bool in_place = works_in_place(code, s);
        if (in_place) release(false);
        take(s.out);
        if (s.kind == Step::Kind::ReduceRows) take(s.b);
        if (!in_place) release(false);
        release(true);
    }
    p.scratch_bytes = scratch.top() + 64;
}

}  // namespace pippin::cpu
