// Convolution and pooling beside conv2d and the pools of ops.h: transposed, one-dimensional,
// adaptive maximum. Inputs may come without the batch dimension, as in PyTorch.
#pragma once

#include "pippin/ops.h"

namespace pippin {

struct ConvTranspose2dOptions {
    std::int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
    std::int64_t output_pad_h = 0, output_pad_w = 0;  ///< below the stride or the dilation
    std::int64_t dilation_h = 1, dilation_w = 1, groups = 1;
};
/// The gradient of conv2d for its input, as a layer: x (N, in, H, W), weight (in, out / groups, kh,
/// kw), bias (out); the result has (H - 1) stride - 2 pad + dilation (kh - 1) + output_pad + 1
/// rows.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        ConvTranspose2dOptions o = {}, Site site = Site::current());

struct Conv1dOptions {
    std::int64_t stride = 1, pad = 0, dilation = 1, groups = 1;
    std::string_view padding = {};  ///< "same" or "valid" instead of pad: see Conv2dOptions
};
/// x (N, in, L), weight (out, in / groups, k), bias (out).
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Conv1dOptions o = {},
              Site site = Site::current());

struct ConvTranspose1dOptions {
    std::int64_t stride = 1, pad = 0, output_pad = 0, dilation = 1, groups = 1;
};
/// x (N, in, L), weight (in, out / groups, k), bias (out).
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        ConvTranspose1dOptions o = {}, Site site = Site::current());

struct Pool1dOptions {
    std::int64_t kernel = 1, stride = 0, pad = 0;  ///< stride 0: the kernel's
    std::int64_t dilation = 1;                     ///< maximum only
    bool ceil_mode = false, count_include_pad = true;
};
/// x (N, C, L).
Tensor max_pool1d(const Tensor& x, Pool1dOptions o, Site site = Site::current());
Tensor avg_pool1d(const Tensor& x, Pool1dOptions o, Site site = Site::current());
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t out, Site site = Site::current());
Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t out, Site site = Site::current());

/// The maximum of rows floor(i H / out_h) to ceil((i + 1) H / out_h) and columns likewise. The
/// gradient goes to the first maximum.
Tensor adaptive_max_pool2d(const Tensor& x, std::int64_t out_h, std::int64_t out_w,
                           Site site = Site::current());

}  // namespace pippin
