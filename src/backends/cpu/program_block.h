// A part compiled to steps over blocks. A register is a block of elements in scratch memory that
// stays in the first-level cache, or simply a place in an operand's buffer; a step is one vector
// loop.
//
// A block is either whole rows (tile) or a piece of one row (line). Values that do not vary over
// the whole block are computed once where they do: for the run, for the base, for the row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/program_functions.h"
#include "backends/cpu/program_part.h"

namespace pippin::cpu {

/// How many elements a step handles, as an index of Frame's counts.
enum class Count : std::uint8_t { One, Rows, Columns, Full };

struct Step {
    enum class Kind : std::uint8_t {
        Call,        ///< function(out, a, b, c, count)
        Gather,      ///< view `aux` to register out, by copy()
        Scatter,     ///< register a to view `aux`, by copy()
        Iota,        ///< points of view `aux`
        IotaStart,   ///< the block's first point of view `aux`
        ExpandRows,  ///< one value a row to the whole block, by copy()
        ExpandColumns,
        ReduceRows,  ///< by `reducer`; b: room for the companion
        Check        ///< register a, for check `aux`
    };
    Kind kind = Kind::Call;
    Count count = Count::Full;
    std::int16_t out = 0, a = 0, b = 0, c = 0;  ///< slots
    std::int32_t aux = -1;
    Fn function = nullptr;
    Copy2 copy = nullptr;
    const Reducer* reducer = nullptr;
};

/// A slot that points straight into a view's buffer.
struct Direct {
    std::int16_t slot = 0;
    std::int32_t view = 0;
    std::uint8_t element = 4;  ///< bytes
    Count count = Count::Full;
};

struct BlockProgram {
    /// With columns unknown until the run for a batched program.
    BlockProgram() = default;
    BlockProgram(const Part& part, bool batched);

    // geometry
    bool tile = false;
    bool dynamic = false;  ///< columns are known at run time only
    std::int64_t row_count = 1;
    std::int64_t columns = 1;
    std::int64_t block_rows = 1;     ///< of a tile
    std::int64_t block_columns = 1;  ///< of a line; of a tile the most columns there can be
    Extents rows;
    struct ViewInfo {
        std::vector<std::int64_t> row;  ///< strides in elements
        std::int64_t column = 0, offset = 0;
        std::int64_t linear = 0;  ///< the stride of the row number, where is_linear
        bool is_linear = true;
        std::uint8_t element = 4;
    };
    std::vector<ViewInfo> views;
    bool needs_runs = false;  ///< some strided view is not linear in the row number

    // code
    std::vector<Step> once, setup, row, block;
    std::vector<Direct> setup_direct, row_direct, block_direct;
    /// The piece of a column value, computed for all columns, that a line's block needs.
    struct Window {
        std::int16_t slot, from;
        std::uint8_t element;
    };
    std::vector<Window> windows;
    struct Constant {
        std::int16_t slot;
        std::uint64_t bits;
    };
    std::vector<Constant> constants;
    struct Argument {
        std::int16_t slot;
        Reg type;
        bool key;  ///< two arguments as they are
        std::int32_t index;
    };
    std::vector<Argument> arguments;
    struct Check {
        Reg type;
        std::int32_t name;  ///< of Program::index_ops
        std::int64_t low, high, also;
    };
    std::vector<Check> checks;
    struct Reduction {
        std::int32_t instr;
        std::int16_t slot;
        const Reducer* reducer;
        std::int32_t mean_of = -1;  ///< a sum that follows from the mean beside that M2, or -1
    };
    std::vector<Reduction> reductions;  ///< of kinds All and Columns: what the caller reduces

    std::vector<std::size_t> slot_offsets;  ///< into scratch; kNowhere for pointers
    std::size_t scratch_bytes = 0;
    std::size_t column_bytes = 0;  ///< of these, what holds one value a column
    std::int64_t cost =
        0;  ///< of an element, in eighths of what threads.h calls an element operation
    std::int64_t work(std::int64_t elements) const { return elements * cost / 8 + 1; }
    static constexpr std::size_t kNowhere = ~std::size_t{0};

    /// Blocks of a space with that many columns.
    std::int64_t unit_count(std::int64_t columns_now) const;
    /// Elements of the pieces that a line's rows are cut into.
    std::int64_t piece(std::int64_t columns_now) const;
};

/// A value that CheckIndex found outside of its range.
struct BadIndex {
    bool found = false;
    std::int32_t name = -1;
    std::int64_t value = 0, low = 0, high = 0;
};

/// One thread's state while it runs a block program. It uses the thread's scratch memory: one at a
/// time.
class Frame {
  public:
    Frame(const BlockProgram& program, std::span<const std::uint64_t> scalars);
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

    /// Where the views start from now on, and how many columns there are. `moved`: by how many
    /// elements the base dims have moved each view already, which Iota must know; it has to live
    /// on.
    void bind(void* const* pointers, std::int64_t columns, const std::int64_t* moved = nullptr);
    /// Runs one block.
    void run(std::int64_t unit);
    /// From now on memory of the next block is asked for early: worth it beyond the caches.
    void look_ahead() { ahead_ = true; }

    std::int64_t rows() const { return count_[1]; }
    std::int64_t elements() const { return count_[3]; }
    std::int64_t first_row() const { return row_; }
    /// Number of the block's first element in the space.
    std::int64_t position() const { return row_ * columns_ + column_; }
    const void* slot(std::int16_t s) const { return reg_[s]; }
    const BadIndex& bad() const { return bad_; }

  private:
    struct Piece {
        std::int64_t first, count;
        std::array<std::int64_t, 8> at;
    };

    void prefetch() const;
    void execute(const std::vector<Step>& steps);
    void execute_other(const Step& step);
    void copy_view(const Step& step, void* dense, bool gather);
    void find_runs();
    std::int64_t offset_of(std::int32_t view, const std::array<std::int64_t, 8>& at) const;

    const BlockProgram& p_;
    std::byte* scratch_;
    void** reg_;
    std::byte** base_;
    std::int64_t* row_offset_;
    Piece* runs_;
    const std::int64_t* moved_ = nullptr;
    bool ahead_ = false;
    std::int64_t run_count_ = 0;
    std::int64_t count_[4] = {1, 1, 1, 1};
    std::int64_t columns_ = 1, row_ = 0, column_ = 0, bound_row_ = -1, pieces_ = 1, piece_ = 1;
    BadIndex bad_;
};

}  // namespace pippin::cpu
