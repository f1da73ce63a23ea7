// Normalisation layers.
#include "nn/repr.h"

namespace pippin::nn {

BatchNorm2d::BatchNorm2d(std::int64_t features, double eps, double momentum)
    : eps_(eps), momentum_(momentum) {
    if (features <= 0)
        throw ValueError(fmt::format("BatchNorm2d: features must be positive, got {}", features));
    weight = register_parameter("weight", ones({features}));
    bias = register_parameter("bias", zeros({features}));
    running_mean = register_buffer("running_mean", zeros({features}));
    running_var = register_buffer("running_var", ones({features}));
    num_batches_tracked = register_buffer("num_batches_tracked", zeros({}, int64));
}

Tensor BatchNorm2d::forward(const Tensor& x) {
    if (x.dim() != 4)
        throw ValueError(fmt::format("BatchNorm2d: expected (N, C, H, W), got a tensor of shape {}",
                                     x.shape().str()));
    if (is_training()) {
        const NoGrad no_grad;
        num_batches_tracked.assign_(num_batches_tracked + 1);
    }
    return batch_norm(x, running_mean, running_var, weight, bias, is_training(), momentum_, eps_);
}

std::string BatchNorm2d::extra_repr() const {
    return fmt::format("{}, eps={}, momentum={}, affine=True, bias=True, track_running_stats=True",
                       weight.numel(), repr(eps_), repr(momentum_));
}

LayerNorm::LayerNorm(Shape shape, double eps) : shape_(shape), eps_(eps) {
    if (shape.empty()) throw ValueError("LayerNorm: the shape needs at least one dimension");
    weight = register_parameter("weight", ones(shape));
    bias = register_parameter("bias", zeros(shape));
}

Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, shape_, weight, bias, eps_); }

std::string LayerNorm::extra_repr() const {
    std::string dims;
    for (int i = 0; i < shape_.rank(); ++i)
        dims += fmt::format("{}{}", i ? ", " : "", shape_[i]);
    if (shape_.rank() == 1) dims += ",";
    return fmt::format("({}), eps={}, elementwise_affine=True, bias=True", dims, repr(eps_));
}

}  // namespace pippin::nn
