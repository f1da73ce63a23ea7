// Vision transformers.
#include <fmt/format.h>

#include <cmath>

#include "layers.h"
#include "pippin/nn_activations.h"

namespace pippin::models {
namespace {

using Args = VisionTransformer::Args;
constexpr double kNormEps = 1e-6;

// One projection for queries, keys and values; torch's nn.MultiheadAttention by its names.
class SelfAttention : public nn::Module {
  public:
    SelfAttention(std::int64_t hidden, std::int64_t heads, double dropout)
        : heads_(heads), dropout_(dropout) {
        in_weight_ = register_parameter("in_proj_weight", zeros({3 * hidden, hidden}));
        in_bias_ = register_parameter("in_proj_bias", zeros({3 * hidden}));
        nn::init::xavier_uniform_(in_weight_);
        out_ = register_module("out_proj", nn::make<nn::Linear>(hidden, hidden));
        zero_bias(*out_);
    }
    Tensor forward(const Tensor& x) override {
        const std::int64_t hidden = x.size(2);
        const Tensor all = linear(x, in_weight_, in_bias_);
        const auto part = [&](std::int64_t i) {
            return split_heads(narrow(all, 2, i * hidden, hidden), heads_);
        };
        return (*out_)(attend(part(0), part(1), part(2), {}, is_training() ? dropout_ : 0));
    }
    std::string type_name() const override { return "SelfAttention"; }

  private:
    std::int64_t heads_;
    double dropout_;
    Tensor in_weight_, in_bias_;
    std::shared_ptr<nn::Linear> out_;
};

std::shared_ptr<nn::Linear> mlp_layer(std::int64_t in, std::int64_t out) {
    auto layer = nn::make<nn::Linear>(in, out);
    nn::init::xavier_uniform_(layer->weight);
    nn::init::normal_(layer->bias, 0, 1e-6);
    return layer;
}

class EncoderBlock : public nn::Module {
  public:
    explicit EncoderBlock(const Args& a) {
        const Shape width{a.hidden};
        ln_1_ = register_module("ln_1", nn::make<nn::LayerNorm>(width, kNormEps));
        attention_ = register_module(
            "self_attention", nn::make<SelfAttention>(a.hidden, a.heads, a.attention_dropout));
        dropout_ = register_module("dropout", nn::make<nn::Dropout>(a.dropout));
        ln_2_ = register_module("ln_2", nn::make<nn::LayerNorm>(width, kNormEps));
        mlp_ = register_module(
            "mlp", nn::sequential(mlp_layer(a.hidden, a.mlp), nn::make<nn::GELU>(),
                                  nn::make<nn::Dropout>(a.dropout), mlp_layer(a.mlp, a.hidden),
                                  nn::make<nn::Dropout>(a.dropout)));
    }
    Tensor forward(const Tensor& input) override {
        const Tensor x = (*dropout_)((*attention_)((*ln_1_)(input))) + input;
        return x + (*mlp_)((*ln_2_)(x));
    }
    std::string type_name() const override { return "EncoderBlock"; }

  private:
    std::shared_ptr<nn::LayerNorm> ln_1_, ln_2_;
    std::shared_ptr<SelfAttention> attention_;
    std::shared_ptr<nn::Dropout> dropout_;
    std::shared_ptr<nn::Sequential> mlp_;
};

// Children with names of their own, run one after the other.
class Chain : public nn::Module {
  public:
    void append(std::string name, nn::ModulePtr layer) {
        layers_.push_back(register_module(std::move(name), std::move(layer)));
    }
    Tensor forward(const Tensor& x) override {
        Tensor y = x;
        for (const auto& layer : layers_)
            y = (*layer)(y);
        return y;
    }
    std::string type_name() const override { return "Chain"; }

