// ResNet-18 to ResNet-152, and the variant D.
#include <fmt/format.h>

#include "layers.h"

namespace pippin::models {
namespace {

using Variant = ResNet::Variant;

// The way around a block: the input itself, or a 1x1 convolution where the shape changes. D
// averages what the stride would skip.
std::shared_ptr<nn::Sequential> shortcut(std::int64_t in, std::int64_t out, std::int64_t stride,
                                         Variant variant) {
    if (in == out && stride == 1) return nullptr;
    if (variant == Variant::Plain)
        return nn::sequential(conv(in, out, 1, stride), nn::make<nn::BatchNorm2d>(out));
    const nn::ModulePtr pool =
        stride == 1 ? nn::ModulePtr(nn::make<nn::Identity>())
                    : nn::ModulePtr(nn::make<nn::AvgPool2d>(2, stride, 0, true, false));
    return nn::sequential(pool, conv(in, out, 1, 1), nn::make<nn::BatchNorm2d>(out));
}

// The first convolution, up to its batch norm.
nn::ModulePtr stem(std::int64_t width, Variant variant) {
    if (variant == Variant::Plain) return conv(3, width, 7, 2);
    const std::int64_t half = width / 2;
    return nn::sequential(conv(3, half, 3, 2), nn::make<nn::BatchNorm2d>(half),
                          nn::make<nn::ReLU>(), conv(half, half, 3, 1),
                          nn::make<nn::BatchNorm2d>(half), nn::make<nn::ReLU>(),
                          conv(half, width, 3, 1));
}

class BasicBlock : public nn::Module {
  public:
    BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride, Variant variant)
        : conv1_(register_module("conv1", conv(in, width, 3, stride))),
          bn1_(register_module("bn1", nn::make<nn::BatchNorm2d>(width))),
          relu_(register_module("relu", nn::make<nn::ReLU>())),
          conv2_(register_module("conv2", conv(width, width, 3, 1))),
          bn2_(register_module("bn2", nn::make<nn::BatchNorm2d>(width))),
          downsample_(shortcut(in, width, stride, variant)) {
        if (downsample_) register_module("downsample", downsample_);
        if (variant == Variant::D) nn::init::constant_(bn2_->weight, 0);
    }
    Tensor forward(const Tensor& x) override {
        Tensor y = (*relu_)((*bn1_)((*conv1_)(x)));
        y = (*bn2_)((*conv2_)(y));
        return (*relu_)(y + (downsample_ ? (*downsample_)(x) : x));
    }
    std::string type_name() const override { return "BasicBlock"; }

  private:
    std::shared_ptr<nn::Conv2d> conv1_;
    std::shared_ptr<nn::BatchNorm2d> bn1_;
    std::shared_ptr<nn::ReLU> relu_;
    std::shared_ptr<nn::Conv2d> conv2_;
    std::shared_ptr<nn::BatchNorm2d> bn2_;
    std::shared_ptr<nn::Sequential> downsample_;
};

class Bottleneck : public nn::Module {
  public:
    static constexpr std::int64_t kExpansion = 4;

    Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride, Variant variant)
        : conv1_(register_module("conv1", conv(in, width, 1, 1))),
          bn1_(register_module("bn1", nn::make<nn::BatchNorm2d>(width))),
          conv2_(register_module("conv2", conv(width, width, 3, stride))),
          bn2_(register_module("bn2", nn::make<nn::BatchNorm2d>(width))),
          conv3_(register_module("conv3", conv(width, width * kExpansion, 1, 1))),
          bn3_(register_module("bn3", nn::make<nn::BatchNorm2d>(width * kExpansion))),
          relu_(register_module("relu", nn::make<nn::ReLU>())),
          downsample_(shortcut(in, width * kExpansion, stride, variant)) {
        if (downsample_) register_module("downsample", downsample_);
        if (variant == Variant::D) nn::init::constant_(bn3_->weight, 0);
    }
    Tensor forward(const Tensor& x) override {
        Tensor y = (*relu_)((*bn1_)((*conv1_)(x)));
        y = (*relu_)((*bn2_)((*conv2_)(y)));
        y = (*bn3_)((*conv3_)(y));
        return (*relu_)(y + (downsample_ ? (*downsample_)(x) : x));
    }
    std::string type_name() const override { return "Bottleneck"; }

