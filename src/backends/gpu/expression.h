// One instruction of a program as an expression of the subset.
#pragma once

#include <string>
#include <vector>

#include "backends/gpu/work.h"
#include "plan/program.h"

namespace pippin::gpu {

/// The type of registers that hold a dtype: UInt8 is Int32, halves are Float32.
DType register_type(DType t);
/// Its name in the subset.
const char* type_name(DType reg);
/// A register's constant.
std::string constant(DType reg, double value, std::int64_t integer);
inline std::string int_constant(std::int64_t v) { return constant(DType::Int64, 0, v); }
/// An element of memory as a register of its own type, and a register into memory.
std::string load(DType memory, const std::string& pointer, const std::string& index);
std::string store(DType memory, const std::string& pointer, const std::string& index,
                  const std::string& value);
/// A value of register type `from` as `to`, which may be UInt8 or a half: rounded, in its register.
std::string convert(const std::string& value, DType from, DType to);

/// Statements that report a bad index of check `number` (work.h).
std::string report_index(const std::string& error, const std::string& number,
                         const std::string& index);

/// Throws Error where a program uses what the device has not.
void check_types(const plan::Program& p, const Features& f);

/// An instruction other than Load, Store, Const, Scalar, Iota, RandomBits, CheckIndex and
/// reductions. `from` is the register type of operand a.
std::string expression(const plan::Instr& i, DType from, const std::string& a, const std::string& b,
                       const std::string& c);

}  // namespace pippin::gpu
