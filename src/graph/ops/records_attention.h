// The records of attention.cpp.
#pragma once

#include "graph/build_attention.h"
#include "graph/ops/records.h"

namespace pippin::graph::ops {

// inputs: q, k, v, [mask], [seed], and dy of the gradient; i = {causal, with mask, with dropout},
// f = {scale, dropout}; run_args = {seed, sequence}, for references alone
extern const OpRecord kAttention, kAttentionGrad;

/// Attention or its gradient.
inline bool is_attention(const OpRecord* op) { return op == &kAttention || op == &kAttentionGrad; }
inline AttentionAttrs attention_attrs(const Attrs& a) { return {a.f[0], a.f[1], a.i[0] != 0}; }
inline bool has_mask(const Attrs& a) { return a.i[1] != 0; }
inline bool has_dropout(const Attrs& a) { return a.i[2] != 0; }

}  // namespace pippin::graph::ops
