// Ready-made networks. Parameters have the names and shapes of the reference's (torchvision, or
// timm where a line says so; bert.h has Hugging Face's BERT), so that its weights load. New
// networks start as the reference's do. All take images (N, 3, H, W) unless a line says otherwise
// and give logits (N, num_classes).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pippin/nn.h"

namespace pippin::models {

/// Training: zeroes whole samples (the first dim) with probability p and scales the others by
/// 1 / (1 - p), so that a residual block is left out at random; else the identity. Huang et al.
/// 2016. ValueError unless p is from 0 to 1 and x has a dim.
Tensor stochastic_depth(const Tensor& x, double p, bool training, Site site = Site::current());

/// LeNet-5 (LeCun et al. 1998) for 28x28 images of one channel, in its usual modern form: tanh,
/// average pooling, full connections. 61,706 parameters, named as in PyTorch's nn.Sequential:
/// 0: Conv2d(1, 6, 5, padding 2)  3: Conv2d(6, 16, 5)  7: Linear(400, 120)  9: Linear(120, 84)
/// 11: Linear(84, num_classes); between them Tanh (1, 4, 8, 10), AvgPool2d (2, 5) and Flatten (6).
std::shared_ptr<nn::Sequential> lenet5(std::int64_t num_classes = 10);

/// AlexNet in its form of one tower (Krizhevsky 2014); images of 63 x 63 and more. Dropout before
/// the first two linear layers, of width `hidden`.
class AlexNet : public nn::Module {
  public:
    explicit AlexNet(std::int64_t num_classes = 1000, double dropout = 0.5,
                     std::int64_t hidden = 4096);
    Tensor forward(const Tensor& x) override;
    std::string type_name() const override { return "AlexNet"; }

  private:
    std::shared_ptr<nn::Sequential> features_, classifier_;
    std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool_;
};
std::shared_ptr<AlexNet> alexnet(std::int64_t num_classes = 1000);

/// VGG (Simonyan and Zisserman 2015). `layers` has the output channels of each 3x3 convolution, and
/// 0 for each max pooling by 2; `hidden` is the width of the two linear layers before the last.
class VGG : public nn::Module {
  public:
    VGG(const std::vector<std::int64_t>& layers, bool batch_norm, std::int64_t num_classes = 1000,
        double dropout = 0.5, std::int64_t hidden = 4096);
    Tensor forward(const Tensor& x) override;
    std::string type_name() const override { return "VGG"; }

  private:
    std::shared_ptr<nn::Sequential> features_, classifier_;
    std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool_;
};
std::shared_ptr<VGG> vgg11(std::int64_t num_classes = 1000);
std::shared_ptr<VGG> vgg13(std::int64_t num_classes = 1000);
std::shared_ptr<VGG> vgg16(std::int64_t num_classes = 1000);
std::shared_ptr<VGG> vgg19(std::int64_t num_classes = 1000);
std::shared_ptr<VGG> vgg11_bn(std::int64_t num_classes = 1000);
std::shared_ptr<VGG> vgg13_bn(std::int64_t num_classes = 1000);
std::shared_ptr<VGG> vgg16_bn(std::int64_t num_classes = 1000);
std::shared_ptr<VGG> vgg19_bn(std::int64_t num_classes = 1000);

/// Residual networks (He et al. 2016) for images of three channels, with the stride in the 3x3
/// convolution of a bottleneck, as torchvision has it.
class ResNet : public nn::Module {
  public:
    enum class Block { Basic, Bottleneck };
    /// D (He et al. 2019, timm's names): three 3x3 convolutions at the start, average pooling in
    /// the way around a block that halves the image, and blocks that start as the identity.
    enum class Variant { Plain, D };
    /// `layers`: the number of blocks in each of the four stages; `width`: channels of the first.
    ResNet(Block block, const std::vector<std::int64_t>& layers, std::int64_t num_classes = 1000,
           Variant variant = Variant::Plain, std::int64_t width = 64);
    Tensor forward(const Tensor& x) override;
    std::string type_name() const override { return "ResNet"; }

    std::shared_ptr<nn::Linear> fc;  ///< the classifier

  private:
    std::shared_ptr<nn::Sequential> stage(Block block, std::int64_t width, std::int64_t blocks,
                                          std::int64_t stride, Variant variant);

