// Layers beside those of nn.h: embeddings, convolutions and pools of one dimension, transposed
// convolution, resizing, dropout of channels, containers. PyTorch's names, defaults, parameter
// names and initialisation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pippin/nn.h"
#include "pippin/ops_conv.h"
#include "pippin/ops_image.h"

namespace pippin {

/// Zeroes whole channels (dimension 1) with probability p and scales the rest by 1 / (1 - p); the
/// identity unless training. x is (N, C, ...). dropout1d and dropout2d of PyTorch.
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true,
                 Site site = Site::current());
/// For networks with selu: what is dropped goes to selu's lower limit, and mean and variance stay.
/// Klambauer et al. 2017.
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true,
                     Site site = Site::current());
/// (N, C r r, H, W) to (N, C, H r, W r): each pixel's channels as a square. Shi et al. 2016.
Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor, Site site = Site::current());
/// The inverse.
Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor, Site site = Site::current());
/// Dimension dim as several, of which one may be -1.
Tensor unflatten(const Tensor& x, std::int64_t dim, const Shape& sizes,
                 Site site = Site::current());

namespace nn {

/// Rows of a table by number. The row padding_idx (negative: from the end) starts as zeros and gets
/// no gradient.
class Embedding : public Module {
  public:
    Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
              std::optional<std::int64_t> padding_idx = {});
    Tensor forward(const Tensor& ids) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "Embedding"; }
    Tensor weight;

  private:
    std::int64_t padding_idx_;  ///< -1: none
};

class Conv1d : public Module {
  public:
    struct Args {
        std::int64_t kernel = 1, stride = 1;
        ConvPadding<std::int64_t> padding = 0;
        std::int64_t dilation = 1, groups = 1;
        bool bias = true;
        PadMode padding_mode = PadMode::Constant;  ///< Constant: zeros
    };
    Conv1d(std::int64_t in, std::int64_t out, Args args);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "Conv1d"; }
    Tensor weight, bias;  ///< bias is undefined in a layer without one

  private:
    std::int64_t in_, out_;
    Args args_;
};

class ConvTranspose2d : public Module {
  public:
    struct Args {
        Pair kernel = 1, stride = 1, padding = 0, output_padding = 0;
        std::int64_t groups = 1;
        bool bias = true;
        Pair dilation = 1;
    };
    ConvTranspose2d(std::int64_t in, std::int64_t out, Args args);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "ConvTranspose2d"; }
    Tensor weight, bias;  ///< bias is undefined in a layer without one

  private:
    std::int64_t in_, out_;
    Args args_;
};

/// stride 0: the kernel's.
class MaxPool1d : public Module {
  public:
    explicit MaxPool1d(std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0,
                       std::int64_t dilation = 1, bool ceil_mode = false);
    Tensor forward(const Tensor& x) override { return max_pool1d(x, o_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "MaxPool1d"; }

  private:
    Pool1dOptions o_;
};

/// stride 0: the kernel's.
class AvgPool1d : public Module {
  public:
    explicit AvgPool1d(std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0,
                       bool ceil_mode = false, bool count_include_pad = true);
    Tensor forward(const Tensor& x) override { return avg_pool1d(x, o_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "AvgPool1d"; }

  private:
    Pool1dOptions o_;
};

class AdaptiveAvgPool1d : public Module {
  public:
    explicit AdaptiveAvgPool1d(std::int64_t output) : output_(output) {}
    Tensor forward(const Tensor& x) override { return adaptive_avg_pool1d(x, output_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "AdaptiveAvgPool1d"; }

  private:
    std::int64_t output_;
};

class AdaptiveMaxPool2d : public Module {
  public:
    explicit AdaptiveMaxPool2d(Pair output) : output_(output) {}
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "AdaptiveMaxPool2d"; }

  private:
    Pair output_;
};

/// interpolate() as a layer.
class Upsample : public Module {
  public:
    explicit Upsample(InterpolateOptions o);
    Tensor forward(const Tensor& x) override { return interpolate(x, o_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "Upsample"; }

  private:
    InterpolateOptions o_;
};

class PixelShuffle : public Module {
  public:
    explicit PixelShuffle(std::int64_t upscale_factor) : factor_(upscale_factor) {}
    Tensor forward(const Tensor& x) override { return pixel_shuffle(x, factor_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "PixelShuffle"; }

  private:
    std::int64_t factor_;
};

/// Dropout of whole channels.
class Dropout2d : public Module {
  public:
    explicit Dropout2d(double p = 0.5);
    Tensor forward(const Tensor& x) override { return dropout2d(x, p_, is_training()); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "Dropout2d"; }

  private:
    double p_;
};

class AlphaDropout : public Module {
  public:
    explicit AlphaDropout(double p = 0.5);
    Tensor forward(const Tensor& x) override { return alpha_dropout(x, p_, is_training()); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "AlphaDropout"; }

  private:
    double p_;
};

class Unflatten : public Module {
  public:
    Unflatten(std::int64_t dim, Shape sizes) : dim_(dim), sizes_(sizes) {}
    Tensor forward(const Tensor& x) override { return unflatten(x, dim_, sizes_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "Unflatten"; }

  private:
    std::int64_t dim_;
    Shape sizes_;
};

/// Modules named "0", "1", ... of one type M, to call as the holder likes.
template <class M = Module>
class ModuleList : public Module {
  public:
    ModuleList& append(std::shared_ptr<M> m) {
        modules_.push_back(register_module(std::to_string(modules_.size()), std::move(m)));
        return *this;
    }
    std::size_t size() const { return modules_.size(); }
    M& operator[](std::size_t i) const { return *modules_.at(i); }
    auto begin() const { return modules_.begin(); }
    auto end() const { return modules_.end(); }
    std::string type_name() const override { return "ModuleList"; }

  private:
    std::vector<std::shared_ptr<M>> modules_;
};

/// Modules by name, in the order in which they came.
template <class M = Module>
class ModuleDict : public Module {
  public:
    ModuleDict& insert(const std::string& name, std::shared_ptr<M> m) {
        modules_.emplace_back(name, register_module(name, std::move(m)));
        return *this;
    }
    bool contains(const std::string& name) const { return find(name) != nullptr; }
    /// ValueError for a name that is not there.
    M& operator[](const std::string& name) const {
        M* m = find(name);
        if (!m) throw ValueError("ModuleDict: there is no module \"" + name + "\"");
        return *m;
    }
    std::size_t size() const { return modules_.size(); }
    auto begin() const { return modules_.begin(); }
    auto end() const { return modules_.end(); }
    std::string type_name() const override { return "ModuleDict"; }

  private:
    M* find(const std::string& name) const {
        for (const auto& entry : modules_)
            if (entry.first == name) return entry.second.get();
        return nullptr;
    }
    std::vector<std::pair<std::string, std::shared_ptr<M>>> modules_;
};

}  // namespace nn
}  // namespace pippin
