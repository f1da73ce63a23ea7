// float32 products of small matrices, where a library's preparation costs more than the product.
#pragma once

#include <cstdint>

#include "backends/cpu/heavy.h"

namespace pippin::cpu {

/// One product C = A B of M x K and K x N, or a part of it: what the vector code works on.
struct SmallProduct {
    std::int64_t m, n, k;
    const float* a;
    std::int64_t a_row, a_col;  ///< strides
    const float* b;
    std::int64_t b_row, b_col;  ///< one of them is 1
    float* c;
    std::int64_t c_row;     ///< C's rows are contiguous
    const float* bias;      ///< of n columns, or null
    const float* residual;  ///< or null; rows are contiguous
    std::int64_t residual_row;
    plan::Activation activation;
    float* panel;  ///< room for `kPanelVectors` vectors x k, if b_col is not 1
};

struct SmallProductFunctions {
    std::int64_t lanes;
    std::int64_t panel_vectors;  ///< most vectors of columns that go together
    void (*run)(const SmallProduct& p);
};
SmallProductFunctions small_product_functions();

/// A kernel for a float32 matmul whose operands all have a unit stride; null where oneDNN is the
/// better choice.
std::unique_ptr<HeavyKernel> make_matmul_small(const plan::HeavyLaunch& launch);

}  // namespace pippin::cpu
