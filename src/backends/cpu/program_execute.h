// How the parts of a program are spread over threads and merged.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/cpu/program_block.h"
#include "backends/cpu/program_kernel.h"

namespace pippin::cpu {

using Scalars = std::span<const std::uint64_t>;

/// The first bad index, in the order of the space, of what the threads found.
BadIndex first_bad(const std::vector<BadIndex>& found);

/// A part without reductions, or one that reduces its rows within blocks.
BadIndex run_blocks(const BlockProgram& program, std::span<const ProgramKernel::Run> runs,
                    Scalars scalars);

/// Where a part's views start at one point of its base dims.
struct Bases {
    std::vector<void*> pointers;
    std::vector<std::int64_t> moved;
    /// `first_column`: of the columns that are looked at. Pointers of results stay null.
    void move_to(const Part& part, std::size_t accesses, void* const* start, std::int64_t point,
                 std::int64_t first_column);
};

/// Results of reductions and what goes with them, for every kept point.
class Results {
  public:
    Results(const Parts& parts, const std::vector<plan::Instr>& body);
    void* data(std::size_t reduction) { return arrays_[reduction].data(); }
    std::size_t element(std::size_t reduction) const { return size_of(types_[reduction]); }
    DType type(std::size_t reduction) const { return types_[reduction]; }
    std::size_t count() const { return types_.size(); }
    /// Which reduction an instruction is.
    std::size_t find(std::int32_t instr) const;

  private:
    std::vector<std::int32_t> instrs_;
    std::vector<DType> types_;
    std::vector<std::vector<std::byte>> arrays_;
};

/// Reductions of rows that are longer than a block: one stage of all rows after another.
BadIndex run_rows(const std::vector<Part>& stages, const std::vector<BlockProgram>& programs,
                  Results& results, void* const* pointers, Scalars scalars);

/// Reductions of columns.
BadIndex run_columns(const Part& part, const BlockProgram& program, Results& results,
                     void* const* pointers, Scalars scalars);

/// Partial results of some reductions, merged pairwise in order, like the digits of a binary
/// counter: accurate, and the same whoever computes them.
class Partials {
  public:
    /// For n values of each reduction.
    Partials(const std::vector<BlockProgram::Reduction>& reductions, std::size_t n);
    /// Where the next partial result goes; push() takes it as that of `count` elements.
    void* result(std::size_t reduction) { return at(reduction, depth_, false); }
    void* companion(std::size_t reduction) { return at(reduction, depth_, true); }
    void push(std::int64_t count);
    /// Merges what is left; the total is the identity when nothing was pushed.
    void finish();
    /// A finished total for another object of as many values, which push() takes as a partial
    /// result.
    std::size_t saved_bytes() const { return level_bytes_; }
    void save(std::byte* to);
    void push(const std::byte* saved, std::int64_t count);
    /// Writes the n totals of a reduction.
    void write(std::size_t reduction, void* to, DType type);
    /// Starts again with another number of values, at most the first one.
    void reset(std::size_t n);

  private:
    static constexpr std::size_t kLevels = 48;
    void* at(std::size_t reduction, std::size_t level, bool companion);
    std::int64_t total() const { return depth_ ? counts_[0] : 0; }
    void merge_top();

    const std::vector<BlockProgram::Reduction>& reductions_;
    std::size_t n_, most_;
    std::size_t depth_ = 0;
    std::vector<std::size_t> offsets_;
    std::size_t level_bytes_ = 0;
    std::array<std::int64_t, kLevels> counts_{};
    std::array<std::uint64_t, kLevels> ranks_{};
    std::vector<std::vector<std::uint64_t>> levels_;
};

}  // namespace pippin::cpu
