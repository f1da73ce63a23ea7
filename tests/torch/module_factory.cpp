#include "torch/module_factory.h"

#include "pippin/nn.h"
#include "pippin/nn_activations.h"
#include "pippin/nn_rnn.h"

namespace pippin::test {

using Tensors = std::vector<Tensor>;

void add_activation_modules(ModuleTable& t) {
    using A = const ModuleArgs&;
    t["Sigmoid"] = [](A) { return made<nn::Sigmoid>(); };
    t["SiLU"] = [](A) { return made<nn::SiLU>(); };
    t["Mish"] = [](A) { return made<nn::Mish>(); };
    t["SELU"] = [](A) { return made<nn::SELU>(); };
    t["Hardswish"] = [](A) { return made<nn::Hardswish>(); };
    t["Hardsigmoid"] = [](A) { return made<nn::Hardsigmoid>(); };
    t["ReLU6"] = [](A) { return made<nn::ReLU6>(); };
    t["Softsign"] = [](A) { return made<nn::Softsign>(); };
    t["LogSigmoid"] = [](A) { return made<nn::LogSigmoid>(); };
    t["Tanhshrink"] = [](A) { return made<nn::Tanhshrink>(); };
    t["ReLU"] = [](A) { return made<nn::ReLU>(); };
    t["Tanh"] = [](A) { return made<nn::Tanh>(); };
    t["ELU"] = [](A a) { return made<nn::ELU>(a.get(0, "alpha", 1.0)); };
    t["CELU"] = [](A a) { return made<nn::CELU>(a.get(0, "alpha", 1.0)); };
    t["GELU"] = [](A a) {
        const bool tanh = a.get(kNamed, "approximate", std::string()) == "tanh";
        return made<nn::GELU>(tanh ? Gelu::Tanh : Gelu::Erf);
    };
    t["LeakyReLU"] = [](A a) { return made<nn::LeakyReLU>(a.get(0, "negative_slope", 0.01)); };
    t["Hardtanh"] = [](A a) {
        return made<nn::Hardtanh>(a.get(0, "min_val", -1.0), a.get(1, "max_val", 1.0));
    };
    t["Softplus"] = [](A a) {
        return made<nn::Softplus>(a.get(0, "beta", 1.0), a.get(1, "threshold", 20.0));
    };
    t["Softshrink"] = [](A a) { return made<nn::Softshrink>(a.get(0, "lambd", 0.5)); };
    t["Hardshrink"] = [](A a) { return made<nn::Hardshrink>(a.get(0, "lambd", 0.5)); };
    t["Threshold"] = [](A a) {
        return made<nn::Threshold>(a.get(0, "threshold", 0.0), a.get(1, "value", 0.0));
    };
    t["GLU"] = [](A a) { return made<nn::GLU>(a.get<std::int64_t>(0, "dim", -1)); };
    t["PReLU"] = [](A a) { return made<nn::PReLU>(a.get<std::int64_t>(0, "num_parameters", 1)); };
    t["Softmax"] = [](A a) { return made<nn::Softmax>(a.get<std::int64_t>(0, "dim", 0)); };
    t["LogSoftmax"] = [](A a) { return made<nn::LogSoftmax>(a.get<std::int64_t>(0, "dim", 0)); };
    t["Softmin"] = [](A a) { return made<nn::Softmin>(a.get<std::int64_t>(0, "dim", 0)); };
}

namespace {

// None is an instance norm's 0.
template <class M>
auto momentum(const ModuleArgs& a) {
    const bool none = a.named.contains("momentum") && a.named["momentum"].is_null();
    const double given = none ? 0 : a.get(kNamed, "momentum", 0.1);
    if constexpr (std::is_base_of_v<nn::BatchNorm, M>)
        return none ? std::optional<double>() : std::optional<double>(given);
    else
        return given;
}

template <class M>
void add_channel_norm(ModuleTable& t, const char* name, bool flags) {
    t[name] = [flags](const ModuleArgs& a) {
        return made<M>(a.get<std::int64_t>(0, "num_features", 0), a.get(kNamed, "eps", 1e-5),
                       momentum<M>(a), a.get(kNamed, "affine", flags),
                       a.get(kNamed, "track_running_stats", flags), a.get(kNamed, "bias", true));
    };
}

Shape shape_argument(const ModuleArgs& a) { return Shape(a.args.at(0).get<Dims>()); }

}  // namespace

void add_norm_modules(ModuleTable& t) {
    using A = const ModuleArgs&;
    add_channel_norm<nn::BatchNorm1d>(t, "BatchNorm1d", true);
    add_channel_norm<nn::BatchNorm2d>(t, "BatchNorm2d", true);
    add_channel_norm<nn::InstanceNorm1d>(t, "InstanceNorm1d", false);
    add_channel_norm<nn::InstanceNorm2d>(t, "InstanceNorm2d", false);
    t["GroupNorm"] = [](A a) {
        return made<nn::GroupNorm>(a.get<std::int64_t>(0, "", 0), a.get<std::int64_t>(1, "", 0),
                                   a.get(kNamed, "eps", 1e-5), a.get(kNamed, "affine", true),
                                   a.get(kNamed, "bias", true));
    };
    t["LayerNorm"] = [](A a) {
        return made<nn::LayerNorm>(shape_argument(a), a.get(kNamed, "eps", 1e-5),
                                   a.get(kNamed, "elementwise_affine", true),
                                   a.get(kNamed, "bias", true));
    };
    t["RMSNorm"] = [](A a) {
        std::optional<double> eps;
        if (a.named.contains("eps")) eps = a.named["eps"].get<double>();
        return made<nn::RMSNorm>(shape_argument(a), eps, a.get(kNamed, "elementwise_affine", true));
    };
}

namespace {

nn::RecurrentOptions recurrent_options(const ModuleArgs& a) {
    return {.num_layers = a.get<std::int64_t>(kNamed, "num_layers", 1),
            .bias = a.get(kNamed, "bias", true),
            .batch_first = a.get(kNamed, "batch_first", false),
            .dropout = a.get(kNamed, "dropout", 0.0),
            .bidirectional = a.get(kNamed, "bidirectional", false)};
}

// A call with "enforce_sorted" goes through packed sequences; its second input is their lengths.
bool is_packed(const ModuleArgs& a) { return a.call.contains("enforce_sorted"); }
nn::PackedSequence packed(const Tensors& x, const ModuleArgs& a) {
    return nn::pack_padded_sequence(x[0], x[1].to_vector<std::int64_t>(),
                                    a.get(kNamed, "batch_first", false),
                                    a.call["enforce_sorted"].get<bool>());
}
Tensor padded(const nn::PackedSequence& p, const ModuleArgs& a) {
    return nn::pad_packed_sequence(p, a.get(kNamed, "batch_first", false)).output;
}

nn::RNN::Nonlinearity nonlinearity(const ModuleArgs& a) {
    return a.get(kNamed, "nonlinearity", std::string()) == "relu" ? nn::RNN::Nonlinearity::Relu
                                                                  : nn::RNN::Nonlinearity::Tanh;
}

}  // namespace

void add_recurrent_modules(ModuleTable& t) {
    using A = const ModuleArgs&;
    t["RNN"] = [](A a) -> MadeModule {
        auto m =
            std::make_shared<nn::RNN>(a.args[0].get<std::int64_t>(), a.args[1].get<std::int64_t>(),
                                      recurrent_options(a), nonlinearity(a));
        if (is_packed(a))
            return {m, [m = m.get(), a](const Tensors& x) {
                        const auto r = (*m)(packed(x, a), optional(x, 2));
                        return Tensors{padded(r.output, a), r.h};
                    }};
        return {m, [m = m.get()](const Tensors& x) {
                    const auto r = (*m)(x[0], optional(x, 1));
                    return Tensors{r.output, r.h};
                }};
    };
    t["GRU"] = [](A a) -> MadeModule {
        auto m = std::make_shared<nn::GRU>(a.args[0].get<std::int64_t>(),
                                           a.args[1].get<std::int64_t>(), recurrent_options(a));
        if (is_packed(a))
            return {m, [m = m.get(), a](const Tensors& x) {
                        const auto r = (*m)(packed(x, a), optional(x, 2));
                        return Tensors{padded(r.output, a), r.h};
                    }};
        return {m, [m = m.get()](const Tensors& x) {
                    const auto r = (*m)(x[0], optional(x, 1));
                    return Tensors{r.output, r.h};
                }};
    };
    t["LSTM"] = [](A a) -> MadeModule {
        auto m = std::make_shared<nn::LSTM>(a.args[0].get<std::int64_t>(),
                                            a.args[1].get<std::int64_t>(), recurrent_options(a));
        if (is_packed(a))
            return {m, [m = m.get(), a](const Tensors& x) {
                        const auto r = (*m)(packed(x, a), {optional(x, 2), optional(x, 3)});
                        return Tensors{padded(r.output, a), r.state.h, r.state.c};
                    }};
        return {m, [m = m.get()](const Tensors& x) {
                    const auto r = (*m)(x[0], nn::LSTM::State{optional(x, 1), optional(x, 2)});
                    return Tensors{r.output, r.state.h, r.state.c};
                }};
    };
    t["RNNCell"] = [](A a) -> MadeModule {
        auto m = std::make_shared<nn::RNNCell>(a.args[0].get<std::int64_t>(),
                                               a.args[1].get<std::int64_t>(),
                                               a.get(kNamed, "bias", true), nonlinearity(a));
        return {m, [m = m.get()](const Tensors& x) { return Tensors{(*m)(x[0], optional(x, 1))}; }};
    };
    t["GRUCell"] = [](A a) -> MadeModule {
        auto m = std::make_shared<nn::GRUCell>(a.args[0].get<std::int64_t>(),
                                               a.args[1].get<std::int64_t>(),
                                               a.get(kNamed, "bias", true));
        return {m, [m = m.get()](const Tensors& x) { return Tensors{(*m)(x[0], optional(x, 1))}; }};
    };
    t["LSTMCell"] = [](A a) -> MadeModule {
        auto m = std::make_shared<nn::LSTMCell>(a.args[0].get<std::int64_t>(),
                                                a.args[1].get<std::int64_t>(),
                                                a.get(kNamed, "bias", true));
        return {m, [m = m.get()](const Tensors& x) {
                    const auto s = (*m)(x[0], nn::LSTM::State{optional(x, 1), optional(x, 2)});
                    return Tensors{s.h, s.c};
                }};
    };
}

const ModuleTable& module_table() {
    static const ModuleTable table = [] {
        ModuleTable t;
        add_activation_modules(t);
        add_norm_modules(t);
        add_recurrent_modules(t);
        add_layer_modules(t);
        add_attention_modules(t);
        return t;
    }();
    return table;
}

}  // namespace pippin::test
