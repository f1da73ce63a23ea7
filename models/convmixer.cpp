// ConvMixer.
#include <fmt/format.h>

#include "pippin/models.h"

namespace pippin::models {
namespace {

// fn(x) + x
class Residual : public nn::Module {
  public:
    explicit Residual(nn::ModulePtr fn) : fn_(register_module("fn", std::move(fn))) {}
    Tensor forward(const Tensor& x) override { return (*fn_)(x) + x; }
    std::string type_name() const override { return "Residual"; }

  private:
    nn::ModulePtr fn_;
};

}  // namespace

ConvMixer::ConvMixer(std::int64_t dim, std::int64_t depth, std::int64_t kernel, std::int64_t patch,
                     std::int64_t num_classes) {
    if (kernel < 1 || kernel % 2 == 0)
        throw ValueError(
            fmt::format("ConvMixer: the kernel must be odd, so that the image keeps its size, got "
                        "{}",
                        kernel));
    const auto relu = [] { return nn::make<nn::ReLU>(); };
    const auto norm = [&] { return nn::make<nn::BatchNorm2d>(dim); };
    stem_ = register_module(
        "stem", nn::sequential(nn::make<nn::Conv2d>(3, dim, {.kernel = patch, .stride = patch}),
                               relu(), norm()));
    blocks_ = nn::make<nn::Sequential>();
    for (std::int64_t i = 0; i < depth; ++i) {
        const auto depthwise = nn::make<nn::Conv2d>(
            dim, dim, {.kernel = kernel, .padding = kernel / 2, .groups = dim});
        blocks_->append(
            nn::sequential(nn::make<Residual>(nn::sequential(depthwise, relu(), norm())),
                           nn::make<nn::Conv2d>(dim, dim, nn::Conv2d::Args{}), relu(), norm()));
    }
    register_module("blocks", blocks_);
    head_ = register_module("head", nn::make<nn::Linear>(dim, num_classes));
}

Tensor ConvMixer::forward(const Tensor& x) {
    const Tensor y = (*blocks_)((*stem_)(x));
    return (*head_)(flatten(adaptive_avg_pool2d(y, 1, 1), 1));
}

std::shared_ptr<ConvMixer> convmixer_768_32(std::int64_t num_classes) {
    return nn::make<ConvMixer>(768, 32, 7, 7, num_classes);
}

}  // namespace pippin::models
