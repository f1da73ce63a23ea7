// Gradients as functions, beside Tensor::backward().
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "pippin/tensor.h"

namespace pippin {

/// d(output)/d(inputs), as tensors that are themselves differentiable with `create_graph`.
/// An input that output does not depend on has zeros. `output` has one element unless
/// `gradient` (of its shape) is given. Sets no .grad.
std::vector<Tensor> grad(const Tensor& output, std::span<const Tensor> inputs,
                         const Tensor& gradient = {}, bool create_graph = false,
                         Site site = Site::current());

/// f's value (one element) and its gradients with respect to all of f's arguments.
using ScalarFunction = std::function<Tensor(std::span<const Tensor>)>;
std::function<std::pair<Tensor, std::vector<Tensor>>(std::span<const Tensor>)> value_and_grad(
    ScalarFunction f);

}  // namespace pippin
