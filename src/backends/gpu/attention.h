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

/// Functions of one score for kernels:
///   float adjusted(PTR mask, int mask_base, int i, int j, float s): the score of query i and key
///     j, -infinity where it is not seen; s is their product
///   F4 kept(I64 key, I64 stream, int head, int i, int j): factors of dropout of keys j .. j + 3
std::string score_functions(const AttentionShape& a);

/// Attention or its gradient in products of matrices, whose scores are in scratch memory, part of
/// the batch after part; false where one part alone is too large.
bool write_attention_products(Work& w, Step& s, const plan::HeavyLaunch& l, const AttentionShape& a,
                              const Features& f);

/// What a kernel computes. Those of the gradient read the third's numbers from scratch, three
/// floats a query: the row's maximum, 1 / (sum of exponents), and the sum of weight times gradient
/// of the weight.
enum class AttentionPass { Forward, Statistics, GradQuery, GradKey, GradValue };

/// Adds the kernel of a pass and its dispatch. `result` is where row 0 of head 0 lies, of shape
/// [B, rows, H, width], dense.
void write_attention_pass(Work& w, Step& s, const AttentionShape& a, AttentionPass pass,
                          const Arg& result, DType result_dtype, const Features& f);

}  // namespace pippin::gpu
