// VGG-11, 13, 16 and 19, with and without batch norm.
#include "layers.h"

namespace pippin::models {
namespace {

// The paper's tables A, B, D and E.
const std::vector<std::int64_t> kA{64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0};
const std::vector<std::int64_t> kB{64, 64, 0, 128, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0};
const std::vector<std::int64_t> kD{64, 64,  0,   128, 128, 0,   256, 256, 256,
                                   0,  512, 512, 512, 0,   512, 512, 512, 0};
const std::vector<std::int64_t> kE{64,  64,  0,   128, 128, 0,   256, 256, 256, 256, 0,
                                   512, 512, 512, 512, 0,   512, 512, 512, 512, 0};

std::shared_ptr<nn::Linear> linear_layer(std::int64_t in, std::int64_t out) {
    auto layer = nn::make<nn::Linear>(in, out);
    nn::init::normal_(layer->weight, 0, 0.01);
    zero_bias(*layer);
    return layer;
}

}  // namespace

VGG::VGG(const std::vector<std::int64_t>& layers, bool batch_norm, std::int64_t num_classes,
         double dropout, std::int64_t hidden) {
    features_ = nn::make<nn::Sequential>();
    std::int64_t channels = 3;
    for (const std::int64_t out : layers) {
        if (out == 0) {
            features_->append(nn::make<nn::MaxPool2d>(2));
            continue;
        }
        const auto layer = nn::make<nn::Conv2d>(channels, out, {.kernel = 3, .padding = 1});
        nn::init::kaiming_normal_(layer->weight, 0, nn::init::Fan::Out);
        zero_bias(*layer);
        features_->append(layer);
        if (batch_norm) features_->append(nn::make<nn::BatchNorm2d>(out));
        features_->append(nn::make<nn::ReLU>());
        channels = out;
    }
    register_module("features", features_);
    avgpool_ = register_module("avgpool", nn::make<nn::AdaptiveAvgPool2d>(7));
    classifier_ = register_module(
        "classifier", nn::sequential(linear_layer(channels * 7 * 7, hidden), nn::make<nn::ReLU>(),
                                     nn::make<nn::Dropout>(dropout), linear_layer(hidden, hidden),
                                     nn::make<nn::ReLU>(), nn::make<nn::Dropout>(dropout),
                                     linear_layer(hidden, num_classes)));
}

Tensor VGG::forward(const Tensor& x) {
    return (*classifier_)(flatten((*avgpool_)((*features_)(x)), 1));
}

std::shared_ptr<VGG> vgg11(std::int64_t n) { return nn::make<VGG>(kA, false, n); }
std::shared_ptr<VGG> vgg13(std::int64_t n) { return nn::make<VGG>(kB, false, n); }
std::shared_ptr<VGG> vgg16(std::int64_t n) { return nn::make<VGG>(kD, false, n); }
std::shared_ptr<VGG> vgg19(std::int64_t n) { return nn::make<VGG>(kE, false, n); }
std::shared_ptr<VGG> vgg11_bn(std::int64_t n) { return nn::make<VGG>(kA, true, n); }
std::shared_ptr<VGG> vgg13_bn(std::int64_t n) { return nn::make<VGG>(kB, true, n); }
std::shared_ptr<VGG> vgg16_bn(std::int64_t n) { return nn::make<VGG>(kD, true, n); }
std::shared_ptr<VGG> vgg19_bn(std::int64_t n) { return nn::make<VGG>(kE, true, n); }

}  // namespace pippin::models
