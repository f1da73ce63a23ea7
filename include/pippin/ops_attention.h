// Attention on tensors.
#pragma once

#include <optional>

#include "pippin/tensor.h"

namespace pippin {

/// softmax(query key^T * scale + mask) value, over the last two dims (Vaswani et al. 2017).
/// query (..., L, E), key (..., S, E), value (..., S, Ev) give (..., L, Ev); the leading dims
/// broadcast.
/// mask broadcasts to (..., L, S): bool, true where a key takes part, or floating point, added to
/// the scores. is_causal: query i sees keys 0 .. i; not together with a mask. A row that sees no
/// key is zeros, and so are its gradients. dropout_p zeroes weights at random whenever it is above
/// 0: pass 0 in evaluation. scale: 1 / sqrt(E) unless given.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& mask = {}, double dropout_p = 0,
                                    bool is_causal = false, std::optional<double> scale = {},
                                    Site site = Site::current());

}  // namespace pippin
