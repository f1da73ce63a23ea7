// From a case's module name and constructor arguments to a module and a way to call it.
#pragma once

#include <functional>

#include "pippin/module.h"
#include "torch/fixture.h"

namespace pippin::test {

struct MadeModule {
    std::shared_ptr<nn::Module> module;
    /// Inputs may be undefined (None); outputs in PyTorch's order.
    std::function<std::vector<Tensor>(const std::vector<Tensor>&)> call;
};

/// Constructor arguments: positional ones, then named ones. `call` holds the call's named ones.
struct ModuleArgs {
    Json args, named, call;

    Json get(std::size_t position, const char* name) const {
        return position < args.size() ? args[position]
               : named.contains(name) ? named[name]
                                      : Json();
    }
    template <class T>
    T get(std::size_t position, const char* name, T otherwise) const {
        const Json j = get(position, name);
        return j.is_null() ? otherwise : j.get<T>();
    }
};

using ModuleTable = std::map<std::string, std::function<MadeModule(const ModuleArgs&)>>;
const ModuleTable& module_table();

void add_activation_modules(ModuleTable& t);
void add_norm_modules(ModuleTable& t);
void add_recurrent_modules(ModuleTable& t);
void add_layer_modules(ModuleTable& t);
void add_attention_modules(ModuleTable& t);

/// The argument is given by name alone.
inline constexpr std::size_t kNamed = 99;

inline Tensor optional(const std::vector<Tensor>& x, std::size_t i) {
    return i < x.size() ? x[i] : Tensor{};
}

/// A module of one input.
template <class M, class... A>
MadeModule made(A&&... a) {
    auto m = std::make_shared<M>(std::forward<A>(a)...);
    nn::Module* plain = m.get();
    return {m, [plain](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{(*plain)(x.at(0))};
            }};
}

}  // namespace pippin::test
