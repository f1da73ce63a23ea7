// All that differs between oneDNN 2.x and 3.x, and a thin call object without per-run allocation.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <vector>

#include "pippin/dtype.h"
#include "plan/plan.h"

namespace pippin::cpu::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

// Never destroyed: at exit the queue may still run a plan that nobody waited for.
inline const dnnl::engine& engine() {
    static const auto* e = new dnnl::engine(dnnl::engine::kind::cpu, 0);
    return *e;
}
inline const dnnl::stream& stream() {
    static const auto* s = new dnnl::stream(engine());
    return *s;
}

inline dnnl::memory::data_type data_type(DType t) {
    switch (t) {
        case DType::Float32:
            return dnnl::memory::data_type::f32;
        case DType::BFloat16:
            return dnnl::memory::data_type::bf16;
        case DType::Float16:
            return dnnl::memory::data_type::f16;
        case DType::Int32:
            return dnnl::memory::data_type::s32;
        default:
            return dnnl::memory::data_type::undef;
    }
}

/// Residual and activation of an epilogue. The residual is the post-op of index 0.
inline dnnl::primitive_attr attributes(plan::Activation activation, const Desc* residual) {
    dnnl::post_ops ops;
    if (residual) ops.append_binary(dnnl::algorithm::binary_add, *residual);
    const auto eltwise = [&ops](dnnl::algorithm algorithm) {
#if DNNL_VERSION_MAJOR >= 3
        ops.append_eltwise(algorithm, 0.f, 0.f);
#else
        ops.append_eltwise(1.f, algorithm, 0.f, 0.f);
#endif
    };
    switch (activation) {
        case plan::Activation::None:
            break;
        case plan::Activation::Relu:
            eltwise(dnnl::algorithm::eltwise_relu);
            break;
        case plan::Activation::Tanh:
            eltwise(dnnl::algorithm::eltwise_tanh);
            break;
        case plan::Activation::Gelu:
            eltwise(dnnl::algorithm::eltwise_gelu_erf);
            break;
    }
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attr.set_post_ops(ops);
    return attr;
}

/// True where the implementation found is a plain loop, which our own kernels beat.
inline bool is_reference(const dnnl::primitive_desc& pd) {
    const char* name = pd.impl_info_str();
    return name[0] == 'r' && name[1] == 'e' && name[2] == 'f';
}

/// True where the implementation found was written for depthwise convolutions.
inline bool is_depthwise(const dnnl::primitive_desc& pd) {
    return std::string_view(pd.impl_info_str()).find("_dw") != std::string_view::npos;
}

inline dnnl::matmul::primitive_desc matmul(const Desc& a, const Desc& b, const Desc& bias,
                                           const Desc& c, const dnnl::primitive_attr& attr) {
#if DNNL_VERSION_MAJOR >= 3
    return {engine(), a, b, bias, c, attr, true};
#else
    return {{a, b, bias, c}, attr, engine(), true};
#endif
}

/// A convolution's window, as oneDNN wants it: dilations count from 0.
struct Window {
    Dims stride, dilation, pad_low, pad_high;
};

inline dnnl::convolution_forward::primitive_desc conv_forward(const Desc& x, const Desc& w,
                                                              const Desc& bias, const Desc& y,
                                                              const Window& k,
                                                              const dnnl::primitive_attr& attr) {
    const auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
    return {engine(),   dnnl::prop_kind::forward_training,
            direct,     x,
            w,          bias,
            y,          k.stride,
            k.dilation, k.pad_low,
            k.pad_high, attr,
            true};
#else
    return {{dnnl::prop_kind::forward_training, direct, x, w, bias, y, k.stride, k.dilation,
             k.pad_low, k.pad_high},
            attr,
            engine(),
            true};
#endif
}

inline dnnl::convolution_backward_data::primitive_desc conv_grad_input(const Desc& dx,
                                                                       const Desc& w,
                                                                       const Desc& dy,
                                                                       const Window& k) {
    const auto direct = dnnl::algorithm::convolution_direct;
    const auto attr = attributes(plan::Activation::None, nullptr);
    const auto hint = conv_forward(dx, w, Desc(), dy, k, attr);
    if (!hint) return {};
#if DNNL_VERSION_MAJOR >= 3
    return {engine(),   direct,    dx,         w,    dy,   k.stride,
            k.dilation, k.pad_low, k.pad_high, hint, attr, true};
#else
    return {{direct, dx, w, dy, k.stride, k.dilation, k.pad_low, k.pad_high},
            attr,
            engine(),
            hint,
            true};
#endif
}

inline dnnl::convolution_backward_weights::primitive_desc conv_grad_weight(const Desc& x,
                                                                           const Desc& dw,
                                                                           const Desc& dy,
                                                                           const Window& k) {
    const auto direct = dnnl::algorithm::convolution_direct;
    const auto attr = attributes(plan::Activation::None, nullptr);
    const auto hint = conv_forward(x, dw, Desc(), dy, k, attr);
    if (!hint) return {};
#if DNNL_VERSION_MAJOR >= 3
    return {engine(),   direct,    x,          dw,   dy,   k.stride,
            k.dilation, k.pad_low, k.pad_high, hint, attr, true};
#else
    return {{direct, x, dw, dy, k.stride, k.dilation, k.pad_low, k.pad_high},
            attr,
            engine(),
            hint,
            true};
#endif
}

/// A primitive with memory objects for its arguments, made once. oneDNN's own execute() builds a
/// hash map each time; this costs a store per argument.
class Call {
  public:
    Call() = default;
    explicit Call(dnnl::primitive primitive) : primitive_(std::move(primitive)) {}

    /// Declares an argument and gives its number.
    int add(int arg, const Desc& desc) {
        memories_.emplace_back(desc, engine(), nullptr);
        args_.push_back({arg, memories_.back().get()});
        return static_cast<int>(memories_.size()) - 1;
    }
    void set(int number, void* data) {
        dnnl::error::wrap_c_api(
            dnnl_memory_set_data_handle(memories_[static_cast<std::size_t>(number)].get(), data),
            "could not set an argument's address");
    }
    void run() {
        dnnl::error::wrap_c_api(
            dnnl_primitive_execute(primitive_.get(), stream().get(), static_cast<int>(args_.size()),
                                   args_.data()),
            "could not run a primitive");
    }
    explicit operator bool() const { return static_cast<bool>(primitive_); }

  private:
    dnnl::primitive primitive_;
    std::vector<dnnl::memory> memories_;
    std::vector<dnnl_exec_arg_t> args_;
};

/// Weights packed from the user's format into the implementation's, or back.
class Packing {
  public:
    Packing() = default;
    Packing(const Desc& from, const Desc& to) {
        if (from == to) return;
        const dnnl::primitive_attr attr = attributes(plan::Activation::None, nullptr);
        const dnnl::reorder::primitive_desc pd(engine(), from, engine(), to, attr);
        call_ = Call(dnnl::reorder(pd));
        call_.add(DNNL_ARG_FROM, from);
        call_.add(DNNL_ARG_TO, to);
        if (const Desc pad = pd.scratchpad_desc(); pad.get_size() > 0) {
            call_.add(DNNL_ARG_SCRATCHPAD, pad);
            scratch_bytes = pad.get_size();
        }
        packed = true;
    }
    void run(void* from, void* to, void* pad) {
        call_.set(0, from);
        call_.set(1, to);
        if (scratch_bytes > 0) call_.set(2, pad);
        call_.run();
    }

    bool packed = false;
    std::size_t scratch_bytes = 0;

  private:
    Call call_;
};

}  // namespace pippin::cpu::onednn
