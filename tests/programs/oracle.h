// An independent interpreter of fused programs: one point at a time in double and int64, with a
// bound on the error that float32 registers may have gathered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/program.h"

namespace pippin::programs {

/// A value and how far a correct executor may be from it.
struct Value {
    double f = 0;        ///< of floating registers
    std::int64_t i = 0;  ///< of integers and booleans
    double error = 0;    ///< of f; for integers 0, or infinity where a rounding may decide
};

using Buffer = std::vector<std::byte>;

/// What a store should leave in memory.
struct Expected {
    std::size_t access = 0;
    std::int64_t element = 0;
    DType dtype = DType::Float32;
    Value value;
};

/// Runs the program over the buffers, one per access, which stay as they are.
std::vector<Expected> interpret(const plan::Program& program, const std::vector<Buffer>& buffers,
                                const std::vector<std::uint64_t>& scalars);

double read_float(const Buffer& buffer, std::int64_t element, DType dtype);
std::int64_t read_int(const Buffer& buffer, std::int64_t element, DType dtype);
void write_value(Buffer& buffer, std::int64_t element, DType dtype, double value);

/// Empty where the element holds what was expected, else a description.
std::string compare(const Expected& expected, const Buffer& buffer);

std::uint32_t philox_word(std::uint64_t key, std::uint64_t stream, std::uint64_t index);

}  // namespace pippin::programs
