// The layers of the first networks; nn_*.h and losses.h have the rest.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pippin/module.h"
#include "pippin/nn_norms.h"
#include "pippin/ops_shape.h"

namespace pippin::nn {

class Linear : public Module {
  public:
    Linear(std::int64_t in, std::int64_t out, bool bias = true);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "Linear"; }
    Tensor weight, bias;  ///< bias is undefined in a layer without one
};

/// Height and width; one number stands for both.
struct Pair {
    std::int64_t h, w;
    constexpr Pair(std::int64_t both) : h(both), w(both) {}
    constexpr Pair(std::int64_t h_, std::int64_t w_) : h(h_), w(w_) {}
    constexpr bool operator==(const Pair&) const = default;
};

/// A convolution's padding: amounts, or by name "same" (the output is as large as the input; stride
/// 1 only) or "valid" (none). Amount is Pair or, in one dimension, a number.
template <class Amount>
struct ConvPadding {
    Amount amount = 0;
    std::string name;  ///< empty: by amounts
    ConvPadding(std::int64_t n) : amount(n) {}
    ConvPadding(std::int64_t h, std::int64_t w) : amount(h, w) {}
    ConvPadding(Pair p) : amount(p) {}
    // Not const char*: 0 would be one as well.
    template <std::size_t N>
    ConvPadding(const char (&text)[N]) : name(text) {}
    ConvPadding(std::string text) : name(std::move(text)) {}
};

class Conv2d : public Module {
  public:
    /// Conv2d(3, 64, {.kernel = 7, .stride = 2, .padding = 3, .bias = false})
    struct Args {
        Pair kernel = 1, stride = 1;
        ConvPadding<Pair> padding = 0;
        Pair dilation = 1;
        std::int64_t groups = 1;
        bool bias = true;
        PadMode padding_mode = PadMode::Constant;  ///< Constant: zeros
    };
    Conv2d(std::int64_t in, std::int64_t out, Args args);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "Conv2d"; }
    Tensor weight, bias;  ///< bias is undefined in a layer without one

  private:
    std::int64_t in_, out_;
    Args args_;
};

/// stride 0: the kernel's.
class MaxPool2d : public Module {
  public:
    explicit MaxPool2d(Pair kernel, Pair stride = 0, Pair padding = 0, Pair dilation = 1,
                       bool ceil_mode = false);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "MaxPool2d"; }

  private:
    Pool2dOptions o_;
};

class AvgPool2d : public Module {
  public:
    explicit AvgPool2d(Pair kernel, Pair stride = 0, Pair padding = 0, bool ceil_mode = false,
                       bool count_include_pad = true);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "AvgPool2d"; }

  private:
    Pool2dOptions o_;
};

class AdaptiveAvgPool2d : public Module {
  public:
    explicit AdaptiveAvgPool2d(Pair output) : output_(output) {}
    AdaptiveAvgPool2d(std::int64_t out_h, std::int64_t out_w) : output_(out_h, out_w) {}
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "AdaptiveAvgPool2d"; }

  private:
    Pair output_;
};

class ReLU : public Module {
  public:
    Tensor forward(const Tensor& x) override { return relu(x); }
    std::string type_name() const override { return "ReLU"; }
};

class Tanh : public Module {
  public:
    Tensor forward(const Tensor& x) override { return tanh(x); }
    std::string type_name() const override { return "Tanh"; }
};

class Dropout : public Module {
  public:
    explicit Dropout(double p = 0.5);
    Tensor forward(const Tensor& x) override { return dropout(x, p_, is_training()); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "Dropout"; }

  private:
    double p_;
};

class Flatten : public Module {
  public:
    explicit Flatten(std::int64_t start = 1, std::int64_t end = -1) : start_(start), end_(end) {}
    Tensor forward(const Tensor& x) override { return flatten(x, start_, end_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "Flatten"; }

  private:
    std::int64_t start_, end_;
};

class Identity : public Module {
  public:
    Tensor forward(const Tensor& x) override { return x; }
    std::string type_name() const override { return "Identity"; }
};

/// Children named "0", "1", ...
class Sequential : public Module {
  public:
    Sequential() = default;
    Sequential(std::initializer_list<ModulePtr> layers);
    Sequential& append(ModulePtr layer);
    Tensor forward(const Tensor& x) override;
    std::string type_name() const override { return "Sequential"; }
    std::size_t size() const { return layers_.size(); }
    Module& operator[](std::size_t i) { return *layers_.at(i); }

  private:
    std::vector<ModulePtr> layers_;
};

/// make<nn::Conv2d>(3, 64, {.kernel = 7}): braces need the type spelt here.
template <class M>
std::shared_ptr<M> make(std::int64_t in, std::int64_t out, Conv2d::Args args) {
    return std::make_shared<M>(in, out, args);
}
/// sequential(nn::make<nn::Flatten>(), ...): a shared Sequential.
template <class... M>
std::shared_ptr<Sequential> sequential(const std::shared_ptr<M>&... layers) {
    return std::make_shared<Sequential>(std::initializer_list<ModulePtr>{layers...});
}

// --- initialisation: assigns new values, drawn from the generator of random.h ---
namespace init {
enum class Fan { In, Out };
void constant_(Tensor& t, double value);
void uniform_(Tensor& t, double low, double high);
void normal_(Tensor& t, double mean = 0, double std = 1);
/// He et al. 2015; `a` is the negative slope of the leaky ReLU that follows (gain sqrt(2 / (1 +
/// a^2))).
void kaiming_uniform_(Tensor& t, double a = 0, Fan fan = Fan::In);
void kaiming_normal_(Tensor& t, double a = 0, Fan fan = Fan::In);
/// Glorot and Bengio 2010.
void xavier_uniform_(Tensor& t, double gain = 1);
void xavier_normal_(Tensor& t, double gain = 1);
}  // namespace init

/// Scales all gradients so that their joint p-norm is at most max_norm; returns the norm before.
/// p may be infinity. Parameters without a gradient count in nothing.
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double p = 2);
void clip_grad_value_(const std::vector<Tensor>& parameters, double value);

}  // namespace pippin::nn