  private:
    std::shared_ptr<nn::Conv2d> conv1_;
    std::shared_ptr<nn::BatchNorm2d> bn1_;
    std::shared_ptr<nn::Conv2d> conv2_;
    std::shared_ptr<nn::BatchNorm2d> bn2_;
    std::shared_ptr<nn::Conv2d> conv3_;
    std::shared_ptr<nn::BatchNorm2d> bn3_;
    std::shared_ptr<nn::ReLU> relu_;
    std::shared_ptr<nn::Sequential> downsample_;
};

}  // namespace

std::shared_ptr<nn::Sequential> ResNet::stage(Block block, std::int64_t width, std::int64_t blocks,
                                              std::int64_t stride, Variant variant) {
    auto layers = nn::make<nn::Sequential>();
    for (std::int64_t i = 0; i < blocks; ++i) {
        const std::int64_t s =
            i == 0 ? stride : 1;  // only the first block of a stage halves the image
        if (block == Block::Basic) {
            layers->append(nn::make<BasicBlock>(channels_, width, s, variant));
            channels_ = width;
        } else {
            layers->append(nn::make<Bottleneck>(channels_, width, s, variant));
            channels_ = width * Bottleneck::kExpansion;
        }
    }
    return layers;
}

ResNet::ResNet(Block block, const std::vector<std::int64_t>& layers, std::int64_t num_classes,
               Variant variant, std::int64_t width)
    : channels_(width) {
    if (layers.size() != 4)
        throw ValueError(fmt::format("ResNet: expected the number of blocks of 4 stages, got {}",
                                     layers.size()));
    if (width < 2 || width % 2)
        throw ValueError(fmt::format("ResNet: width must be even and positive, got {}", width));
    conv1_ = register_module("conv1", stem(width, variant));
    bn1_ = register_module("bn1", nn::make<nn::BatchNorm2d>(width));
    relu_ = register_module("relu", nn::make<nn::ReLU>());
    maxpool_ = register_module("maxpool", nn::make<nn::MaxPool2d>(3, 2, 1));
    for (std::size_t i = 0; i < 4; ++i) {
        const std::int64_t stride = i == 0 ? 1 : 2;
        stages_[i] = register_module(fmt::format("layer{}", i + 1),
                                     stage(block, width << i, layers[i], stride, variant));
    }
    avgpool_ = register_module("avgpool", nn::make<nn::AdaptiveAvgPool2d>(1));
    fc = register_module("fc", nn::make<nn::Linear>(channels_, num_classes));
}

Tensor ResNet::forward(const Tensor& x) {
    Tensor y = (*maxpool_)((*relu_)((*bn1_)((*conv1_)(x))));
    for (const auto& s : stages_)
        y = (*s)(y);
    return (*fc)(flatten((*avgpool_)(y), 1));
}

std::shared_ptr<ResNet> resnet18(std::int64_t n) {
    return nn::make<ResNet>(ResNet::Block::Basic, std::vector<std::int64_t>{2, 2, 2, 2}, n);
}
std::shared_ptr<ResNet> resnet34(std::int64_t n) {
    return nn::make<ResNet>(ResNet::Block::Basic, std::vector<std::int64_t>{3, 4, 6, 3}, n);
}
std::shared_ptr<ResNet> resnet50(std::int64_t n) {
    return nn::make<ResNet>(ResNet::Block::Bottleneck, std::vector<std::int64_t>{3, 4, 6, 3}, n);
}
std::shared_ptr<ResNet> resnet101(std::int64_t n) {
    return nn::make<ResNet>(ResNet::Block::Bottleneck, std::vector<std::int64_t>{3, 4, 23, 3}, n);
}
std::shared_ptr<ResNet> resnet152(std::int64_t n) {
    return nn::make<ResNet>(ResNet::Block::Bottleneck, std::vector<std::int64_t>{3, 8, 36, 3}, n);
}
std::shared_ptr<ResNet> resnet50d(std::int64_t n) {
    return nn::make<ResNet>(ResNet::Block::Bottleneck, std::vector<std::int64_t>{3, 4, 6, 3}, n,
                            ResNet::Variant::D);
}

}  // namespace pippin::models
