// Normalisation layers.
#include "nn/repr.h"

namespace pippin::nn {

ChannelNorm::ChannelNorm(const char* name, std::int64_t features, Settings settings, int low_rank,
                         int high_rank)
    : settings_(settings),
      name_(name),
      features_(features),
      low_rank_(low_rank),
      high_rank_(high_rank) {
    if (features <= 0)
        throw ValueError(fmt::format("{}: features must be positive, got {}", name, features));
    if (settings.affine) {
        weight = register_parameter("weight", ones({features}));
        if (settings.bias) bias = register_parameter("bias", zeros({features}));
    }
    if (!settings.track_running_stats) return;
    running_mean = register_buffer("running_mean", zeros({features}));
    running_var = register_buffer("running_var", ones({features}));
    num_batches_tracked = register_buffer("num_batches_tracked", zeros({}, int64));
}

void ChannelNorm::check_input(const Tensor& x, int dim) const {
    constexpr const char* kShapes[] = {"", "", "(N, C)", "(N, C, L)", "(N, C, H, W)"};
    if (x.dim() < low_rank_ || x.dim() > high_rank_) {
        std::string expected = kShapes[high_rank_];
        // The lower rank lacks the last dimension (batch norm) or the batch (instance norm).
        if (low_rank_ < high_rank_)
            expected = low_rank_ == 2 && high_rank_ == 3 && dim == 1 ? "(N, C) or (N, C, L)"
                                                                     : expected + ", N optional";
        throw ValueError(fmt::format("{}: expected {}, got a tensor of shape {}", name_, expected,
                                     x.shape().str()));
    }
    if (x.size(dim) != features_)
        throw ValueError(fmt::format("{}: expected {} channels at dimension {}, got shape {}",
                                     name_, features_, dim, x.shape().str()));
}

std::string ChannelNorm::extra_repr() const {
    const std::optional<double>& momentum = settings_.momentum;
    return fmt::format("{}, eps={}, momentum={}, affine={}, bias={}, track_running_stats={}",
                       features_, repr(settings_.eps), momentum ? repr(*momentum) : "None",
                       repr(settings_.affine), repr(bias.defined()),
                       repr(settings_.track_running_stats));
}

Tensor BatchNorm::forward(const Tensor& x) {
    check_input(x);
    const bool tracks = settings_.track_running_stats;
    if (is_training() && tracks) {
        const NoGrad no_grad;
        num_batches_tracked.assign_(num_batches_tracked + 1);
    }
    const bool by_batch = is_training() || !tracks;
    if (settings_.momentum || !by_batch || !tracks)
        return batch_norm(x, running_mean, running_var, weight, bias, by_batch,
                          settings_.momentum.value_or(0), settings_.eps);
    const Tensor share =
        reciprocal(cast(num_batches_tracked, running_mean.dtype() == float64 ? float64 : float32));
    return batch_norm(x, running_mean, running_var, weight, bias, true, share, settings_.eps);
}

Tensor InstanceNorm::forward(const Tensor& x) {
    const bool batched = x.dim() == rank_;
    check_input(x, batched ? 1 : 0);
    const Tensor y = instance_norm(batched ? x : unsqueeze(x, 0), running_mean, running_var, weight,
                                   bias, is_training() || !settings_.track_running_stats,
                                   settings_.momentum.value_or(0), settings_.eps);
    return batched ? y : squeeze(y, 0);
}

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, double eps, bool affine,
                     bool with_bias)
    : groups_(groups), channels_(channels), eps_(eps) {
    if (groups <= 0 || channels <= 0 || channels % groups != 0)
        throw ValueError(fmt::format("GroupNorm: {} channels cannot be divided into {} groups",
                                     channels, groups));
    if (!affine) return;
    weight = register_parameter("weight", ones({channels}));
    if (with_bias) bias = register_parameter("bias", zeros({channels}));
}

Tensor GroupNorm::forward(const Tensor& x) { return group_norm(x, groups_, weight, bias, eps_); }

std::string GroupNorm::extra_repr() const {
    return fmt::format("{}, {}, eps={}, affine={}, bias={}", groups_, channels_, repr(eps_),
                       repr(weight.defined()), repr(bias.defined()));
}

LayerNorm::LayerNorm(Shape shape, double eps, bool elementwise_affine, bool with_bias)
    : shape_(shape), eps_(eps) {
    if (shape.empty()) throw ValueError("LayerNorm: the shape needs at least one dimension");
    if (!elementwise_affine) return;
    weight = register_parameter("weight", ones(shape));
    if (with_bias) bias = register_parameter("bias", zeros(shape));
}

Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, shape_, weight, bias, eps_); }

std::string LayerNorm::extra_repr() const {
    return fmt::format("{}, eps={}, elementwise_affine={}, bias={}", repr(shape_), repr(eps_),
                       repr(weight.defined()), repr(bias.defined()));
}

RMSNorm::RMSNorm(Shape shape, std::optional<double> eps, bool elementwise_affine)
    : shape_(shape), eps_(eps) {
    if (shape.empty()) throw ValueError("RMSNorm: the shape needs at least one dimension");
    if (elementwise_affine) weight = register_parameter("weight", ones(shape));
}

Tensor RMSNorm::forward(const Tensor& x) { return rms_norm(x, shape_, weight, eps_); }

std::string RMSNorm::extra_repr() const {
    return fmt::format("{}, eps={}, elementwise_affine={}", repr(shape_),
                       eps_ ? repr(*eps_) : "None", repr(weight.defined()));
}

}  // namespace pippin::nn
