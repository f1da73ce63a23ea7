// What several networks are made of.
#pragma once

#include "pippin/models.h"

namespace pippin::models {

/// A convolution without bias that keeps the image's size up to its stride, drawn as He et al. 2015
/// do, by fan out.
std::shared_ptr<nn::Conv2d> conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                 std::int64_t stride, std::int64_t groups = 1);

/// Gives the bias zeros, if there is one.
template <class Layer>
void zero_bias(Layer& layer) {
    if (layer.bias.defined()) nn::init::constant_(layer.bias, 0);
}

/// (N, L, heads * d) to (N, heads, L, d).
Tensor split_heads(const Tensor& x, std::int64_t heads);
/// softmax(q k^T / sqrt(d) + mask) v of (N, heads, L, d) operands, back as (N, L, heads * d). The
/// mask, if defined, is bool and broadcasts to (N, heads, L, L): true where a key takes part.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
              double dropout_p);

}  // namespace pippin::models
