// One kernel of attention: a group has a block of rows (queries, or keys for gradients of keys and
// values) and goes over the other side in tiles, whose scores are in shared memory and nowhere else
// (Dao et al. 2022, Dao 2023).
#pragma once

#include <string>

#include "backends/gpu/work.h"
#include "graph/build_attention.h"

namespace pippin::gpu {

/// The launch's operands by name; extents are b, h, l (queries), e, s (keys), ev as in
/// build_attention.h.
struct AttentionShape {
    explicit AttentionShape(const plan::HeavyLaunch& launch);

    graph::AttentionAttrs attrs;
    plan::Operand q, k, v, mask, seed, dy;  ///< dy as [B, H, L, Ev]
    bool has_mask = false, has_dropout = false;
    std::int64_t b, h, l, e, s, ev;
    std::int64_t heads() const { return b * h; }
};

/// What a kernel computes. Those of the gradient read the third's numbers from scratch, three
/// floats a query: the row's maximum, 1 / (sum of exponents), and the sum of weight times gradient
/// of the weight.
enum class AttentionPass { Forward, Statistics, GradQuery, GradKey, GradValue };

/// Adds the kernel of a pass and its dispatch. `result` is where row 0 of head 0 lies, of shape
/// [B, rows, H, width], dense.
void write_attention_pass(Work& w, Step& s, const AttentionShape& a, AttentionPass pass,
                          const Arg& result, DType result_dtype, const Features& f);

}  // namespace pippin::gpu
