// Numbers that the heavy kernels read from a launch: memory orders, windows, attributes.
#pragma once

#include <cstdint>

#include "pippin/error.h"
#include "plan/plan.h"

namespace pippin::cpu {

/// True where the operand's bytes are dense in that order; extents of 1 may have any stride.
bool is_dense(const plan::Operand& operand, plan::Order order);
inline bool is_channels_last(const plan::Operand& o) {
    return is_dense(o, plan::Order::ChannelsLast);
}
inline bool is_row_major(const plan::Operand& o) { return is_dense(o, plan::Order::RowMajor); }

/// The operand laid densely in `order` from its address on, as `dtype`.
plan::Operand dense_operand(const plan::Operand& like, plan::Order order, DType dtype);

inline std::size_t bytes_of(const plan::Operand& o) {
    return static_cast<std::size_t>(o.shape.numel()) * size_of(o.dtype);
}
inline std::size_t align64(std::size_t bytes) { return (bytes + 63) & ~std::size_t{63}; }

/// The convolution that a launch of any of the three convolution ops belongs to.
struct ConvGeometry {
    std::int64_t n = 0, ci = 0, h = 0, w = 0;  ///< x
    std::int64_t co = 0, oh = 0, ow = 0;       ///< y
    std::int64_t kh = 0, kw = 0, groups = 1;
    std::int64_t stride[2] = {1, 1}, pad[2] = {0, 0}, dilation[2] = {1, 1};

    /// Whether it is a product of matrices: each pixel of y sees its pixel of x.
    bool is_product() const;
    bool empty() const { return n * ci * h * w * co * oh * ow * kh * kw == 0; }
};
/// From the views of x, w and y (gradients stand for what they are gradients of).
ConvGeometry conv_geometry(const plan::HeavyLaunch& launch, const plan::Operand& x,
                           const plan::Operand& w, const plan::Operand& y);

/// The window of a pooling op.
struct PoolGeometry {
    std::int64_t n = 0, c = 0, h = 0, w = 0, oh = 0, ow = 0;
    std::int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, pad[2] = {0, 0}, dilation[2] = {1, 1};
    bool count_include_pad = true;
};
PoolGeometry pool_geometry(const plan::HeavyLaunch& launch, const plan::Operand& x,
                           const plan::Operand& y);

}  // namespace pippin::cpu
