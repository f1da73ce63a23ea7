// Compiling a part to a block program, with blocks as large as the cache allows.
#include <algorithm>

#include "backends/cpu/program_emit.h"

namespace pippin::cpu {
namespace {

constexpr std::size_t kScratchGoal = 28 * 1024;  // leaves room in a 48 or 32 KiB cache for operands
constexpr std::int64_t kMostElements = 1024, kFewestElements = 256;
constexpr std::int64_t kMostReduced = 4096;  // where a block's results are merged afterwards

}  // namespace

BlockProgram::BlockProgram(const Part& part, bool batched) {
    std::int64_t elements = kMostElements;
    if (part.reduce == Part::Reduce::Rows) elements = std::max(elements, part.columns);
    if (part.reduce == Part::Reduce::Columns) elements = kMostReduced;
    for (;;) {
        BlockProgram compiled;
        const Values values(compiled, part, batched, elements);
        Code code = emit(compiled, values);
        place_stores(compiled, code, part);
        allocate_registers(compiled, code);
        const bool fits = compiled.scratch_bytes - compiled.column_bytes <= kScratchGoal;
        const bool fixed = compiled.tile && compiled.block_rows == 1;
        if (fits || fixed || elements <= kFewestElements) {
            *this = std::move(compiled);
            return;
        }
        elements /= 2;
    }
}

}  // namespace pippin::cpu
