// Random functions beside those of ops.h, with PyTorch's names; all draw from the generator of
// random.h, so that a seed gives the same numbers on every device.
#pragma once

#include "pippin/ops.h"

namespace pippin {

Tensor rand_like(const Tensor& x);   ///< uniform in [0, 1), of x's shape and dtype
Tensor randn_like(const Tensor& x);  ///< normal, of x's shape and dtype
/// Integers from low to below high, of x's shape and dtype.
Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high);
/// 1 with the probability that each element of p says, which must be from 0 to 1 and is not
/// checked; of p's shape and dtype.
Tensor bernoulli(const Tensor& p, Site site = Site::current());
/// Normal numbers, each with its mean and standard deviation (not negative; not checked).
/// Broadcasting.
Tensor normal(const Tensor& mean, const Tensor& std, Site site = Site::current());
Tensor normal(const Tensor& mean, double std, Site site = Site::current());
/// Waiting times of the given rate: -log(1 - u) / rate.
Tensor exponential(const Shape& shape, double rate = 1, Options o = {});

namespace nn::init {

void zeros_(Tensor& t);
void ones_(Tensor& t);
void eye_(Tensor& t);  ///< the identity; 2 dimensions
/// A normal distribution cut at low and high.
void trunc_normal_(Tensor& t, double mean = 0, double std = 1, double low = -2, double high = 2);
/// Rows or columns of unit length at right angles to each other, of the matrix whose rows are the
/// first dimension's slices, times gain. Saxe et al. 2014. Computed on the CPU.
void orthogonal_(Tensor& t, double gain = 1);
/// The identity for convolutions: channel i of the output is channel i of the input. 3 or 4
/// dimensions. PyTorch's groups = 1.
void dirac_(Tensor& t);
enum class After { Linear, Sigmoid, Tanh, Relu, LeakyRelu, Selu };
/// What keeps the variance behind this function; `slope` is the leaky ReLU's.
double calculate_gain(After function, double slope = 0.01);

}  // namespace nn::init
}  // namespace pippin
