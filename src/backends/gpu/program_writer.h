// What the writers of maps and of reductions have in common: one kernel being written, its
// arguments, and instructions over one or several points a thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/gpu/expression.h"
#include "backends/gpu/work.h"

namespace pippin::gpu {

/// Points, or elements of an access' buffer, that 32 bits cannot count.
bool needs_wide_indices(const plan::Program& p);

class ProgramWriter {
  public:
    ProgramWriter(Work& work, const plan::Program& program, std::string name);

    KernelSource kernel;
    std::vector<Arg> args;
    std::string head;  ///< statements before the body: arguments

    /// An argument, the same one for equal ones; its text.
    std::string arg(const Arg& a);
    /// The name of an address that arg() gives.
    std::string address(const Arg& a);

    const plan::Program& program() const { return p_; }
    const char* index_type() const { return wide_ ? "I64" : "int"; }
    /// For non-negative indices that are divided.
    const char* linear_type() const { return wide_ ? "I64" : "uint"; }
    std::string index_constant(std::int64_t v) const;

    /// Which of the dims [begin, end) a linear index is made of: statements that define
    /// <prefix><dim> for each.
    std::string coordinates(const std::string& linear, int begin, int end,
                            const std::string& prefix) const;
    /// Sum of strides times coordinates over dims [begin, end); "0" where no stride counts.
    std::string offset(const plan::Access& a, int begin, int end, const std::string& prefix) const;

    /// Steps backwards start from the far end, so that no index is negative (NVIDIA's driver takes
    /// indices for unsigned): what is added to an access' index, and the element its address is of.
    std::int64_t shift(const plan::Access& a) const;
    std::int64_t first_element(const plan::Access& a) const { return a.offset - shift(a); }

    /// How an instruction finds its operands and its memory at one point.
    struct Point {
        std::string suffix;              ///< of the names of full values
        std::vector<std::string> index;  ///< of each access; made by the form's writer
        std::string ok;                  ///< condition under which stores happen; empty: always
    };
    /// The text of a value.
    std::string value(std::int32_t instr, const Point& at) const;
    DType value_type(std::int32_t instr) const;
    /// Statements of an instruction at a point. Stores included.
    std::string statement(std::int32_t instr, const Point& at);
    /// The address of an access' memory: its offset is in it.
    virtual std::string pointer(std::int32_t access) = 0;
    virtual ~ProgramWriter() = default;

    /// Adds the kernel and a dispatch of it.
    void finish(Step& step, std::int64_t groups);

  protected:
    Work& work_;
    const plan::Program& p_;
    bool wide_;
    std::vector<char> exact_;  // instructions whose rounding counts

  private:
    std::string check(const plan::Instr& i, const std::string& v);
    std::map<std::string, int> known_;  // arguments by what they are
};

}  // namespace pippin::gpu
