// The fully connected layer.
#include "nn/repr.h"

namespace pippin::nn {

// kaiming_uniform with a = sqrt(5), PyTorch's default, is uniform within 1 / sqrt(fan in).
static Tensor uniform_by_fan_in(const Shape& shape, std::int64_t fan_in) {
    const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
    return uniform(shape, -bound, bound);
}

Linear::Linear(std::int64_t in, std::int64_t out, bool with_bias) {
    if (in < 0 || out < 0)
        throw ValueError(
            fmt::format("Linear: in_features {} and out_features {} cannot be negative", in, out));
    weight = register_parameter("weight", uniform_by_fan_in({out, in}, in));
    if (with_bias) bias = register_parameter("bias", uniform_by_fan_in({out}, in));
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

std::string Linear::extra_repr() const {
    return fmt::format("in_features={}, out_features={}, bias={}", weight.size(1), weight.size(0),
                       repr(bias.defined()));
}

}  // namespace pippin::nn
