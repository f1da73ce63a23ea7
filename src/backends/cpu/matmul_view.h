// Matrix operands of a matmul with their transpositions folded into shape and strides.
#pragma once

#include <utility>

#include "graph/ops/records.h"
#include "plan/plan.h"

namespace pippin::cpu {

inline plan::Operand folded(const plan::Operand& o, bool transposed) {
    plan::Operand f = o;
    if (transposed) {
        const int r = o.shape.rank();
        std::swap(f.shape[r - 2], f.shape[r - 1]);
        std::swap(f.strides[static_cast<std::size_t>(r - 2)],
                  f.strides[static_cast<std::size_t>(r - 1)]);
    }
    return f;
}

/// [batch..., M, K]
inline plan::Operand matrix_a(const plan::HeavyLaunch& l) {
    return folded(l.operands[0], graph::ops::trans_a(l.attrs));
}
/// [batch..., K, N]
inline plan::Operand matrix_b(const plan::HeavyLaunch& l) {
    return folded(l.operands[1], graph::ops::trans_b(l.attrs));
}

inline std::int64_t row_stride(const plan::Operand& o) {
    return o.strides[static_cast<std::size_t>(o.shape.rank() - 2)];
}
inline std::int64_t column_stride(const plan::Operand& o) {
    return o.strides[static_cast<std::size_t>(o.shape.rank() - 1)];
}

/// What a kernel of one product C = A B of single matrices goes by: extents, and strides in
/// numbers.
class OneProduct {
  protected:
    OneProduct(const plan::Operand& a, const plan::Operand& b, const plan::Operand& c)
        : m_(a.shape[a.shape.rank() - 2]),
          k_(a.shape.back()),
          n_(b.shape.back()),
          a_row_(row_stride(a)),
          a_column_(column_stride(a)),
          b_row_(row_stride(b)),
          b_column_(column_stride(b)),
          c_row_(row_stride(c)) {}

    std::int64_t m_, k_, n_, a_row_, a_column_, b_row_, b_column_, c_row_;
};

}  // namespace pippin::cpu
