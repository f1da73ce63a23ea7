// Layers of nn_layers.h, padding modes of convolutions, attention.
#include "pippin/nn_attention.h"
#include "pippin/nn_layers.h"
#include "torch/module_factory.h"

namespace pippin::test {
namespace {

using Tensors = std::vector<Tensor>;
using A = const ModuleArgs&;

// One number or two.
nn::Pair pair_of(const Json& j, std::int64_t otherwise) {
    if (j.is_null()) return otherwise;
    if (j.is_number()) return j.get<std::int64_t>();
    return {j[0].get<std::int64_t>(), j[1].get<std::int64_t>()};
}

std::int64_t number_of(A a, std::size_t position, const char* name, std::int64_t otherwise) {
    return a.get<std::int64_t>(position, name, otherwise);
}

// Numbers or a name.
nn::ConvPadding<std::int64_t> line_padding(A a) {
    const Json j = a.get(kNamed, "padding");
    if (j.is_string()) return j.get<std::string>();
    return number_of(a, kNamed, "padding", 0);
}
nn::ConvPadding<nn::Pair> maps_padding(A a) {
    const Json j = a.get(kNamed, "padding");
    if (j.is_string()) return j.get<std::string>();
    return pair_of(j, 0);
}

PadMode padding_mode(A a) {
    const auto name = a.get(kNamed, "padding_mode", std::string("zeros"));
    return name == "reflect"     ? PadMode::Reflect
           : name == "replicate" ? PadMode::Replicate
           : name == "circular"  ? PadMode::Circular
                                 : PadMode::Constant;
}

MadeModule upsample(A a) {
    InterpolateOptions o;
    if (a.named.contains("size")) o.size = a.named["size"].get<Dims>();
    if (const Json j = a.get(kNamed, "scale_factor"); j.is_number())
        o.scale = {j.get<double>()};
    else if (j.is_array())
        o.scale = j.get<std::vector<double>>();
    if (a.get(kNamed, "mode", std::string("nearest")) == "bilinear") o.mode = Interpolation::Linear;
    o.align_corners = a.get(kNamed, "align_corners", false);
    return made<nn::Upsample>(o);
}

nn::TransformerOptions transformer_options(A a) {
    nn::TransformerOptions o;
    o.dim_feedforward = number_of(a, kNamed, "dim_feedforward", 2048);
    o.dropout = a.get(kNamed, "dropout", 0.1);
    if (a.get(kNamed, "activation", std::string()) == "gelu")
        o.activation = [](const Tensor& x) { return gelu(x); };
    o.layer_norm_eps = a.get(kNamed, "layer_norm_eps", 1e-5);
    o.batch_first = a.get(kNamed, "batch_first", false);
    o.norm_first = a.get(kNamed, "norm_first", false);
    o.bias = a.get(kNamed, "bias", true);
    return o;
}

}  // namespace

void add_layer_modules(ModuleTable& t) {
    t["Embedding"] = [](A a) {
        std::optional<std::int64_t> padding;
        if (a.named.contains("padding_idx")) padding = a.named["padding_idx"].get<std::int64_t>();
        return made<nn::Embedding>(number_of(a, 0, "", 0), number_of(a, 1, "", 0), padding);
    };
    t["Conv1d"] = [](A a) {
        return made<nn::Conv1d>(number_of(a, 0, "", 0), number_of(a, 1, "", 0),
                                nn::Conv1d::Args{.kernel = number_of(a, 2, "", 1),
                                                 .stride = number_of(a, kNamed, "stride", 1),
                                                 .padding = line_padding(a),
                                                 .dilation = number_of(a, kNamed, "dilation", 1),
                                                 .groups = number_of(a, kNamed, "groups", 1),
                                                 .bias = a.get(kNamed, "bias", true),
                                                 .padding_mode = padding_mode(a)});
    };
    t["Conv2d"] = [](A a) {
        return made<nn::Conv2d>(number_of(a, 0, "", 0), number_of(a, 1, "", 0),
                                nn::Conv2d::Args{.kernel = pair_of(a.get(2, ""), 1),
                                                 .stride = pair_of(a.get(kNamed, "stride"), 1),
                                                 .padding = maps_padding(a),
                                                 .dilation = pair_of(a.get(kNamed, "dilation"), 1),
                                                 .groups = number_of(a, kNamed, "groups", 1),
                                                 .bias = a.get(kNamed, "bias", true),
                                                 .padding_mode = padding_mode(a)});
    };
    t["ConvTranspose2d"] = [](A a) {
        return made<nn::ConvTranspose2d>(
            number_of(a, 0, "", 0), number_of(a, 1, "", 0),
            nn::ConvTranspose2d::Args{.kernel = pair_of(a.get(2, ""), 1),
                                      .stride = pair_of(a.get(kNamed, "stride"), 1),
                                      .padding = pair_of(a.get(kNamed, "padding"), 0),
                                      .output_padding = pair_of(a.get(kNamed, "output_padding"), 0),
                                      .groups = number_of(a, kNamed, "groups", 1),
                                      .bias = a.get(kNamed, "bias", true),
                                      .dilation = pair_of(a.get(kNamed, "dilation"), 1)});
    };
    t["MaxPool1d"] = [](A a) {
        return made<nn::MaxPool1d>(number_of(a, 0, "", 1), number_of(a, kNamed, "stride", 0),
                                   number_of(a, kNamed, "padding", 0),
                                   number_of(a, kNamed, "dilation", 1),
                                   a.get(kNamed, "ceil_mode", false));
    };
    t["AvgPool1d"] = [](A a) {
        return made<nn::AvgPool1d>(number_of(a, 0, "", 1), number_of(a, kNamed, "stride", 0),
                                   number_of(a, kNamed, "padding", 0),
                                   a.get(kNamed, "ceil_mode", false),
                                   a.get(kNamed, "count_include_pad", true));
    };
    t["AdaptiveAvgPool1d"] = [](A a) {
        return made<nn::AdaptiveAvgPool1d>(number_of(a, 0, "", 1));
    };
    t["AdaptiveMaxPool2d"] = [](A a) {
        return made<nn::AdaptiveMaxPool2d>(pair_of(a.get(0, ""), 1));
    };
    t["Upsample"] = upsample;
    t["PixelShuffle"] = [](A a) { return made<nn::PixelShuffle>(number_of(a, 0, "", 1)); };
    t["Unflatten"] = [](A a) {
        return made<nn::Unflatten>(number_of(a, 0, "", 0), Shape(a.args.at(1).get<Dims>()));
    };
    t["Dropout"] = [](A a) { return made<nn::Dropout>(a.get(0, "p", 0.5)); };
    t["Dropout2d"] = [](A a) { return made<nn::Dropout2d>(a.get(0, "p", 0.5)); };
    t["AlphaDropout"] = [](A a) { return made<nn::AlphaDropout>(a.get(0, "p", 0.5)); };
}

void add_attention_modules(ModuleTable& t) {
    t["MultiheadAttention"] = [](A a) -> MadeModule {
        nn::AttentionOptions o;
        o.bias = a.get(kNamed, "bias", true);
        o.batch_first = a.get(kNamed, "batch_first", false);
        o.kdim = number_of(a, kNamed, "kdim", 0), o.vdim = number_of(a, kNamed, "vdim", 0);
        auto m = std::make_shared<nn::MultiheadAttention>(number_of(a, 0, "", 0),
                                                          number_of(a, 1, "", 0), o);
        const bool need_weights = a.call.value("need_weights", false);
        return {m, [m = m.get(), need_weights](const Tensors& x) {
                    const nn::AttentionMasks masks{.key_padding_mask = optional(x, 4),
                                                   .attn_mask = optional(x, 3)};
                    const auto r = (*m)(x[0], x[1], x[2], masks, need_weights);
                    return need_weights ? Tensors{r.output, r.weights} : Tensors{r.output};
                }};
    };
    t["TransformerEncoderLayer"] = [](A a) -> MadeModule {
        auto m = std::make_shared<nn::TransformerEncoderLayer>(
            number_of(a, 0, "", 0), number_of(a, 1, "", 0), transformer_options(a));
        return {m, [m = m.get()](const Tensors& x) {
                    return Tensors{
                        (*m)(x[0], nn::EncoderMasks{.src_mask = optional(x, 1),
                                                    .src_key_padding_mask = optional(x, 2)})};
                }};
    };
    t["TransformerEncoder"] = [](A a) -> MadeModule {
        const std::int64_t width = number_of(a, 0, "", 0);
        nn::ModulePtr norm;
        if (a.get(kNamed, "norm", false)) norm = std::make_shared<nn::LayerNorm>(Shape{width});
        auto m = std::make_shared<nn::TransformerEncoder>(
            width, number_of(a, 1, "", 0), number_of(a, 2, "", 0), transformer_options(a), norm);
        return {m, [m = m.get()](const Tensors& x) {
                    return Tensors{
                        (*m)(x[0], nn::EncoderMasks{.src_mask = optional(x, 1),
                                                    .src_key_padding_mask = optional(x, 2)})};
                }};
    };
}

}  // namespace pippin::test
