// Modules: parameters with names, and the layers of the first networks.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pippin/ops.h"

namespace pippin::nn {

/// A named tree of parameters, buffers and child modules. Subclasses register theirs in the
/// constructor and override forward(). Names join with dots, as in PyTorch:
/// "layer1.0.conv1.weight".
class Module {
  public:
    Module() = default;
    virtual ~Module() = default;
    Module(const Module&) = delete;
    Module& operator=(const Module&) = delete;

    virtual Tensor forward(const Tensor& x) = 0;
    /// forward(), with errors naming the caller's line.
    Tensor operator()(const Tensor& x, Site site = Site::current());

    using Named = std::vector<std::pair<std::string, Tensor>>;
    /// A parameter that several modules share is listed once, under its first name.
    Named named_parameters() const;
    Named named_buffers() const;
    /// Parameters and buffers in PyTorch's order; what a checkpoint holds.
    Named state_dict() const;
    std::vector<Tensor> parameters() const;
    std::int64_t num_parameters() const;
    /// This module under the name "", then all below it, depth first.
    std::vector<std::pair<std::string, Module*>> named_modules();

    /// Copies values by name, converting to the dtype and device here. One ValueError lists every
    /// missing, extra and misshapen name, and then nothing was written; strict = false ignores
    /// missing and extra ones. A missing "num_batches_tracked" is no fault, as in PyTorch.
    void load_state_dict(const Named& state, bool strict = true);

    Module& train(bool on = true);
    Module& eval() { return train(false); }
    bool is_training() const { return training_; }
    /// Marks all parameters; false freezes them.
    Module& requires_grad_(bool value = true);
    /// Moves all parameters and buffers; converts those with a floating-point dtype.
    Module& to(Device device);
    Module& to(DType dtype);
    void zero_grad();
    /// The layers, indented, as PyTorch prints them.
    std::string str() const;
    /// What this layer's line says in parentheses.
    virtual std::string extra_repr() const { return ""; }
    virtual std::string type_name() const = 0;

  protected:
    /// Keeps the tensor under this name and gives it back, so that a member can be set in one line.
    Tensor register_parameter(std::string name, Tensor value);
    Tensor register_buffer(std::string name, Tensor value);
    template <class M>
    std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> m) {
        add_child(std::move(name), m);
        return m;
    }

  private:
    struct Walk;
    void add_child(std::string name, std::shared_ptr<Module> m);
    void check_name(const std::string& name) const;
    void collect(const std::string& prefix, Walk& walk) const;
    void modules_below(const std::string& prefix,
                       std::vector<std::pair<std::string, Module*>>& out);

    Named parameters_, buffers_;
    std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
    bool training_ = true;
};
using ModulePtr = std::shared_ptr<Module>;
std::ostream& operator<<(std::ostream& out, const Module& m);

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

class Conv2d : public Module {
  public:
    /// Conv2d(3, 64, {.kernel = 7, .stride = 2, .padding = 3, .bias = false})
    struct Args {
        Pair kernel = 1, stride = 1, padding = 0, dilation = 1;
        std::int64_t groups = 1;
        bool bias = true;
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

class BatchNorm2d : public Module {
  public:
    explicit BatchNorm2d(std::int64_t features, double eps = 1e-5, double momentum = 0.1);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "BatchNorm2d"; }
    Tensor weight, bias, running_mean, running_var, num_batches_tracked;

  private:
    double eps_, momentum_;
};

class LayerNorm : public Module {
  public:
    explicit LayerNorm(Shape shape, double eps = 1e-5);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "LayerNorm"; }
    Tensor weight, bias;

  private:
    Shape shape_;
    double eps_;
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

/// make<nn::Linear>(784, 10): a shared_ptr for Sequential and register_module.
template <class M, class... A>
std::shared_ptr<M> make(A&&... a) {
    return std::make_shared<M>(std::forward<A>(a)...);
}
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
