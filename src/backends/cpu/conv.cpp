// Convolution and its two gradients through oneDNN: feature maps in NHWC, weights as the user keeps
// them, packed within the launch where the chosen implementation wants another format.
#include <algorithm>

#include "backends/cpu/conv_depthwise.h"
#include "backends/cpu/conv_plain.h"
#include "backends/cpu/conv_product.h"
#include "backends/cpu/conv_small.h"
#include "backends/cpu/convert.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/geometry.h"
#include "backends/cpu/heavy.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/split_product.h"

namespace pippin::cpu {

namespace {

using onednn::Call;
using onednn::Desc;
using onednn::Dims;
using onednn::Packing;
using onednn::Tag;

onednn::Window window_of(const ConvGeometry& g) {
    onednn::Window k;
    for (int d = 0; d < 2; ++d) {
        const std::int64_t in = d == 0 ? g.h : g.w, out = d == 0 ? g.oh : g.ow;
        const std::int64_t kernel = d == 0 ? g.kh : g.kw;
        k.stride.push_back(g.stride[d]);
        k.dilation.push_back(g.dilation[d] - 1);
        k.pad_low.push_back(g.pad[d]);
        // What the last window leaves over counts as negative padding.
        const std::int64_t reach = (out - 1) * g.stride[d] + (kernel - 1) * g.dilation[d] + 1;
        k.pad_high.push_back(reach - in - g.pad[d]);
    }
    return k;
}

Desc map_desc(const plan::Operand& o) {
    return {
        {o.shape[0], o.shape[1], o.shape[2], o.shape[3]}, onednn::data_type(o.dtype), Tag::nhwc};
}

Dims weight_dims(const ConvGeometry& g) {
    if (g.groups == 1) return {g.co, g.ci, g.kh, g.kw};
    return {g.groups, g.co / g.groups, g.ci / g.groups, g.kh, g.kw};
}

// The user's row-major weights.
Desc weight_desc(const ConvGeometry& g, DType dtype) {
    return {weight_dims(g), onednn::data_type(dtype), g.groups == 1 ? Tag::oihw : Tag::goihw};
}
Desc any_weight_desc(const ConvGeometry& g, DType dtype) {
    return {weight_dims(g), onednn::data_type(dtype), Tag::any};
}

class Forward : public HeavyKernel {
  public:
    Forward(const plan::HeavyLaunch& launch, const ConvGeometry& g) : rest_(launch, 1) {
        const plan::Operand& x = launch.operands[0];
        const plan::Operand& w = launch.operands[1];
        bias_ = launch.epilogue.bias;
        residual_ = launch.epilogue.residual;
        const Desc dx = map_desc(x), dw = any_weight_desc(g, w.dtype);
        const Desc dy = map_desc(launch.output);
        Desc db, dr;
        if (bias_ >= 0)
            db = {{g.co},
                  onednn::data_type(launch.operands[static_cast<std::size_t>(bias_)].dtype),
                  Tag::a};
        if (residual_ >= 0) dr = map_desc(launch.operands[static_cast<std::size_t>(residual_)]);
        // oneDNN's relu turns NaN into 0, so it runs as a pass of our own.
        plan::Activation activation = launch.epilogue.activation;
        if (activation == plan::Activation::Relu) activation = plan::Activation::None;
        const onednn::Window k = window_of(g);
        auto pd = onednn::conv_forward(
            dx, dw, db, dy, k, onednn::attributes(activation, residual_ >= 0 ? &dr : nullptr));
        if (!pd || onednn::is_reference(pd)) {
            const auto bare = onednn::conv_forward(
                dx, dw, db, dy, k, onednn::attributes(plan::Activation::None, nullptr));
            if (bare && (!pd || !onednn::is_reference(bare))) {
                pd = bare;
                residual_ = -1;
                activation = plan::Activation::None;
            }
        }
        if (!pd) throw Error("oneDNN has no convolution for this launch");
        rest_.drop_bias();
        if (residual_ >= 0) rest_.drop_residual();
        if (activation != plan::Activation::None) rest_.drop_activation();

        call_ = Call(dnnl::convolution_forward(pd));
        call_.add(DNNL_ARG_SRC, pd.src_desc());
        call_.add(DNNL_ARG_WEIGHTS, pd.weights_desc());
        call_.add(DNNL_ARG_DST, pd.dst_desc());
        call_.add(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
        if (bias_ >= 0) bias_arg_ = call_.add(DNNL_ARG_BIAS, pd.bias_desc());
        if (residual_ >= 0)
            residual_arg_ = call_.add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, dr);
        packing_ = Packing(weight_desc(g, w.dtype), pd.weights_desc());
        weights_at_ = align64(std::max(pd.scratchpad_desc().get_size(), packing_.scratch_bytes));
        scratch_bytes = weights_at_ + (packing_.packed ? pd.weights_desc().get_size() : 0);
    }