    nn::ModulePtr conv1_;
    std::shared_ptr<nn::BatchNorm2d> bn1_;
    std::shared_ptr<nn::ReLU> relu_;
    std::shared_ptr<nn::MaxPool2d> maxpool_;
    std::shared_ptr<nn::Sequential> stages_[4];
    std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool_;
    std::int64_t channels_;  ///< what the next block takes in, while the network is being built
};

std::shared_ptr<ResNet> resnet18(std::int64_t num_classes = 1000);
std::shared_ptr<ResNet> resnet34(std::int64_t num_classes = 1000);
std::shared_ptr<ResNet> resnet50(std::int64_t num_classes = 1000);
std::shared_ptr<ResNet> resnet101(std::int64_t num_classes = 1000);
std::shared_ptr<ResNet> resnet152(std::int64_t num_classes = 1000);

std::shared_ptr<ResNet> resnet50d(std::int64_t num_classes = 1000);  ///< timm's resnet50d

/// ConvMixer (Trockman and Kolter 2022) with ReLU, as timm has it: patches of `patch` x `patch`,
/// then `depth` times a depthwise convolution of size `kernel` (odd) with a way around it and a
/// pointwise one, each followed by ReLU and batch norm.
class ConvMixer : public nn::Module {
  public:
    ConvMixer(std::int64_t dim, std::int64_t depth, std::int64_t kernel, std::int64_t patch,
              std::int64_t num_classes = 1000);
    Tensor forward(const Tensor& x) override;
    std::string type_name() const override { return "ConvMixer"; }

  private:
    std::shared_ptr<nn::Sequential> stem_, blocks_;
    std::shared_ptr<nn::Linear> head_;
};
std::shared_ptr<ConvMixer> convmixer_768_32(std::int64_t num_classes = 1000);

/// EfficientNet (Tan and Le 2019): inverted residual blocks with squeeze-excite, whose widths and
/// depths are those of B0 times `width` and `depth`.
class EfficientNet : public nn::Module {
  public:
    struct Args {
        double width = 1, depth = 1;
        double dropout = 0.2;           ///< before the classifier
        double stochastic_depth = 0.2;  ///< of the last block; the others' fall off linearly to 0
        double bn_eps = 1e-5, bn_momentum = 0.1;
        std::int64_t num_classes = 1000;
    };
    explicit EfficientNet(const Args& args);
    Tensor forward(const Tensor& x) override;
    std::string type_name() const override { return "EfficientNet"; }

  private:
    std::shared_ptr<nn::Sequential> features_, classifier_;
    std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool_;
};
/// B0 to B7 by their number.
std::shared_ptr<EfficientNet> efficientnet_b(int number, std::int64_t num_classes = 1000);

/// Vision transformer (Dosovitskiy et al. 2021) for square images of one size. The class token and
/// the position embedding belong to that size.
class VisionTransformer : public nn::Module {
  public:
    struct Args {
        std::int64_t image_size = 224, patch_size = 16, layers = 12, heads = 12, hidden = 768,
                     mlp = 3072, num_classes = 1000;
        double dropout = 0, attention_dropout = 0;
    };
    explicit VisionTransformer(const Args& args);
    Tensor forward(const Tensor& x) override;
    std::string type_name() const override { return "VisionTransformer"; }

  private:
    Args args_;
    Tensor class_token_;
    std::shared_ptr<nn::Conv2d> conv_proj_;
    nn::ModulePtr encoder_, heads_;
};
std::shared_ptr<VisionTransformer> vit_b_16(std::int64_t num_classes = 1000);
std::shared_ptr<VisionTransformer> vit_b_32(std::int64_t num_classes = 1000);
std::shared_ptr<VisionTransformer> vit_l_16(std::int64_t num_classes = 1000);

/// What the registry knows of a network.
struct Info {
    std::string name;
    Shape input;                ///< of one sample: (C, H, W), or (L) token ids
    std::int64_t num_classes;   ///< of the published weights
    std::int64_t vocabulary;    ///< token ids are below it; 0 for networks that take images
    std::int64_t batch;         ///< samples a step in the published measurements
    std::int64_t smallest = 1;  ///< side of the smallest image that it takes
    bool one_size = false;      ///< takes images of `input` and of no other size
};
/// All networks, families together.
const std::vector<Info>& list();
/// ValueError listing names() for an unknown one.
const Info& info(std::string_view name);
/// A network by name; ValueError listing names() for an unknown one.
nn::ModulePtr create(std::string_view name, std::int64_t num_classes);
/// "lenet5", "alexnet", ...
std::vector<std::string> names();
/// Random samples for a network: normal values, or uniform token ids.
Tensor example_input(const Info& info, std::int64_t batch);

}  // namespace pippin::models
