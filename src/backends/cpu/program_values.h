// What is known of a part's values before any code is made.
#pragma once

#include <vector>

#include "backends/cpu/program_block.h"

namespace pippin::cpu {

/// Where a value varies: bits. In a tile of several rows a column value is the same for every row.
enum Class : std::uint8_t { kUniform = 0, kRow = 1, kColumn = 2, kFull = 3 };

class Values {
  public:
    /// Also decides the program's geometry, for blocks of about that many elements.
    Values(BlockProgram& program, const Part& part, bool batched, std::int64_t elements);

    static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
    static int operands(plan::Opcode op);
    /// Follows aliases: the instruction that makes the value.
    std::int32_t value(std::int32_t i) const;
    Reg type(std::int32_t i) const { return reg_of(body[at(value(i))].type); }
    std::uint8_t class_of(std::int32_t i) const { return classes[at(value(i))]; }

    const Part& part;
    std::vector<plan::Instr> body;  ///< rewritten
    bool one_row = true;            ///< a block is of one row: a row's value is a single one
    bool keeps_columns = false;     ///< values of columns alone are computed once, for all rows
    std::vector<bool> live;
    std::vector<std::uint8_t> classes;
    std::vector<bool> constants;      ///< depends on nothing but constants and run-time arguments
    std::vector<std::int32_t> alias;  ///< the value it merely passes on, or -1
    std::vector<int> extra;           ///< an Extra instead of the instruction's own code, or -1
    static constexpr int kInverseHalf = 100;  ///< in `extra`: the reciprocal of PowHalf

  private:
    void geometry();
    void views();
    void simplify();
    void constant_power(std::size_t n, double exponent);
    void find_live();
    std::uint8_t class_of_view(std::int32_t view) const;
    void classify();
    void fuse_multiply_add();

    BlockProgram& p_;
    std::int64_t elements;
    std::vector<int> uses;
};

}  // namespace pippin::cpu
