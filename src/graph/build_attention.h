// Builders of attention: one op with a kernel of its own, and the same in primitive ops.
#pragma once

#include "graph/build.h"

namespace pippin::graph {

struct AttentionAttrs {
    double scale = 1, dropout = 0;
    bool causal = false;  ///< query i sees keys 0 .. i
};

/// What attention reads. q [B, H, L, E], k [B, H, S, E], v [B, H, S, Ev]; mask, which may be null,
/// is bool (true: seen) or of q's dtype (added), its extents 1 or those of [B, H, L, S].
struct AttentionInputs {
    NodePtr q, k, v, mask;
    /// With dropout: an int64 [2] of the values of `random`.
    NodePtr seed;
    std::uint64_t random[2] = {0, 0};  ///< (seed, sequence) of the weights' random numbers
};

// [B, L, H, Ev], heads inside of positions. A row that sees no key is zeros. The mask gets no
// gradient.
NodePtr attention(const AttentionInputs& in, const AttentionAttrs& a);
// d/dq as [B, L, H, E], d/dk as [B, S, H, E] and d/dv as [B, S, H, Ev], one behind the other in one
// 1-d node
NodePtr attention_grad(const AttentionInputs& in, const NodePtr& dy, const AttentionAttrs& a);
// attention in matrix products and a softmax, [B, H, L, Ev]; the leading dims may be any, and the
// mask gets its gradient. The scores take q's dtype.
NodePtr composed_attention(const AttentionInputs& in, const AttentionAttrs& a);

}  // namespace pippin::graph
