// From values to steps, and from steps to places in scratch memory.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "backends/cpu/program_block.h"
#include "backends/cpu/program_values.h"

namespace pippin::cpu {

/// A register of a block program, or a pointer into a buffer.
struct Slot {
    std::size_t element = 0;  ///< bytes of an element; 0: a pointer
    Count count = Count::One;
    bool persistent = true;  ///< holds its value from block to block
    bool is_register() const { return element != 0 && !persistent; }
};

/// A store whose place among the steps is still to be found.
struct PendingStore {
    std::int32_t view = -1;
    std::size_t defined = 0;        ///< block step that computes the value
    std::int16_t direct_slot = -1;  ///< the register that could be the buffer itself, or -1
    std::array<Step, 2> steps{};    ///< else: what to do once the value is there
    std::ptrdiff_t count = 0;
    void add(const Step& s) { steps[static_cast<std::size_t>(count++)] = s; }
};

struct Code {
    std::vector<Slot> slots;
    std::vector<PendingStore> stores;
    std::map<std::int16_t, std::int32_t> view_of_slot;  ///< of pointers and gathered registers
    Slot& slot(std::int16_t s) { return slots[static_cast<std::size_t>(s)]; }
    const Slot& slot(std::int16_t s) const { return slots[static_cast<std::size_t>(s)]; }
};

/// Makes the steps, but for those of stores.
Code emit(BlockProgram& program, const Values& values);
/// Puts the stores in, after every read of memory that they share.
void place_stores(BlockProgram& program, Code& code, const Part& part);
/// Gives each slot its place in scratch memory.
void allocate_registers(BlockProgram& program, const Code& code);

}  // namespace pippin::cpu
