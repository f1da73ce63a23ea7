// Normalisation: functions beside batch_norm and layer_norm of ops.h, and all of them as layers.
// Half inputs are normalised in float32. Names, arguments and defaults are PyTorch's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pippin/module.h"

namespace pippin {

/// Over each of `groups` equal parts of dimension 1 and all dimensions behind it; weight and bias
/// (C). x is (N, C, ...). Wu and He 2018.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5, Site site = Site::current());
/// Over the dimensions behind 1 of each sample of (N, C, ...). use_input_stats: by its own
/// statistics, and running_mean / running_var (when defined) are assigned their moving average;
/// else by those. Ulyanov et al. 2016.
Tensor instance_norm(const Tensor& x, Tensor running_mean = {}, Tensor running_var = {},
                     const Tensor& weight = {}, const Tensor& bias = {},
                     bool use_input_stats = true, double momentum = 0.1, double eps = 1e-5,
                     Site site = Site::current());
/// x over the root of the mean square of the trailing dims `shape`, times weight. No eps: the
/// spacing of x's dtype at 1. Zhang and Sennrich 2019.
Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {},
                std::optional<double> eps = {}, Site site = Site::current());

namespace nn {

/// What batch and instance norms share. Members are undefined where a flag leaves them out.
class ChannelNorm : public Module {
  public:
    std::string extra_repr() const override;
    std::string type_name() const override { return name_; }
    Tensor weight, bias, running_mean, running_var, num_batches_tracked;

  protected:
    struct Settings {
        double eps;
        std::optional<double> momentum;
        bool affine, track_running_stats, bias;
    };
    /// Inputs have low_rank to high_rank dimensions.
    ChannelNorm(const char* name, std::int64_t features, Settings settings, int low_rank,
                int high_rank);
    /// ValueError unless x has one of the ranks and `features` channels at dimension `dim`.
    void check_input(const Tensor& x, int dim = 1) const;

    Settings settings_;

  private:
    const char* name_;
    std::int64_t features_;
    int low_rank_, high_rank_;
};

/// By the batch's statistics in training, else by the running ones (if they are tracked). Without a
/// momentum (std::nullopt) these are the plain mean over all batches seen.
class BatchNorm : public ChannelNorm {
  public:
    Tensor forward(const Tensor& x) override;

  protected:
    using ChannelNorm::ChannelNorm;
};

/// (N, C) or (N, C, L)
class BatchNorm1d : public BatchNorm {
  public:
    explicit BatchNorm1d(std::int64_t features, double eps = 1e-5,
                         std::optional<double> momentum = 0.1, bool affine = true,
                         bool track_running_stats = true, bool with_bias = true)
        : BatchNorm("BatchNorm1d", features,
                    {eps, momentum, affine, track_running_stats, with_bias}, 2, 3) {}
};

/// (N, C, H, W)
class BatchNorm2d : public BatchNorm {
  public:
    explicit BatchNorm2d(std::int64_t features, double eps = 1e-5,
                         std::optional<double> momentum = 0.1, bool affine = true,
                         bool track_running_stats = true, bool with_bias = true)
        : BatchNorm("BatchNorm2d", features,
                    {eps, momentum, affine, track_running_stats, with_bias}, 4, 4) {}
};

/// By each sample's own statistics, except in evaluation with tracked ones. Inputs may come without
/// the batch dimension.
class InstanceNorm : public ChannelNorm {
  public:
    Tensor forward(const Tensor& x) override;

  protected:
    InstanceNorm(const char* name, std::int64_t features, Settings settings, int rank)
        : ChannelNorm(name, features, settings, rank - 1, rank), rank_(rank) {}

  private:
    int rank_;
};

/// (N, C, L) or (C, L)
class InstanceNorm1d : public InstanceNorm {
  public:
    explicit InstanceNorm1d(std::int64_t features, double eps = 1e-5, double momentum = 0.1,
                            bool affine = false, bool track_running_stats = false,
                            bool with_bias = true)
        : InstanceNorm("InstanceNorm1d", features,
                       {eps, momentum, affine, track_running_stats, with_bias}, 3) {}
};

/// (N, C, H, W) or (C, H, W)
class InstanceNorm2d : public InstanceNorm {
  public:
    explicit InstanceNorm2d(std::int64_t features, double eps = 1e-5, double momentum = 0.1,
                            bool affine = false, bool track_running_stats = false,
                            bool with_bias = true)
        : InstanceNorm("InstanceNorm2d", features,
                       {eps, momentum, affine, track_running_stats, with_bias}, 4) {}
};

class GroupNorm : public Module {
  public:
    GroupNorm(std::int64_t groups, std::int64_t channels, double eps = 1e-5, bool affine = true,
              bool bias = true);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "GroupNorm"; }
    Tensor weight, bias;

  private:
    std::int64_t groups_, channels_;
    double eps_;
};

class LayerNorm : public Module {
  public:
    explicit LayerNorm(Shape shape, double eps = 1e-5, bool elementwise_affine = true,
                       bool bias = true);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "LayerNorm"; }
    Tensor weight, bias;

  private:
    Shape shape_;
    double eps_;
};

class RMSNorm : public Module {
  public:
    explicit RMSNorm(Shape shape, std::optional<double> eps = {}, bool elementwise_affine = true);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "RMSNorm"; }
    Tensor weight;

  private:
    Shape shape_;
    std::optional<double> eps_;
};

}  // namespace nn
}  // namespace pippin
