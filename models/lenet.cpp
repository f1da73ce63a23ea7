// LeNet-5.
#include "pippin/models.h"

namespace pippin::models {

std::shared_ptr<nn::Sequential> lenet5(std::int64_t num_classes) {
    return nn::sequential(nn::make<nn::Conv2d>(1, 6, {.kernel = 5, .padding = 2}),  // 28 x 28
                          nn::make<nn::Tanh>(),
                          nn::make<nn::AvgPool2d>(2),                  // 14 x 14
                          nn::make<nn::Conv2d>(6, 16, {.kernel = 5}),  // 10 x 10
                          nn::make<nn::Tanh>(),
                          nn::make<nn::AvgPool2d>(2),  // 5 x 5
                          nn::make<nn::Flatten>(), nn::make<nn::Linear>(16 * 5 * 5, 120),
                          nn::make<nn::Tanh>(), nn::make<nn::Linear>(120, 84), nn::make<nn::Tanh>(),
                          nn::make<nn::Linear>(84, num_classes));
}

}  // namespace pippin::models
