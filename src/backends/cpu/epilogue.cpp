#include "backends/cpu/epilogue.h"

#include <cmath>

#include "backends/cpu/geometry.h"
#include "backends/cpu/threads.h"

namespace pippin::cpu {

namespace {

template <class T>
struct Accumulator {
    using type = T;
};
template <>
struct Accumulator<Half> {
    using type = float;
};
template <>
struct Accumulator<BFloat> {
    using type = float;
};

template <class A>
A activate(plan::Activation activation, A v) {
    switch (activation) {
        case plan::Activation::None:
            break;
        case plan::Activation::Relu:
            return v < A(0) ? A(0) : v;  // NaN stays
        case plan::Activation::Tanh:
            if constexpr (std::is_floating_point_v<A>) return std::tanh(v);
            break;
        case plan::Activation::Gelu:
            if constexpr (std::is_floating_point_v<A>)
                return v * A(0.5) * (A(1) + std::erf(v * A(0.70710678118654752440)));
            break;
    }
    return v;
}

}  // namespace

EpiloguePass::EpiloguePass(const plan::HeavyLaunch& launch, int channel_dim)
    : bias_(launch.epilogue.bias),
      residual_(launch.epilogue.residual),
      activation_(launch.epilogue.activation),
      output_(launch.output),
      channel_dim_(channel_dim) {
    if (bias_ >= 0) bias_view_ = launch.operands[static_cast<std::size_t>(bias_)];
    if (residual_ >= 0) residual_view_ = launch.operands[static_cast<std::size_t>(residual_)];
}

template <class T>
void EpiloguePass::run_typed(void* const* operands, void* output) const {
    using A = typename Accumulator<T>::type;
    const T* bias = bias_ >= 0 ? static_cast<const T*>(operands[bias_]) : nullptr;
    const T* residual = residual_ >= 0 ? static_cast<const T*>(operands[residual_]) : nullptr;
    T* out = static_cast<T*>(output);
    const std::int64_t total = output_.shape.numel();
    if (!bias && !residual && activation_ == plan::Activation::Relu &&
        (is_row_major(output_) || is_channels_last(output_))) {
        parallel_ranges(total, total, [&](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t i = begin; i < end; ++i)
                out[i] = A(out[i]) < A(0) ? T(A(0)) : out[i];
        });
        return;
    }
    const int rank = output_.shape.rank();
    std::int64_t bias_step = 0;
    if (bias)
        for (int d = 0; d < bias_view_.shape.rank(); ++d)
            if (bias_view_.shape[d] != 1)
                bias_step = bias_view_.strides[static_cast<std::size_t>(d)];
    parallel_ranges(total, total * 8, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) {
            std::int64_t rest = i, o = 0, r = 0, c = 0;
            for (int d = rank - 1; d >= 0; --d) {
                const auto k = static_cast<std::size_t>(d);
                const std::int64_t at = rest % output_.shape[d];
                rest /= output_.shape[d];
                o += at * output_.strides[k];
                if (residual) r += at * residual_view_.strides[k];
                if (d == channel_dim_) c = at;
            }
            A v = A(out[o]);
            if (bias) v += A(bias[c * bias_step]);
            if (residual) v += A(residual[r]);
            out[o] = T(activate(activation_, v));
        }
    });
}

void EpiloguePass::run(void* const* operands, void* output) const {
    if (!needed() || output_.shape.numel() == 0) return;
    switch (output_.dtype) {
        case DType::Float16:
            return run_typed<Half>(operands, output);
        case DType::BFloat16:
            return run_typed<BFloat>(operands, output);
        case DType::Float32:
            return run_typed<float>(operands, output);
        case DType::Float64:
            return run_typed<double>(operands, output);
        case DType::Int32:
            return run_typed<std::int32_t>(operands, output);
        case DType::Int64:
            return run_typed<std::int64_t>(operands, output);
        default:
            return;
    }
}

}  // namespace pippin::cpu