  private:
    std::vector<nn::ModulePtr> layers_;
};

class Encoder : public nn::Module {
  public:
    Encoder(std::int64_t length, const Args& a) {
        position_ = register_parameter("pos_embedding", normal({1, length, a.hidden}, 0, 0.02));
        dropout_ = register_module("dropout", nn::make<nn::Dropout>(a.dropout));
        layers_ = register_module("layers", nn::make<Chain>());
        for (std::int64_t i = 0; i < a.layers; ++i)
            layers_->append(fmt::format("encoder_layer_{}", i), nn::make<EncoderBlock>(a));
        ln_ = register_module("ln", nn::make<nn::LayerNorm>(Shape{a.hidden}, kNormEps));
    }
    Tensor forward(const Tensor& x) override {
        return (*ln_)((*layers_)((*dropout_)(x + position_)));
    }
    std::string type_name() const override { return "Encoder"; }

  private:
    Tensor position_;
    std::shared_ptr<nn::Dropout> dropout_;
    std::shared_ptr<Chain> layers_;
    std::shared_ptr<nn::LayerNorm> ln_;
};

}  // namespace

VisionTransformer::VisionTransformer(const Args& a) : args_(a) {
    if (a.patch_size < 1 || a.image_size < a.patch_size || a.image_size % a.patch_size)
        throw ValueError(fmt::format(
            "VisionTransformer: the image's size {} must be a multiple of the patch's, {}",
            a.image_size, a.patch_size));
    if (a.heads < 1 || a.hidden % a.heads)
        throw ValueError(fmt::format(
            "VisionTransformer: hidden {} must be a multiple of the number of heads, {}", a.hidden,
            a.heads));
    class_token_ = register_parameter("class_token", zeros({1, 1, a.hidden}));
    conv_proj_ = register_module(
        "conv_proj",
        nn::make<nn::Conv2d>(3, a.hidden, {.kernel = a.patch_size, .stride = a.patch_size}));
    // The reference cuts this normal distribution off at 2, which is dozens of deviations away.
    const auto fan_in = static_cast<double>(3 * a.patch_size * a.patch_size);
    nn::init::normal_(conv_proj_->weight, 0, std::sqrt(1 / fan_in));
    zero_bias(*conv_proj_);
    const std::int64_t side = a.image_size / a.patch_size;
    encoder_ = register_module("encoder", nn::make<Encoder>(side * side + 1, a));
    const auto heads = nn::make<Chain>();
    const auto head = nn::make<nn::Linear>(a.hidden, a.num_classes);
    nn::init::constant_(head->weight, 0);
    zero_bias(*head);
    heads->append("head", head);
    heads_ = register_module("heads", heads);
}

Tensor VisionTransformer::forward(const Tensor& x) {
    if (x.dim() != 4 || x.size(2) != args_.image_size || x.size(3) != args_.image_size)
        throw ValueError(fmt::format(
            "VisionTransformer: this one takes images (N, 3, {0}, {0}), got a tensor of shape {1}",
            args_.image_size, x.shape().str()));
    const std::int64_t n = x.size(0);
    const Tensor patches = flatten((*conv_proj_)(x), 2).transpose(1, 2);
    const Tensor token = cast(expand(class_token_, {n, 1, args_.hidden}), patches.dtype());
    const Tensor both[] = {token, patches};
    const Tensor y = (*encoder_)(cat(both, 1));
    return (*heads_)(y.index({Slice(), 0}));
}

std::shared_ptr<VisionTransformer> vit_b_16(std::int64_t n) {
    return nn::make<VisionTransformer>(Args{.num_classes = n});
}
std::shared_ptr<VisionTransformer> vit_b_32(std::int64_t n) {
    return nn::make<VisionTransformer>(Args{.patch_size = 32, .num_classes = n});
}
std::shared_ptr<VisionTransformer> vit_l_16(std::int64_t n) {
    return nn::make<VisionTransformer>(
        Args{.layers = 24, .heads = 16, .hidden = 1024, .mlp = 4096, .num_classes = n});
}

}  // namespace pippin::models
