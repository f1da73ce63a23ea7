// Sequential, and the descriptions of the small layers.
#include "nn/repr.h"

namespace pippin::nn {

Sequential::Sequential(std::initializer_list<ModulePtr> layers) {
    for (const ModulePtr& layer : layers)
        append(layer);
}

Sequential& Sequential::append(ModulePtr layer) {
    register_module(std::to_string(layers_.size()), layer);
    layers_.push_back(std::move(layer));
    return *this;
}

Tensor Sequential::forward(const Tensor& x) {
    Tensor y = x;
    for (const ModulePtr& layer : layers_)
        y = (*layer)(y);
    return y;
}

Dropout::Dropout(double p) : p_(p) {
    if (!(p >= 0 && p <= 1))
        throw ValueError(fmt::format("Dropout: p must be from 0 to 1, got {}", p));
}

std::string Dropout::extra_repr() const { return fmt::format("p={}, inplace=False", repr(p_)); }

std::string Flatten::extra_repr() const {
    return fmt::format("start_dim={}, end_dim={}", start_, end_);
}

}  // namespace pippin::nn
