// Node builders: what gradient rules, decompositions and the user-level ops are written in.
// No broadcasting or promotion here: both inputs of a binary op have one shape and dtype
// (use expand_to and cast), except where a line says otherwise.
#pragma once

#include "graph/node.h"

namespace pippin::graph {

using IntList = SmallVec<std::int64_t, 8>;

// sources
NodePtr full(double value, DType dtype, const Shape& shape, Device device);  // exact for int64 too
NodePtr full_int(std::int64_t value, DType dtype, const Shape& shape, Device device);
NodePtr full_like(const NodePtr& like, double value);
NodePtr iota(const Shape& shape, int dim, DType dtype, Device device);  // the index along dim
NodePtr run_scalar(double value, DType dtype, Device device);           // 0-d run-time argument
NodePtr random_uniform(const Shape& shape, Device device);  // float32 in [0, 1), 24 bits
NodePtr random_bits(const Shape& shape, Device device);     // int64 in [0, 2^32)

// views
NodePtr reshape(const NodePtr& x, const Shape& shape);
NodePtr permute(const NodePtr& x, const IntList& dims);
NodePtr transpose(const NodePtr& x, int a, int b);
NodePtr expand(const NodePtr& x, const Shape& shape);  // same rank; extents 1 grow
NodePtr expand_to(const NodePtr& x,
                  const Shape& shape);  // broadcasting: adds leading dims, then expands
NodePtr slice(const NodePtr& x, const IntList& start, const IntList& stop, const IntList& step);
NodePtr pad(const NodePtr& x, const IntList& low, const IntList& high, const IntList& inner,
            double value);
NodePtr concat(const Inputs& xs, int dim);
NodePtr flip(const NodePtr& x, const IntList& dims);
NodePtr detach(const NodePtr& x);  // the value itself; gradients stop here
NodePtr cast(const NodePtr& x, DType dtype);

// elementwise
NodePtr neg(const NodePtr& x);
NodePtr abs(const NodePtr& x);
NodePtr sign(const NodePtr& x);
NodePtr exp(const NodePtr& x);
NodePtr log(const NodePtr& x);
NodePtr sqrt(const NodePtr& x);
NodePtr rsqrt(const NodePtr& x);
NodePtr reciprocal(const NodePtr& x);
NodePtr tanh(const NodePtr& x);
NodePtr sigmoid(const NodePtr& x);
NodePtr erf(const NodePtr& x);
NodePtr sin(const NodePtr& x);
NodePtr cos(const NodePtr& x);
NodePtr floor(const NodePtr& x);
NodePtr ceil(const NodePtr& x);
NodePtr round(const NodePtr& x);
NodePtr relu(const NodePtr& x);
NodePtr logical_not(const NodePtr& x);
NodePtr isnan(const NodePtr& x);
NodePtr isfinite(const NodePtr& x);
NodePtr add(const NodePtr& a, const NodePtr& b);
NodePtr sub(const NodePtr& a, const NodePtr& b);
NodePtr mul(const NodePtr& a, const NodePtr& b);
NodePtr div(const NodePtr& a, const NodePtr& b);
NodePtr pow(const NodePtr& a, const NodePtr& b);
NodePtr remainder(const NodePtr& a, const NodePtr& b);
NodePtr maximum(const NodePtr& a, const NodePtr& b);
NodePtr minimum(const NodePtr& a, const NodePtr& b);
NodePtr eq(const NodePtr& a, const NodePtr& b);
NodePtr ne(const NodePtr& a, const NodePtr& b);
NodePtr lt(const NodePtr& a, const NodePtr& b);
NodePtr le(const NodePtr& a, const NodePtr& b);
NodePtr bit_and(const NodePtr& a, const NodePtr& b);  // also logical on bool
NodePtr bit_or(const NodePtr& a, const NodePtr& b);
NodePtr bit_xor(const NodePtr& a, const NodePtr& b);
NodePtr select(const NodePtr& condition, const NodePtr& a, const NodePtr& b);
NodePtr mul_scalar(const NodePtr& x, double s);
NodePtr add_scalar(const NodePtr& x, double s);
// x itself where low <= x < high or x == ignore; raises IndexError at synchronisation otherwise
NodePtr check_index(const NodePtr& x, std::int64_t low, std::int64_t high, std::int64_t ignore,
                    const char* op);

// reductions over sorted dims; every reduced dim stays with extent 1
NodePtr reduce_sum(const NodePtr& x, const IntList& dims);
NodePtr reduce_prod(const NodePtr& x, const IntList& dims);
NodePtr reduce_max(const NodePtr& x, const IntList& dims);
NodePtr reduce_min(const NodePtr& x, const IntList& dims);
NodePtr reduce_m2(const NodePtr& x,
                  const IntList& dims);  // sum of squared deviations from the mean
NodePtr reduce_argmax(const NodePtr& x, int dim);
NodePtr reduce_argmin(const NodePtr& x, int dim);
NodePtr sum_to(const NodePtr& x, const Shape& shape);  // the adjoint of expand_to

// heavy
NodePtr matmul(const NodePtr& a, const NodePtr& b, bool trans_a, bool trans_b);  // equal batch dims
struct ConvAttrs {
    std::int64_t stride[2] = {1, 1}, pad[2] = {0, 0}, dilation[2] = {1, 1}, groups = 1;
};
NodePtr conv2d(const NodePtr& x, const NodePtr& w, const ConvAttrs& a);
NodePtr conv2d_grad_input(const NodePtr& dy, const NodePtr& w, const ConvAttrs& a, std::int64_t h,
                          std::int64_t width);
NodePtr conv2d_grad_weight(const NodePtr& x, const NodePtr& dy, const ConvAttrs& a, std::int64_t kh,
                           std::int64_t kw);
struct PoolAttrs {
    std::int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, pad[2] = {0, 0}, dilation[2] = {1, 1};
    bool ceil_mode = false, count_include_pad = true;
};
NodePtr max_pool2d(const NodePtr& x, const PoolAttrs& a);
NodePtr max_pool2d_grad(const NodePtr& x, const NodePtr& dy, const PoolAttrs& a);
NodePtr avg_pool2d(const NodePtr& x, const PoolAttrs& a);
NodePtr avg_pool2d_grad(const NodePtr& dy, const PoolAttrs& a, std::int64_t h, std::int64_t w);
NodePtr adaptive_avg_pool2d(const NodePtr& x, std::int64_t oh, std::int64_t ow);
NodePtr adaptive_avg_pool2d_grad(const NodePtr& dy, std::int64_t h, std::int64_t w);

// index (bounds-checked)
NodePtr gather(const NodePtr& x, const NodePtr& index, int dim);
NodePtr scatter_add(const NodePtr& index, const NodePtr& src, int dim, std::int64_t extent);
NodePtr index_select(const NodePtr& x, const NodePtr& index, int dim);  // index is 1-d
NodePtr index_add(const NodePtr& index, const NodePtr& src, int dim,
                  std::int64_t extent);  // its adjoint

// composite
NodePtr softmax(const NodePtr& x, int dim);
NodePtr log_softmax(const NodePtr& x, int dim);
// per row of x [N, C] the loss [N] for classes `target` [N]; 0 where target is ignore_index
NodePtr softmax_cross_entropy(const NodePtr& x, const NodePtr& target, std::int64_t ignore_index,
                              double label_smoothing);
// (x - mean) * invstd * weight + bias, where mean and invstd (extent 1 on `dims`) are x's own
// statistics over `dims`: the gradient for x accounts for that, and mean and invstd get none.
// weight and bias have x's rank.
NodePtr normalize(const NodePtr& x, const NodePtr& mean, const NodePtr& invstd,
                  const NodePtr& weight, const NodePtr& bias, const IntList& dims);

}  // namespace pippin::graph
