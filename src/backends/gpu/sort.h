// Sorting for kernels that need an order.
#pragma once

#include "backends/gpu/work.h"

namespace pippin::gpu {

/// Bytes into scratch: the indices in rising order, and where each was, both 32-bit; equal ones in
/// the order they had.
struct SortedIndices {
    std::int64_t indices = 0, positions = 0;
    std::int64_t bytes = 0;  ///< of scratch, from 0 on, that it takes
};
/// Adds dispatches that sort a dense 1-d operand of int32 or int64 with at least one element, of
/// which 32 bits count.
SortedIndices write_sorted_indices(Work& w, Step& s, const plan::Operand& index);

}  // namespace pippin::gpu
