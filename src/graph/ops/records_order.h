// The records of order.cpp.
#pragma once

#include "graph/ops/records.h"

namespace pippin::graph::ops {

extern const OpRecord kCumSum;   // i = {dim, reverse}
extern const OpRecord kArgSort;  // i = {dim, descending, how many of the first}
extern const OpRecord kScatter;  // inputs: x, index, src; i = {dim}

inline bool reverse_attr(const Attrs& a) { return a.i[1] != 0; }
inline bool descending_attr(const Attrs& a) { return a.i[1] != 0; }
inline std::int64_t count_attr(const Attrs& a) { return a.i[2]; }

}  // namespace pippin::graph::ops
