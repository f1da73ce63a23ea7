// The functions on tensors. Names, arguments and results follow PyTorch's unless a line says
// otherwise. All raise ValueError for shapes and TypeError for dtypes they cannot take.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "pippin/tensor.h"

namespace pippin {

using Dims = std::vector<std::int64_t>;

// --- creation ---
Tensor zeros(const Shape& shape, Options o = {});
Tensor ones(const Shape& shape, Options o = {});
Tensor full(const Shape& shape, double value, Options o = {});
Tensor zeros_like(const Tensor& t);
Tensor ones_like(const Tensor& t);
Tensor full_like(const Tensor& t, double value);
/// [start, end) by step; int64 unless o.dtype says otherwise or a bound is fractional.
Tensor arange(double start, double end, double step = 1, Options o = {});
Tensor arange(std::int64_t end, Options o = {});
Tensor linspace(double start, double end, std::int64_t steps, Options o = {});
Tensor eye(std::int64_t n, Options o = {});
/// Copies row-major elements. `tensor(v, {2, 3})`; ValueError when the count differs.
template <class T>
Tensor tensor(const std::vector<T>& data, const Shape& shape, Options o = {});
template <class T>
Tensor tensor(const std::vector<T>& data, Options o = {}) {
    return tensor(data, Shape{static_cast<std::int64_t>(data.size())}, o);
}
/// A 0-d tensor.
Tensor scalar(double value, Options o = {});
/// Copies `numel * size_of(dtype)` bytes of row-major elements.
Tensor from_bytes(const void* data, const Shape& shape, DType dtype,
                  Device device = default_device());
/// A 0-d tensor whose value is an argument of the plan and not part of it: changing it each step
/// (a learning rate, a step count) compiles nothing new.
Tensor runtime_scalar(double value, Options o = {});

// --- random (Philox; see random.h) ---
Tensor rand(const Shape& shape, Options o = {});  ///< uniform in [0, 1)
Tensor uniform(const Shape& shape, double low, double high, Options o = {});
Tensor randn(const Shape& shape, Options o = {});  ///< Box-Muller
Tensor normal(const Shape& shape, double mean, double std, Options o = {});
Tensor bernoulli(const Shape& shape, double p, Options o = {});  ///< 1 with probability p
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Options o = int64);

// --- arithmetic: broadcasting, type promotion ---
Tensor operator+(const Operand& a, const Operand& b);
Tensor operator-(const Operand& a, const Operand& b);
Tensor operator*(const Operand& a, const Operand& b);
Tensor operator/(const Operand& a, const Operand& b);  ///< true division: floating-point result
Tensor operator==(const Operand& a, const Operand& b);
Tensor operator!=(const Operand& a, const Operand& b);
Tensor operator<(const Operand& a, const Operand& b);
Tensor operator<=(const Operand& a, const Operand& b);
Tensor operator>(const Operand& a, const Operand& b);
Tensor operator>=(const Operand& a, const Operand& b);
Tensor add(const Operand& a, const Operand& b, double alpha = 1);  ///< a + alpha * b
Tensor pow(const Operand& a, const Operand& b);
Tensor remainder(const Operand& a, const Operand& b);  ///< sign of the divisor, as Python's %
Tensor maximum(const Operand& a, const Operand& b);    ///< NaN if either is
Tensor minimum(const Operand& a, const Operand& b);
Tensor logical_and(const Operand& a, const Operand& b);
Tensor logical_or(const Operand& a, const Operand& b);
Tensor logical_xor(const Operand& a, const Operand& b);
Tensor logical_not(const Operand& a);
Tensor bitwise_and(const Operand& a, const Operand& b);
Tensor bitwise_or(const Operand& a, const Operand& b);
Tensor bitwise_xor(const Operand& a, const Operand& b);
Tensor where(const Tensor& condition, const Operand& a, const Operand& b,
             Site site = Site::current());
/// NaN stays NaN; the gradient passes where low < x < high.
Tensor clamp(const Operand& x, std::optional<double> low, std::optional<double> high = {});

Tensor neg(const Operand& x);
Tensor operator-(const Operand& x);
Tensor abs(const Operand& x);
Tensor sign(const Operand& x);
Tensor exp(const Operand& x);
Tensor log(const Operand& x);
Tensor sqrt(const Operand& x);
Tensor rsqrt(const Operand& x);
Tensor reciprocal(const Operand& x);
Tensor square(const Operand& x);
Tensor sin(const Operand& x);
Tensor cos(const Operand& x);
Tensor erf(const Operand& x);
Tensor floor(const Operand& x);
Tensor ceil(const Operand& x);
Tensor round(const Operand& x);  ///< halves to even
Tensor isnan(const Operand& x);
Tensor isfinite(const Operand& x);
Tensor cast(const Tensor& x, DType dtype, Site site = Site::current());

// --- activations ---
Tensor tanh(const Operand& x);
Tensor sigmoid(const Operand& x);
Tensor relu(const Operand& x);  ///< NaN stays NaN
Tensor leaky_relu(const Operand& x, double negative_slope = 0.01);
enum class Gelu { Erf, Tanh };
Tensor gelu(const Operand& x, Gelu kind = Gelu::Erf);
Tensor silu(const Operand& x);

// --- shape; no op ever aliases its input ---
Tensor reshape(const Tensor& x, const Shape& shape,
               Site site = Site::current());  ///< one -1 allowed
Tensor flatten(const Tensor& x, std::int64_t start = 0, std::int64_t end = -1,
               Site site = Site::current());
