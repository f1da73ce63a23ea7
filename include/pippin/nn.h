// Modules: parameters with names, and the layers of the first networks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pippin/ops.h"

namespace pippin::nn {

/// A named tree of parameters, buffers and child modules. Subclasses register theirs in the
/// constructor and override forward(). Names join with dots, as in PyTorch: "layer1.0.conv1.weight".
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
    Named named_parameters() const;
    Named named_buffers() const;
    /// Parameters and buffers; what a checkpoint holds.
    Named state_dict() const;
    std::vector<Tensor> parameters() const;
    std::int64_t num_parameters() const;
    std::vector<std::pair<std::string, Module*>> named_modules();

    /// Copies values by name. One ValueError lists every missing, extra and misshapen name;
    /// strict = false ignores missing and extra ones. Nothing is written when it raises.
    void load_state_dict(const Named& state, bool strict = true);

    Module& train(bool on = true);
    Module& eval() { return train(false); }
    bool is_training() const { return training_; }
    /// Moves or converts all floating-point parameters and buffers.
    Module& to(Device device);
    Module& to(DType dtype);
    void zero_grad();
    /// The layers, indented, as PyTorch prints them.
    std::string str() const;
    /// What this layer's line says in parentheses.
    virtual std::string extra_repr() const { return ""; }
    virtual std::string type_name() const = 0;

protected:
    Tensor register_parameter(std::string name, Tensor value);
    Tensor register_buffer(std::string name, Tensor value);
    template <class M> std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> m) {
        children_.emplace_back(std::move(name), m);
        return m;
    }

private:
    void collect(const std::string& prefix, Named* parameters, Named* buffers) const;
    Named parameters_, buffers_;
    std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
    bool training_ = true;
};
using ModulePtr = std::shared_ptr<Module>;

class Linear : public Module {
public:
    Linear(std::int64_t in, std::int64_t out, bool bias = true);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "Linear"; }
    Tensor weight, bias;
};

class Conv2d : public Module {
public:
    struct Args {
        std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1, groups = 1;
        bool bias = true;
    };
    Conv2d(std::int64_t in, std::int64_t out, Args args);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "Conv2d"; }
    Tensor weight, bias;

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

class MaxPool2d : public Module {
public:
    explicit MaxPool2d(std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0,
                       std::int64_t dilation = 1, bool ceil_mode = false);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "MaxPool2d"; }

private:
    Pool2dOptions o_;
};

class AvgPool2d : public Module {
public:
    explicit AvgPool2d(std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0,
                       bool ceil_mode = false, bool count_include_pad = true);
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "AvgPool2d"; }

private:
    Pool2dOptions o_;
};

class AdaptiveAvgPool2d : public Module {
public:
    AdaptiveAvgPool2d(std::int64_t out_h, std::int64_t out_w) : h_(out_h), w_(out_w) {}
    Tensor forward(const Tensor& x) override;
    std::string extra_repr() const override;
    std::string type_name() const override { return "AdaptiveAvgPool2d"; }

private:
    std::int64_t h_, w_;
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

private:
    std::vector<ModulePtr> layers_;
};

/// make<nn::Linear>(784, 10): a shared_ptr for Sequential and register_module.
template <class M, class... A> std::shared_ptr<M> make(A&&... a) {
    return std::make_shared<M>(std::forward<A>(a)...);
}

// --- initialisation: assigns new values, drawn from the generator of random.h ---
namespace init {
enum class Fan { In, Out };
void constant_(Tensor& t, double value);
void uniform_(Tensor& t, double low, double high);
void normal_(Tensor& t, double mean = 0, double std = 1);
/// He et al. 2015; `a` is the negative slope of the leaky ReLU that follows (gain sqrt(2 / (1 + a^2))).
void kaiming_uniform_(Tensor& t, double a = 0, Fan fan = Fan::In);
void kaiming_normal_(Tensor& t, double a = 0, Fan fan = Fan::In);
/// Glorot and Bengio 2010.
void xavier_uniform_(Tensor& t, double gain = 1);
void xavier_normal_(Tensor& t, double gain = 1);
} // namespace init

/// Scales all gradients so that their joint p-norm is at most max_norm; returns the norm before.
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double p = 2);
void clip_grad_value_(const std::vector<Tensor>& parameters, double value);

} // namespace pippin::nn
