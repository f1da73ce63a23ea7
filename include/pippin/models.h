// Ready-made networks. Parameters have the names and shapes of torchvision's, so that its weights
// load.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pippin/nn.h"

namespace pippin::models {

/// LeNet-5 (LeCun et al. 1998) for 28x28 images of one channel, in its usual modern form: tanh,
/// average pooling, full connections. 61,706 parameters, named as in PyTorch's nn.Sequential:
/// 0: Conv2d(1, 6, 5, padding 2)  3: Conv2d(6, 16, 5)  7: Linear(400, 120)  9: Linear(120, 84)
/// 11: Linear(84, num_classes); between them Tanh (1, 4, 8, 10), AvgPool2d (2, 5) and Flatten (6).
std::shared_ptr<nn::Sequential> lenet5(std::int64_t num_classes = 10);

/// Residual networks (He et al. 2016) for images of three channels, with the stride in the 3x3
/// convolution of a bottleneck, as torchvision has it.
class ResNet : public nn::Module {
  public:
    enum class Block { Basic, Bottleneck };
    /// `layers`: the number of blocks in each of the four stages.
    ResNet(Block block, const std::vector<std::int64_t>& layers, std::int64_t num_classes = 1000);
    Tensor forward(const Tensor& x) override;
    std::string type_name() const override { return "ResNet"; }

    std::shared_ptr<nn::Linear> fc;  ///< the classifier

  private:
    std::shared_ptr<nn::Sequential> stage(Block block, std::int64_t width, std::int64_t blocks,
                                          std::int64_t stride);

    std::shared_ptr<nn::Conv2d> conv1_;
    std::shared_ptr<nn::BatchNorm2d> bn1_;
    std::shared_ptr<nn::ReLU> relu_;
    std::shared_ptr<nn::MaxPool2d> maxpool_;
    std::shared_ptr<nn::Sequential> stages_[4];
    std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool_;
    std::int64_t channels_ =
        64;  ///< what the next block takes in, while the network is being built
};

std::shared_ptr<ResNet> resnet18(std::int64_t num_classes = 1000);
std::shared_ptr<ResNet> resnet34(std::int64_t num_classes = 1000);
std::shared_ptr<ResNet> resnet50(std::int64_t num_classes = 1000);
std::shared_ptr<ResNet> resnet101(std::int64_t num_classes = 1000);
std::shared_ptr<ResNet> resnet152(std::int64_t num_classes = 1000);

/// A network by name; ValueError listing names() for an unknown one.
nn::ModulePtr create(std::string_view name, std::int64_t num_classes);
/// "lenet5", "resnet18", ...
std::vector<std::string> names();

}  // namespace pippin::models