Tensor permute(const Tensor& x, const Dims& dims, Site site = Site::current());
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b, Site site = Site::current());
Tensor squeeze(const Tensor& x, std::optional<std::int64_t> dim = {}, Site site = Site::current());
Tensor unsqueeze(const Tensor& x, std::int64_t dim, Site site = Site::current());
Tensor expand(const Tensor& x, const Shape& shape, Site site = Site::current());
Tensor flip(const Tensor& x, const Dims& dims, Site site = Site::current());
Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length,
              Site site = Site::current());
Tensor cat(std::span<const Tensor> tensors, std::int64_t dim = 0, Site site = Site::current());
Tensor stack(std::span<const Tensor> tensors, std::int64_t dim = 0, Site site = Site::current());
std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t dim = 0,
                          Site site = Site::current());
/// Constant padding; `amounts` as in torch: (last low, last high, second-last low, ...).
Tensor pad(const Tensor& x, const Dims& amounts, double value = 0, Site site = Site::current());

// --- reductions; empty dims = all ---
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
           Site site = Site::current());
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
            Site site = Site::current());
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
            Site site = Site::current());
/// Divides by N - correction.
Tensor var(const Tensor& x, const Dims& dims = {}, double correction = 1, bool keepdim = false,
           Site site = Site::current());
Tensor std(const Tensor& x, const Dims& dims = {}, double correction = 1, bool keepdim = false,
           Site site = Site::current());
Tensor norm(const Tensor& x, double p = 2, const Dims& dims = {}, bool keepdim = false,
            Site site = Site::current());
/// The gradient of amax and amin is shared evenly among equal extrema.
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
            Site site = Site::current());
Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
            Site site = Site::current());
/// First index of the extremum (the first NaN, if there is one); int64. No dim: over the flattened.
Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false,
              Site site = Site::current());
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false,
              Site site = Site::current());
Tensor any(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
           Site site = Site::current());
Tensor all(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
           Site site = Site::current());
Tensor softmax(const Tensor& x, std::int64_t dim, Site site = Site::current());
Tensor log_softmax(const Tensor& x, std::int64_t dim, Site site = Site::current());
Tensor logsumexp(const Tensor& x, std::int64_t dim, bool keepdim = false,
                 Site site = Site::current());

// --- linear algebra ---
/// torch.matmul: vectors, matrices, broadcast batches. Not for bool.
Tensor matmul(const Tensor& a, const Tensor& b, Site site = Site::current());
/// x (..., in) times weight (out, in) transposed, plus bias (out).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Site site = Site::current());

// --- indexing by tensors (bounds-checked: IndexError at the next synchronisation) ---
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index, Site site = Site::current());
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index,
                    Site site = Site::current());
Tensor embedding(const Tensor& ids, const Tensor& weight, std::int64_t padding_idx = -1,
                 Site site = Site::current());

// --- convolution and pooling: x is (N, C, H, W) ---
struct Conv2dOptions {
    std::int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1,
                 groups = 1;
    /// Instead of pad_h and pad_w: "valid" (none) or "same" (the output is as large as the input;
    /// an odd amount puts the larger part behind; stride 1 only).
    std::string_view padding = {};
};
/// weight (out, in / groups, kh, kw), bias (out).
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Conv2dOptions o = {},
              Site site = Site::current());
struct Pool2dOptions {
    std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 0,
                 stride_w = 0;                                          ///< stride 0: the kernel's
    std::int64_t pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;  ///< dilation: max only
    bool ceil_mode = false, count_include_pad = true;
};
Tensor max_pool2d(const Tensor& x, Pool2dOptions o, Site site = Site::current());
Tensor avg_pool2d(const Tensor& x, Pool2dOptions o, Site site = Site::current());
Tensor adaptive_avg_pool2d(const Tensor& x, std::int64_t out_h, std::int64_t out_w,
                           Site site = Site::current());

// --- normalisation ---
/// Training: statistics of the batch over all dims but 1, and running_mean / running_var (when
/// defined) are assigned their moving average. Else the running statistics are used.
/// Ioffe and Szegedy 2015.
Tensor batch_norm(const Tensor& x, Tensor running_mean, Tensor running_var, const Tensor& weight,
                  const Tensor& bias, bool training, double momentum = 0.1, double eps = 1e-5,
                  Site site = Site::current());
/// The momentum as a 0-d tensor, whose value may differ from step to step without a new plan.
Tensor batch_norm(const Tensor& x, Tensor running_mean, Tensor running_var, const Tensor& weight,
                  const Tensor& bias, bool training, const Tensor& momentum, double eps = 1e-5,
                  Site site = Site::current());
/// Over the trailing dims `shape`. Ba et al. 2016.
Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5, Site site = Site::current());
/// Zeroes with probability p and scales the rest by 1 / (1 - p); the identity unless training.
Tensor dropout(const Tensor& x, double p, bool training = true, Site site = Site::current());

// --- losses ---
enum class Reduction { None, Mean, Sum };
/// logits (N, C) or (N, C, d1, ...), target int64 class indices (N) or (N, d1, ...). Rows whose
/// target is ignore_index count in nothing.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     Reduction reduction = Reduction::Mean, std::int64_t ignore_index = -100,
                     double label_smoothing = 0, Site site = Site::current());
Tensor nll_loss(const Tensor& log_probs, const Tensor& target,
                Reduction reduction = Reduction::Mean, std::int64_t ignore_index = -100,
                Site site = Site::current());
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::Mean,
                Site site = Site::current());
Tensor one_hot(const Tensor& index, std::int64_t classes, Site site = Site::current());

// --- comparing ---
bool equal(const Tensor& a, const Tensor& b,
           Site site = Site::current());  ///< same shape and same elements
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
              Site site = Site::current());

}  // namespace pippin
