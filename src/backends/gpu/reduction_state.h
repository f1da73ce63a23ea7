// What a reduction carries while it goes on: one or more numbers, how a value joins them, and how
// two parts become one. All merging is in a fixed order, so that results never change.
#pragma once

#include <string>
#include <vector>

#include "plan/program.h"

namespace pippin::gpu {

class ReductionState {
  public:
    /// `operand`: register type of what is reduced. `wide`: positions need 64 bits.
    ReductionState(const plan::Instr& i, DType operand, bool wide);

    struct Part {
        std::string type;     ///< in registers and shared memory: float, int or I64
        std::string initial;  ///< of nothing
    };
    std::vector<Part> parts;

    /// Whether values are better summed in blocks first.
    bool in_blocks() const;
    /// What values are converted to before they join.
    DType operand_type() const { return from_; }
    /// Two values as one; empty where a state takes one at a time.
    std::string combine(const std::string& a, const std::string& b) const;
    /// Statements: x (of operand_type()) at `position` joins the state whose parts are a[0]...
    std::string add(const std::vector<std::string>& a, const std::string& x,
                    const std::string& position) const;
    /// Statements: state b joins state a, which holds earlier values.
    std::string merge(const std::vector<std::string>& a, const std::vector<std::string>& b) const;
    /// The result, of the instruction's type.
    std::string result(const std::vector<std::string>& a) const;

  private:
    plan::Opcode op_;
    DType type_, from_;
    bool wide_;
};

}  // namespace pippin::gpu