    void run(void* const* operands, void* output) override {
        void* weights = operands[1];
        if (packing_.packed) {
            weights = static_cast<char*>(scratch) + weights_at_;
            packing_.run(operands[1], weights, scratch);
        }
        call_.set(0, operands[0]);
        call_.set(1, weights);
        call_.set(2, output);
        call_.set(3, scratch);
        if (bias_ >= 0) call_.set(bias_arg_, operands[bias_]);
        if (residual_ >= 0) call_.set(residual_arg_, operands[residual_]);
        call_.run();
        rest_.run(operands, output);
    }

  private:
    Call call_;
    Packing packing_;
    EpiloguePass rest_;
    int bias_ = -1, residual_ = -1, bias_arg_ = -1, residual_arg_ = -1;
    std::size_t weights_at_ = 0;
};

class GradInput : public HeavyKernel {
  public:
    GradInput(const plan::HeavyLaunch& launch, const ConvGeometry& g) {
        const plan::Operand& w = launch.operands[1];
        const auto pd =
            onednn::conv_grad_input(map_desc(launch.output), any_weight_desc(g, w.dtype),
                                    map_desc(launch.operands[0]), window_of(g));
        if (!pd) throw Error("oneDNN has no convolution for this launch");
        call_ = Call(dnnl::convolution_backward_data(pd));
        call_.add(DNNL_ARG_DIFF_DST, pd.diff_dst_desc());
        call_.add(DNNL_ARG_WEIGHTS, pd.weights_desc());
        call_.add(DNNL_ARG_DIFF_SRC, pd.diff_src_desc());
        call_.add(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
        packing_ = Packing(weight_desc(g, w.dtype), pd.weights_desc());
        weights_at_ = align64(std::max(pd.scratchpad_desc().get_size(), packing_.scratch_bytes));
        scratch_bytes = weights_at_ + (packing_.packed ? pd.weights_desc().get_size() : 0);
    }

    void run(void* const* operands, void* output) override {
        void* weights = operands[1];
        if (packing_.packed) {
            weights = static_cast<char*>(scratch) + weights_at_;
            packing_.run(operands[1], weights, scratch);
        }
        call_.set(0, operands[0]);
        call_.set(1, weights);
        call_.set(2, output);
        call_.set(3, scratch);
        call_.run();
    }

  private:
    Call call_;
    Packing packing_;
    std::size_t weights_at_ = 0;
};

class GradWeight : public HeavyKernel {
  public:
    GradWeight(const plan::HeavyLaunch& launch, const ConvGeometry& g) {
        const DType dtype = launch.output.dtype;
        const auto pd =
            onednn::conv_grad_weight(map_desc(launch.operands[0]), any_weight_desc(g, dtype),
                                     map_desc(launch.operands[1]), window_of(g));
        if (!pd) throw Error("oneDNN has no convolution for this launch");
        call_ = Call(dnnl::convolution_backward_weights(pd));
        call_.add(DNNL_ARG_SRC, pd.src_desc());
        call_.add(DNNL_ARG_DIFF_DST, pd.diff_dst_desc());
        call_.add(DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc());
        call_.add(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
        packing_ = Packing(pd.diff_weights_desc(), weight_desc(g, dtype));
        weights_at_ = align64(std::max(pd.scratchpad_desc().get_size(), packing_.scratch_bytes));
        scratch_bytes = weights_at_ + (packing_.packed ? pd.diff_weights_desc().get_size() : 0);
    }

    void run(void* const* operands, void* output) override {
        void* weights = packing_.packed ? static_cast<char*>(scratch) + weights_at_ : output;
        call_.set(0, operands[0]);
        call_.set(1, operands[1]);
        call_.set(2, weights);
        call_.set(3, scratch);
        call_.run();
        if (packing_.packed) packing_.run(weights, output, scratch);
    }

  private:
    Call call_;
    Packing packing_;
    std::size_t weights_at_ = 0;
};

// The launch with every operand and the output in the memory order that the kernels here take,
// and with halves as float32 where `widen`.
plan::HeavyLaunch normalised(const plan::HeavyLaunch& launch, int weights, bool widen) {
    plan::HeavyLaunch wanted = launch;
    const auto fix = [widen](plan::Operand& o, bool is_weight) {
        const DType dtype = widen && is_half(o.dtype) ? DType::Float32 : o.dtype;
        const plan::Order order =
            is_weight || o.shape.rank() != 4 ? plan::Order::RowMajor : plan::Order::ChannelsLast;
        if (dtype != o.dtype || !is_dense(o, order)) o = dense_operand(o, order, dtype);
    };
    for (std::size_t i = 0; i < wanted.operands.size(); ++i) {
        const bool is_bias = static_cast<int>(i) == launch.epilogue.bias;
        fix(wanted.operands[i], is_bias || static_cast<int>(i) == weights);
    }
    fix(wanted.output, weights < 0);
    return wanted;
}

bool same_launch(const plan::HeavyLaunch& a, const plan::HeavyLaunch& b) {
    for (std::size_t i = 0; i < a.operands.size(); ++i)
        if (a.operands[i].dtype != b.operands[i].dtype ||
            a.operands[i].strides != b.operands[i].strides)
            return false;
    return a.output.dtype == b.output.dtype && a.output.strides == b.output.strides;
}

enum class Direction { Forward, GradInput, GradWeight };

ConvGeometry geometry_of(const plan::HeavyLaunch& l, Direction direction) {
    switch (direction) {
        case Direction::Forward:
            return conv_geometry(l, l.operands[0], l.operands[1], l.output);
        case Direction::GradInput:
            return conv_geometry(l, l.output, l.operands[1], l.operands[0]);
        case Direction::GradWeight:
            break;
    }
    return conv_geometry(l, l.operands[0], l.output, l.operands[1]);
}

// Whether oneDNN has a depthwise weight gradient that is faster than ours (bench/heavy with oneDNN
// 2.6): kernels up to 3 wide in float32. For wider or dilated ones it runs grouped code that fills
// one lane of each vector.
bool onednn_is_depthwise(const plan::HeavyLaunch& l, const ConvGeometry& g) {
    if (g.groups == 1 || l.output.dtype != DType::Float32) return false;
    const auto pd =
        onednn::conv_grad_weight(map_desc(l.operands[0]), any_weight_desc(g, l.output.dtype),
                                 map_desc(l.operands[1]), window_of(g));
    return pd && onednn::is_depthwise(pd);
}

std::unique_ptr<HeavyKernel> make_library(const plan::HeavyLaunch& launch, Direction direction) {
    const ConvGeometry g = geometry_of(launch, direction);
    switch (direction) {
        case Direction::Forward:
            return std::make_unique<Forward>(launch, g);
        case Direction::GradInput:
            return std::make_unique<GradInput>(launch, g);
        case Direction::GradWeight:
            break;
    }
    if (!onednn_is_depthwise(launch, g))
        if (auto depthwise = make_conv_depthwise(launch, g)) return depthwise;
    return std::make_unique<GradWeight>(launch, g);
}

// oneDNN 2.6's weight gradient in bfloat16 is wrong where rows are dilated and the input's channels
// do not fill vectors of 16: it counts what lies behind them.
bool onednn_is_wrong(const ConvGeometry& g, DType dtype, Direction direction) {
    return direction == Direction::GradWeight && dtype == DType::BFloat16 && g.dilation[0] > 1 &&
           g.ci / g.groups % 16 != 0;
}

std::unique_ptr<HeavyKernel> make_onednn(const plan::HeavyLaunch& launch, Direction direction) {
    const ConvGeometry g = geometry_of(launch, direction);
    if (auto small = make_conv_small(launch, g)) return small;
    const auto library = [direction](const plan::HeavyLaunch& l) {
        return make_library(l, direction);
    };
    if (auto split = make_conv_split(launch, g, library)) return split;
    if (auto split = make_conv_split_grad_weight(launch, g, library)) return split;
    if (auto product = make_conv_product(launch, g)) return product;
    return library(launch);
}

std::unique_ptr<HeavyKernel> make(const plan::HeavyLaunch& launch, Direction direction) {
    const ConvGeometry g = geometry_of(launch, direction);
    const DType dtype = launch.output.dtype;
    const bool known = dtype == DType::Float32 || is_half(dtype);
    if (!known || g.empty()) return make_conv_plain(launch, g);
    const int weights = direction == Direction::GradWeight ? -1 : 1;
    // Ours reads both half types itself; oneDNN below has none for float16.
    if (direction == Direction::GradWeight && is_half(dtype)) {
        const plan::HeavyLaunch wanted = normalised(launch, weights, false);
        if (auto depthwise = make_conv_depthwise(wanted, g))
            return same_launch(launch, wanted)
                       ? std::move(depthwise)
                       : make_converted(launch, wanted, [g](const plan::HeavyLaunch& l) {
                             return make_conv_depthwise(l, g);
                         });
    }
    const auto inner = [direction](const plan::HeavyLaunch& l) {
        return make_onednn(l, direction);
    };
    if (dtype != DType::Float16 && !onednn_is_wrong(g, dtype, direction)) {
        try {
            const plan::HeavyLaunch wanted = normalised(launch, weights, false);
            if (same_launch(launch, wanted)) return inner(launch);
            return make_converted(launch, wanted, inner);
        } catch (const std::exception&) {
            if (dtype == DType::Float32) throw;
            // bfloat16 on a processor without instructions for it: as float32
        }
    }
    return make_converted(launch, normalised(launch, weights, true), inner);
}

}  // namespace

std::unique_ptr<HeavyKernel> make_conv2d(const plan::HeavyLaunch& launch) {
    return make(launch, Direction::Forward);
}
std::unique_ptr<HeavyKernel> make_conv2d_grad_input(const plan::HeavyLaunch& launch) {
    return make(launch, Direction::GradInput);
}
std::unique_ptr<HeavyKernel> make_conv2d_grad_weight(const plan::HeavyLaunch& launch) {
    return make(launch, Direction::GradWeight);
}

}  // namespace pippin::cpu
