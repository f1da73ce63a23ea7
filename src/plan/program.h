// The program IR: elementwise code over an iteration space, which may reduce rows or columns of it
// and go on with the result. The CPU runs it in blocks; GPU writers turn it into kernel source.
//
// A program works on a space of `rank` dims, outermost first in memory order. Dims [0, split) are
// the outer part, [split, rank) the inner part.
//   Map        no reduction; split is rank.
//   RowReduce  inner dims are reduced: for each outer point a row of inner points.
//   ColReduce  outer dims are reduced: for each inner point a column.
// "Kept" is the outer part of a RowReduce and the inner part of a ColReduce.
//
// Instructions are in SSA form, in order of execution, and belong to a stage. A stage runs its kept
// instructions (one value per kept point), then its full instructions (one value per point of the
// space). A reduction instruction is full and its result is kept, usable from the next stage on. A
// full instruction may use kept values of its own or an earlier stage, and full values of any
// earlier one (a backend recomputes those or keeps them). A ColReduce has only full instructions in
// stage 0 and only kept ones in stage 1; a Map has one stage of full instructions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "pippin/dtype.h"

namespace pippin::plan {

enum class Opcode : std::uint8_t {
    // sources
    Load,    // access `aux`, converted from its dtype to `type`
    Const,   // imm (or int_imm for integer types)
    Scalar,  // run-time argument `aux` (bits of a double, or an int64 for integer types)
    Iota,    // int64: sum over dims of access `aux`'s strides times the point (no memory behind it)
    RandomBits,  // int64 in [0, 2^32): Philox 4x32-10, key = argument aux, counter = {a >> 2,
                 // argument
    // aux + 1} as four 32-bit words (low, high, low, high), output word a & 3; a: int64
    RandomUniform,  // float32: (RandomBits >> 8) * 2^-24
    // unary
    Neg,
    Abs,
    Sign,
    Exp,
    Log,
    Sqrt,
    Rsqrt,
    Reciprocal,
    Tanh,
    Sigmoid,
    Erf,
    Sin,
    Cos,
    Floor,
    Ceil,
    Round,
    Relu,  // NaN stays
    LogicalNot,
    IsNan,
    IsFinite,    // result Bool; the operand's type is `from`
    Cast,        // from `from` to `type`, PyTorch's rules; to a half type: rounds, stays a float32
                 // register
    CheckIndex,  // a itself; raises unless imm_range[0] <= a < imm_range[1] or a == int_imm
    // binary
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Remainder,
    Maximum,
    Minimum,
    Eq,
    Ne,
    Lt,
    Le,  // result Bool; the operands' type is `from`
    And,
    Or,
    Xor,  // integers and Bool
    // ternary
    Select,  // a (Bool) ? b : c
    Fma,     // a * b + c (may round twice)
    // reductions of a full value into a kept one
    ReduceSum,
    ReduceProd,
    ReduceMax,
    ReduceMin,
    ReduceM2,  // sum of squared deviations from the mean (Chan et al. 1979 when parts merge)
    ReduceArgMax,
    ReduceArgMin,  // int64: position along the reduced dims; first extremum, first NaN
    Store,         // register a into access `aux`, converted from `type`
};

/// Strided view of a buffer over the program's dims: element offset + sum strides[d] * point[d].
/// A kept access has stride 0 on reduced dims.
struct Access {
    DType dtype = DType::Float32;
    std::int64_t offset = 0;
    std::array<std::int64_t, 8> strides{};
    bool writes = false;
    /// A written access that may share memory with this loaded one, point for point (an update in
    /// place): the store of a point must come after every use of that load's value there. Else -1.
    std::int32_t alias_of = -1;
    bool operator==(const Access&) const = default;
};

struct Instr {
    Opcode op = Opcode::Const;
    /// Register type: Bool, Int32, Int64, Float32 or Float64. UInt8 is computed as Int32 and
    /// wrapped with an And; half types as Float32 (a Cast's `type` alone may name UInt8 or a half:
    /// round to it).
    DType type = DType::Float32;
    DType from = DType::Float32;
    bool kept =
        false;  ///< one value per kept point (reductions: false, though their result is kept)
    std::uint8_t stage = 0;
    std::int32_t a = -1, b = -1, c = -1;  ///< indices of the instructions whose values are used
    std::int32_t aux = -1;
    double imm = 0;
    std::int64_t int_imm = 0;
    std::array<std::int64_t, 2> imm_range{};
    bool operator==(const Instr&) const = default;
};

enum class Form : std::uint8_t { Map, RowReduce, ColReduce };

struct Program {
    Form form = Form::Map;
    int rank = 1, split = 1;
    std::array<std::int64_t, 8> extents{};
    std::vector<Access> accesses;
    std::vector<Instr> body;
    std::vector<std::string> index_ops;  ///< CheckIndex's op names, by its aux

    std::int64_t outer() const {
        std::int64_t n = 1;
        for (int d = 0; d < split; ++d)
            n *= extents[static_cast<std::size_t>(d)];
        return n;
    }
    std::int64_t inner() const {
        std::int64_t n = 1;
        for (int d = split; d < rank; ++d)
            n *= extents[static_cast<std::size_t>(d)];
        return n;
    }
    bool operator==(const Program&) const = default;
    /// Readable text of the program, for explain() and for people who debug.
    std::string str() const;
};

inline bool is_reduction(Opcode op) {
    return op >= Opcode::ReduceSum && op <= Opcode::ReduceArgMin;
}
const char* name_of(Opcode op);

}  // namespace pippin::plan
