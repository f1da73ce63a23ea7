// The vector functions that block programs are made of. One call handles a block of elements; the
// finders give a function's address for this processor's instruction set, or null where there is
// none.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pippin/dtype.h"
#include "plan/program.h"

namespace pippin::cpu {

/// Element types that blocks in registers have.
enum class Reg : std::uint8_t { Bool, Int32, Int64, Float32, Float64 };

constexpr std::size_t size_of(Reg r) {
    constexpr std::size_t sizes[] = {1, 4, 8, 4, 8};
    return sizes[static_cast<int>(r)];
}

/// uint8 is computed in 32 bits, half types in float32.
constexpr Reg reg_of(DType t) {
    constexpr Reg regs[] = {Reg::Bool,    Reg::Int32,   Reg::Int32,   Reg::Int64,
                            Reg::Float32, Reg::Float32, Reg::Float32, Reg::Float64};
    return regs[static_cast<int>(t)];
}
constexpr DType dtype_of(Reg r) {
    constexpr DType types[] = {DType::Bool, DType::Int32, DType::Int64, DType::Float32,
                               DType::Float64};
    return types[static_cast<int>(r)];
}

/// out[i] = f(a[i], b[i], c[i]) for i < n, n > 0. Operands a function does not have may be null
/// only where it has fewer; `out` may equal an operand of the same element size.
using Fn = void (*)(void* out, const void* a, const void* b, const void* c, std::size_t n);

/// Operations that lowering adds to the IR's.
enum class Extra : std::uint8_t {
    PowHalf,  ///< pow(a, 0.5) with C's special cases
    Cube,     ///< a * a * a
};

/// `type` is the operands' type (of b and c for Select). Bits of `scalars` say which operands are
/// one value for the whole block; not every combination exists.
Fn find_float32(plan::Opcode op, unsigned scalars);
Fn find_other(plan::Opcode op, Reg type, unsigned scalars);
Fn find_extra(Extra op, Reg type);
inline Fn find_function(plan::Opcode op, Reg type, unsigned scalars) {
    Fn f = type == Reg::Float32 ? find_float32(op, scalars) : nullptr;
    return f ? f : find_other(op, type, scalars);
}

/// out[i] = a[i] converted between any two element types in memory, by PyTorch's rules.
Fn find_convert(DType from, DType to);
/// A register's values rounded to `to` (UInt8, Float16, BFloat16) and kept in its register type.
Fn find_round(DType from, DType to);
/// out[i] = *a
Fn find_splat(std::size_t element_size);

/// RandomBits (to int64) and RandomUniform (to float32) of the counters a[i]; b: {key, stream}.
/// `consecutive`: a is one value, and element i's counter is *a + i.
Fn find_random(bool uniform, bool consecutive);
/// float32 of random bits: (a >> 8) * 2^-24.
Fn find_uniform_of_bits();

/// A strided rows x columns copy of elements; strides count elements.
struct Strides2 {
    std::ptrdiff_t row, column;
};
using Copy2 = void (*)(void* out, Strides2 to, const void* in, Strides2 from, std::size_t rows,
                       std::size_t columns);
Copy2 find_copy(std::size_t element_size);

/// out[r * columns + c] = start + r * step.row + c * step.column
void iota2(std::int64_t* out, std::int64_t start, Strides2 step, std::size_t rows,
           std::size_t columns);

/// Reductions. A partial result of n columns is two arrays: the result itself (sum, product,
/// extremum, sum of squared deviations, position) and, for M2 and the Arg kinds, a companion (mean,
/// extremum).
struct Reducer {
    Reg result, companion;
    bool has_companion;
    /// The identity.
    void (*init)(void* result, void* companion, std::size_t n);
    /// Each row of `in` (rows x columns, dense) to one result; positions count from `position`.
    void (*rows)(void* result, void* companion, const void* in, std::size_t rows,
                 std::size_t columns, std::int64_t position);
    /// Each column of `in` to one result; positions are row numbers from `position`.
    void (*columns)(void* result, void* companion, const void* in, std::size_t rows,
                    std::size_t columns, std::int64_t position);
    /// Adds the partial results of `count2` elements, later in order, to those of `count`.
    void (*merge)(void* result, void* companion, const void* result2, const void* companion2,
                  std::size_t n, std::int64_t count, std::int64_t count2);
};
/// Null for types the reduction does not exist for.
const Reducer* find_reducer(plan::Opcode op, Reg type);

/// First i with a value outside [low, high) that is not `also`, or -1.
std::int64_t find_outside(const void* a, Reg type, std::size_t n, std::int64_t low,
                          std::int64_t high, std::int64_t also);

}  // namespace pippin::cpu
