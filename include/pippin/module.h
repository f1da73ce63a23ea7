// Module: parameters with names, in a tree.
#pragma once

#include <cstdint>
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

    /// Layers of one input override it. Those of several (losses, recurrent layers, attention) have
    /// overloads of their own beside it; without an override it raises ValueError.
    virtual Tensor forward(const Tensor& x);
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

/// make<nn::Linear>(784, 10): a shared_ptr for Sequential and register_module.
template <class M, class... A>
std::shared_ptr<M> make(A&&... a) {
    return std::make_shared<M>(std::forward<A>(a)...);
}

}  // namespace pippin::nn
