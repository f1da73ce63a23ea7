// Programs of one opcode, over ordinary and extreme values.
#pragma once

#include <cmath>
#include <vector>

#include "programs/builder.h"

namespace pippin::programs {

using plan::Opcode;

inline std::vector<double> values(DType t) {
    switch (t) {
        case DType::Bool:
            return {0, 1, 1, 0, 1};
        case DType::UInt8:
            return {0, 1, 2, 127, 128, 255, 200};
        case DType::Int32:
            return {0, 1, -1, 2, -2, 3, -7, 7, 12345, -99999, 2147483647.0, -2147483648.0};
        case DType::Int64:
            return {0,
                    1,
                    -1,
                    2,
                    -3,
                    10,
                    -10,
                    4294967296.0,
                    -5000000000.0,
                    4e18,
                    -9223372036854775808.0};
        default:
            return {0,
                    -0.0,
                    1,
                    -1,
                    0.5,
                    -0.5,
                    1.5,
                    2.5,
                    -2.5,
                    3,
                    -3,
                    2,
                    0.1,
                    -0.1,
                    10,
                    -10,
                    100.5,
                    1e-5,
                    -1e-5,
                    1e-20,
                    1e-40,
                    1e4,
                    -1e4,
                    7.25,
                    0.25,
                    88,
                    -88,
                    90,
                    -104,
                    1e30,
                    -1e30,
                    2147483648.0,
                    300,
                    -300,
                    65504,
                    65520,
                    double(INFINITY),
                    -double(INFINITY),
                    std::nan(""),
                    0.75,
                    5.5,
                    -5.5,
                    1e-8,
                    3.14159265,
                    20};
    }
}

// All pairs of values, or as many elements as asked for, repeated.
struct Case {
    Opcode op;
    DType type;  // of the operands
    DType result;
    int operands;
};

/// A program of one opcode over n elements, with the buffers it runs over; operand
/// `constant_operand` is a constant (-1: none).
struct OpcodeTrial {
    plan::Program program;
    std::vector<Buffer> buffers;
};
inline OpcodeTrial opcode_trial(const Case& c, std::int64_t n, int constant_operand) {
    const auto list = values(c.type);
    Builder b = Builder::map({n});
    std::vector<Buffer> buffers;
    std::int32_t in[3] = {-1, -1, -1};
    for (int k = 0; k < c.operands; ++k) {
        const bool condition = c.op == Opcode::Select && k == 0;
        const DType t = condition ? DType::Bool : c.type;
        if (k == constant_operand) {
            in[k] = b.constant(condition ? 1 : list[list.size() > 6 ? 6 : 1], t);
            continue;
        }
        in[k] = b.load(t);
        Buffer data(static_cast<std::size_t>(n) * size_of(t));
        for (std::int64_t e = 0; e < n; ++e) {
            const auto size = static_cast<std::int64_t>(list.size());
            const std::int64_t at = k == 0 ? e % size : k == 1 ? e / size % size : e * 7 % size;
            const double x =
                condition ? static_cast<double>(e % 3 == 0) : list[static_cast<std::size_t>(at)];
            write_value(data, e, t, x);
        }
        buffers.push_back(data);
    }
    const auto result = b.op(c.op, c.result, in[0], in[1], in[2]);
    b.p.body.back().from = c.type;
    const DType stored = c.result == DType::UInt8 ? DType::UInt8 : c.result;
    b.store(result, b.access(stored, b.dense(), true));
    b.p.body.back().type = stored == DType::UInt8 ? DType::Int32
                           : is_half(stored)      ? DType::Float32
                                                  : stored;
    buffers.emplace_back(static_cast<std::size_t>(n) * size_of(stored));
    return {b.p, std::move(buffers)};
}

}  // namespace pippin::programs
