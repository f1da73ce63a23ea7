// AlexNet.
#include "pippin/models.h"

namespace pippin::models {

AlexNet::AlexNet(std::int64_t num_classes, double dropout, std::int64_t hidden) {
    const auto relu = [] { return nn::make<nn::ReLU>(); };
    const auto pool = [] { return nn::make<nn::MaxPool2d>(3, 2); };
    features_ = register_module(
        "features",
        nn::sequential(nn::make<nn::Conv2d>(3, 64, {.kernel = 11, .stride = 4, .padding = 2}),
                       relu(), pool(), nn::make<nn::Conv2d>(64, 192, {.kernel = 5, .padding = 2}),
                       relu(), pool(), nn::make<nn::Conv2d>(192, 384, {.kernel = 3, .padding = 1}),
                       relu(), nn::make<nn::Conv2d>(384, 256, {.kernel = 3, .padding = 1}), relu(),
                       nn::make<nn::Conv2d>(256, 256, {.kernel = 3, .padding = 1}), relu(),
                       pool()));
    avgpool_ = register_module("avgpool", nn::make<nn::AdaptiveAvgPool2d>(6));
    classifier_ = register_module(
        "classifier",
        nn::sequential(nn::make<nn::Dropout>(dropout), nn::make<nn::Linear>(256 * 6 * 6, hidden),
                       relu(), nn::make<nn::Dropout>(dropout), nn::make<nn::Linear>(hidden, hidden),
                       relu(), nn::make<nn::Linear>(hidden, num_classes)));
}

Tensor AlexNet::forward(const Tensor& x) {
    return (*classifier_)(flatten((*avgpool_)((*features_)(x)), 1));
}

std::shared_ptr<AlexNet> alexnet(std::int64_t num_classes) {
    return nn::make<AlexNet>(num_classes);
}

}  // namespace pippin::models
