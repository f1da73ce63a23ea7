// EfficientNet-B0 to B7.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layers.h"
#include "pippin/nn_activations.h"

namespace pippin::models {
namespace {

using Args = EfficientNet::Args;

// The nearest multiple of 8, not below nine tenths.
std::int64_t adjusted(double channels) {
    const std::int64_t near =
        std::max<std::int64_t>(8, static_cast<std::int64_t>(channels + 4) / 8 * 8);
    return static_cast<double>(near) < 0.9 * channels ? near + 8 : near;
}

// A row of the paper's table 1.
struct Stage {
    std::int64_t expand, kernel, stride, in, out, layers;
};
constexpr Stage kStages[] = {
    {1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},   {6, 5, 2, 24, 40, 2},   {6, 3, 2, 40, 80, 3},
    {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4}, {6, 3, 1, 192, 320, 1},
};

enum class Activation { None, SiLU };

// Convolution, batch norm and activation, under the numbers 0, 1 and 2.
std::shared_ptr<nn::Sequential> conv_norm(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                          std::int64_t stride, std::int64_t groups,
                                          Activation activation, const Args& a) {
    auto layers = nn::sequential(conv(in, out, kernel, stride, groups),
                                 nn::make<nn::BatchNorm2d>(out, a.bn_eps, a.bn_momentum));
    if (activation == Activation::SiLU) layers->append(nn::make<nn::SiLU>());
    return layers;
}

std::shared_ptr<nn::Conv2d> pointwise(std::int64_t in, std::int64_t out) {
    auto layer = nn::make<nn::Conv2d>(in, out, nn::Conv2d::Args{});
    nn::init::kaiming_normal_(layer->weight, 0, nn::init::Fan::Out);
    zero_bias(*layer);
    return layer;
}

// Scales each channel by what a small network makes of all channels' averages. Hu et al. 2018.
class SqueezeExcitation : public nn::Module {
  public:
    SqueezeExcitation(std::int64_t channels, std::int64_t squeezed)
        : fc1_(register_module("fc1", pointwise(channels, squeezed))),
          fc2_(register_module("fc2", pointwise(squeezed, channels))) {}
    Tensor forward(const Tensor& x) override {
        const Tensor mean = adaptive_avg_pool2d(x, 1, 1);
        return sigmoid((*fc2_)(silu((*fc1_)(mean)))) * x;
    }
    std::string type_name() const override { return "SqueezeExcitation"; }

  private:
    std::shared_ptr<nn::Conv2d> fc1_, fc2_;
};

// The inverted residual block: expand, depthwise, squeeze-excite, project.
class MBConv : public nn::Module {
  public:
    MBConv(const Stage& s, double stochastic_depth_p, const Args& a)
        : around_(s.stride == 1 && s.in == s.out), p_(stochastic_depth_p) {
        const std::int64_t wide = adjusted(static_cast<double>(s.in * s.expand));
        block_ = nn::make<nn::Sequential>();
        if (wide != s.in) block_->append(conv_norm(s.in, wide, 1, 1, 1, Activation::SiLU, a));
        block_->append(conv_norm(wide, wide, s.kernel, s.stride, wide, Activation::SiLU, a));
        block_->append(nn::make<SqueezeExcitation>(wide, std::max<std::int64_t>(1, s.in / 4)));
        block_->append(conv_norm(wide, s.out, 1, 1, 1, Activation::None, a));
        register_module("block", block_);
    }
    Tensor forward(const Tensor& x) override {
        const Tensor y = (*block_)(x);
        return around_ ? stochastic_depth(y, p_, is_training()) + x : y;
    }
    std::string extra_repr() const override { return fmt::format("stochastic_depth={}", p_); }
    std::string type_name() const override { return "MBConv"; }

  private:
    bool around_;
    double p_;
    std::shared_ptr<nn::Sequential> block_;
};

}  // namespace

EfficientNet::EfficientNet(const Args& a) {
    if (!(a.width > 0 && a.depth > 0))
        throw ValueError(fmt::format("EfficientNet: width and depth must be positive, got {}, {}",
                                     a.width, a.depth));
    std::vector<Stage> stages(std::begin(kStages), std::end(kStages));
    std::int64_t blocks = 0, block = 0;
    for (Stage& s : stages) {
        s.in = adjusted(static_cast<double>(s.in) * a.width);
        s.out = adjusted(static_cast<double>(s.out) * a.width);
        s.layers = static_cast<std::int64_t>(std::ceil(static_cast<double>(s.layers) * a.depth));
        blocks += s.layers;
    }
    features_ = nn::sequential(conv_norm(3, stages[0].in, 3, 2, 1, Activation::SiLU, a));
    for (Stage s : stages) {
        auto layers = nn::make<nn::Sequential>();
        for (std::int64_t i = 0; i < s.layers; ++i, ++block) {
            const double p =
                a.stochastic_depth * static_cast<double>(block) / static_cast<double>(blocks);
            layers->append(nn::make<MBConv>(s, p, a));
            s.in = s.out;  // only the first block of a stage changes the shape
            s.stride = 1;
        }
        features_->append(layers);
    }
    const std::int64_t last = stages.back().out;
    features_->append(conv_norm(last, 4 * last, 1, 1, 1, Activation::SiLU, a));
    register_module("features", features_);
    avgpool_ = register_module("avgpool", nn::make<nn::AdaptiveAvgPool2d>(1));
    const auto linear = nn::make<nn::Linear>(4 * last, a.num_classes);
    const double bound = 1 / std::sqrt(static_cast<double>(a.num_classes));
    nn::init::uniform_(linear->weight, -bound, bound);
    zero_bias(*linear);
    classifier_ =
        register_module("classifier", nn::sequential(nn::make<nn::Dropout>(a.dropout), linear));
}

Tensor EfficientNet::forward(const Tensor& x) {
    return (*classifier_)(flatten((*avgpool_)((*features_)(x)), 1));
}

std::shared_ptr<EfficientNet> efficientnet_b(int number, std::int64_t num_classes) {
    struct Scale {
        double width, depth, dropout;
    };
    constexpr Scale kScales[] = {{1.0, 1.0, 0.2}, {1.0, 1.1, 0.2}, {1.1, 1.2, 0.3},
                                 {1.2, 1.4, 0.3}, {1.4, 1.8, 0.4}, {1.6, 2.2, 0.4},
                                 {1.8, 2.6, 0.5}, {2.0, 3.1, 0.5}};
    if (number < 0 || number > 7)
        throw ValueError(fmt::format("efficientnet_b: there are B0 to B7, not B{}", number));
    const Scale& s = kScales[number];
    Args a{.width = s.width, .depth = s.depth, .dropout = s.dropout, .num_classes = num_classes};
    if (number >= 5) a.bn_eps = 1e-3, a.bn_momentum = 0.01;
    return nn::make<EfficientNet>(a);
}

}  // namespace pippin::models
