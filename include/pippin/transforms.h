// What is done to an image on its way into a batch, with torchvision's names and results.
//
//   Compose({RandomResizedCrop(224), RandomHorizontalFlip(), ToTensor(), Normalize({0.5}, {0.5})})
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pippin/dataset.h"
#include "pippin/image.h"

namespace pippin::transforms {

using data::Image;
using data::SampleRandom;

/// A step from image to image. apply() runs in several threads at once.
class ImageTransform {
  public:
    virtual ~ImageTransform() = default;
    virtual void apply(Image& image, SampleRandom& random) const = 0;
    virtual std::string str() const = 0;  ///< "Resize(224)"
};

/// Bilinear, smoothed when it shrinks, in 8-bit arithmetic: the same pixels as Pillow and
/// torchvision give.
class Resize : public ImageTransform {
  public:
    /// The shorter side becomes `size`, the longer one keeps the proportion, rounded down.
    explicit Resize(std::int64_t size);
    Resize(std::int64_t height, std::int64_t width);
    void apply(Image& image, SampleRandom& random) const override;
    std::string str() const override;

  private:
    std::int64_t height_, width_;  ///< width 0: one size was given
};

/// Cuts the middle out; sides that are too short are padded with black.
class CenterCrop : public ImageTransform {
  public:
    explicit CenterCrop(std::int64_t size) : CenterCrop(size, size) {}
    CenterCrop(std::int64_t height, std::int64_t width);
    void apply(Image& image, SampleRandom& random) const override;
    std::string str() const override;

  private:
    std::int64_t height_, width_;
};

/// Cuts out a random part whose area, relative to the image, lies in `scale` and whose width /
/// height lies in `ratio`, and resizes it to a square of `size`.
class RandomResizedCrop : public ImageTransform {
  public:
    using Range = std::array<double, 2>;  ///< low, high
    explicit RandomResizedCrop(std::int64_t size, Range scale = {0.08, 1.0},
                               Range ratio = {3.0 / 4.0, 4.0 / 3.0});
    void apply(Image& image, SampleRandom& random) const override;
    std::string str() const override;

  private:
    std::int64_t size_;
    Range scale_, ratio_;
};

class RandomHorizontalFlip : public ImageTransform {
  public:
    explicit RandomHorizontalFlip(double p = 0.5);
    void apply(Image& image, SampleRandom& random) const override;
    std::string str() const override;

  private:
    double p_;
};

/// Colours become their brightness, in the integers of Pillow and torchvision: (19595 R + 38470 G +
/// 7471 B + 32768) / 65536. Images of one channel stay as they are.
class Grayscale : public ImageTransform {
  public:
    void apply(Image& image, SampleRandom& random) const override;
    std::string str() const override { return "Grayscale()"; }
};

/// From bytes (H, W, C) to float32 (C, H, W) in [0, 1].
struct ToTensor {};

/// (x - mean) / std for each channel, after ToTensor. One number serves all channels.
struct Normalize {
    /// ValueError for lists of different lengths or a std that is not positive.
    Normalize(std::vector<float> mean_, std::vector<float> std_);
    std::vector<float> mean, std;
};

/// Steps in order. Image steps come first, then ToTensor, then Normalize: ValueError otherwise.
/// ToTensor happens at the end where it is not named.
class Compose {
  public:
    class Step {
      public:
        template <std::derived_from<ImageTransform> T>
        Step(T step) : image_(std::make_shared<const T>(std::move(step))) {}
        Step(std::shared_ptr<const ImageTransform> step) : image_(std::move(step)) {}
        Step(ToTensor) {}
        Step(Normalize step) : normalize_(std::make_shared<const Normalize>(std::move(step))) {}

      private:
        friend class Compose;
        std::shared_ptr<const ImageTransform> image_;
        std::shared_ptr<const Normalize> normalize_;
    };

    Compose() : Compose(std::vector<Step>{}) {}
    Compose(std::initializer_list<Step> steps) : Compose(std::vector<Step>(steps)) {}
    explicit Compose(const std::vector<Step>& steps);

    /// All of it: float32 (C, H, W).
    data::Array operator()(Image image, SampleRandom random = {0, 0, 0}) const;
    /// The image steps.
    void apply(Image& image, SampleRandom& random) const;
    bool has_image_steps() const { return !image_steps_.empty(); }

    /// ToTensor and Normalize in one: what each byte becomes, 256 floats for each channel.
    /// ValueError when Normalize was given for another number of channels.
    std::vector<float> table(std::int64_t channels) const;

    std::string str() const;

  private:
    std::vector<std::shared_ptr<const ImageTransform>> image_steps_;
    std::vector<std::shared_ptr<const Normalize>> normalize_;
};

}  // namespace pippin::transforms
