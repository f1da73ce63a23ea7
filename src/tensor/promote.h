// Bringing operands to one dtype and one shape, by PyTorch's rules (torch.result_type).
#pragma once

#include "graph/build.h"
#include "pippin/tensor.h"

namespace pippin {

/// The dtype that an op on these operands computes in.
DType result_type(const Operand& a, const Operand& b);

/// The operand as a node of `dtype` and `shape` on `device`.
graph::NodePtr operand_node(const Operand& o, DType dtype, const Shape& shape, Device device);

struct Pair {
    graph::NodePtr a, b;
};
/// Both operands cast to `dtype` (or their common one) and broadcast to their common shape.
Pair promoted(const Operand& a, const Operand& b, const DType* dtype = nullptr);

/// The dtype true division and functions such as exp give for an input: float32 for integers.
DType float_type(DType t);

/// Dimension numbers made non-negative, sorted, checked for range and repeats. Empty means all.
graph::IntList normalized_dims(const std::vector<std::int64_t>& dims, int rank);
/// One dimension made non-negative; a 0-d tensor takes 0 and -1. IndexError-free: ValueError.
int normalized_dim(std::int64_t dim, int rank);

}  // namespace pippin
