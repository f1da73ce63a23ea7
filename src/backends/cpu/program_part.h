// A program is run as one or more parts. A part is code over a space of rows x columns, inside a
// loop over base dims, in which dims that every access allows have been merged.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/program.h"

namespace pippin::cpu {

using Extents = std::vector<std::int64_t>;

std::int64_t count_of(const Extents& extents);

/// How a part's accesses lie over its dims; strides and offset count elements.
struct View {
    DType dtype = DType::Float32;
    std::int64_t offset = 0;
    Extents base, row;           ///< strides of the base dims and of the row dims
    std::int64_t column = 0;     ///< stride of the columns
    std::int32_t alias_of = -1;  ///< the loaded view whose memory this store may share
    bool operator==(const View&) const = default;
};

struct Part {
    enum class Reduce {
        None,
        Rows,    ///< each row to one value that later instructions use
        All,     ///< all rows and columns to one value
        Columns  ///< each column to one value
    };
    Reduce reduce = Reduce::None;
    Extents base, rows;
    std::int64_t columns = 1;
    std::vector<View> views;  ///< the program's accesses, then one for each reduction of it
    std::vector<plan::Instr> body;
    std::vector<bool> roots;  ///< instructions that are wanted for their effect
    std::int64_t row_count() const { return count_of(rows); }
};

/// A program as parts.
struct Parts {
    std::vector<Part> stages;  ///< over the whole space; one, except for long reductions
    std::vector<Part> finish;  ///< none or one: what is done with the results of reductions
    std::vector<std::int32_t>
        reductions;         ///< instruction numbers; results are views after the accesses
    std::int64_t kept = 1;  ///< number of results of each reduction
};

/// Rows up to this length are reduced within one block.
inline constexpr std::int64_t kLongestRow = 4096;

Parts split_program(const plan::Program& program);

}  // namespace pippin::cpu
