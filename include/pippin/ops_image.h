// Windows of feature maps as columns, and other sizes of them.
#pragma once

#include "pippin/ops.h"

namespace pippin {

struct WindowOptions {
    std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0,
                 dilation_h = 1, dilation_w = 1;
};
/// im2col: x (N, C, H, W) or (C, H, W) gives (N, C kernel_h kernel_w, L), one column for each of
/// the L window positions in row-major order.
Tensor unfold(const Tensor& x, WindowOptions o, Site site = Site::current());
/// The adjoint of unfold: columns (N, C kernel_h kernel_w, L) are added up into (N, C, h, w).
Tensor fold(const Tensor& x, std::int64_t h, std::int64_t w, WindowOptions o,
            Site site = Site::current());

/// Nearest repeats the formula of early OpenCV, as PyTorch does (index floor(i * in / out));
/// NearestExact looks at pixels' centres. Linear works on one, two (bilinear) or three dimensions.
enum class Interpolation { Nearest, NearestExact, Linear };
struct InterpolateOptions {
    Dims size = {};                  ///< of the spatial dimensions; or
    std::vector<double> scale = {};  ///< one factor for all or one for each
    Interpolation mode = Interpolation::Nearest;
    bool align_corners = false;  ///< Linear: corner pixels stay where they are
};
/// x (N, C, d1 ...) with one to three spatial dimensions.
Tensor interpolate(const Tensor& x, const InterpolateOptions& o, Site site = Site::current());

}  // namespace pippin
