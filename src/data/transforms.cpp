#include "pippin/transforms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/resize.h"
#include "pippin/error.h"

namespace pippin::transforms {
namespace {

// The processor rounds halves to even, as Python's round() does.
std::int64_t round_to_int(double x) { return static_cast<std::int64_t>(std::nearbyint(x)); }

void check_size(const char* name, std::int64_t size) {
    if (size < 1) throw ValueError(fmt::format("{}: size {} must be positive", name, size));
}

void check_range(const char* what, RandomResizedCrop::Range range) {
    if (!(range[0] > 0 && range[0] <= range[1] && std::isfinite(range[1])))
        throw ValueError(
            fmt::format("RandomResizedCrop: {} [{}, {}] must be positive and ascending", what,
                        range[0], range[1]));
}

data::Window whole(const Image& image) { return {0, 0, image.height, image.width}; }

}  // namespace

Resize::Resize(std::int64_t size) : height_(size), width_(0) { check_size("Resize", size); }

Resize::Resize(std::int64_t height, std::int64_t width) : height_(height), width_(width) {
    check_size("Resize", height);
    check_size("Resize", width);
}

void Resize::apply(Image& image, SampleRandom&) const {
    std::int64_t height = height_, width = width_;
    if (width == 0) {
        const std::int64_t shorter = std::min(image.height, image.width);
        const auto scaled = [&](std::int64_t side) {
            return std::max<std::int64_t>(height_ * side / shorter, 1);
        };
        height = scaled(image.height);
        width = scaled(image.width);
    }
    if (height != image.height || width != image.width)
        image = data::resize(image, whole(image), height, width);
}

std::string Resize::str() const {
    return width_ == 0 ? fmt::format("Resize({})", height_)
                       : fmt::format("Resize({}, {})", height_, width_);
}

CenterCrop::CenterCrop(std::int64_t height, std::int64_t width) : height_(height), width_(width) {
    check_size("CenterCrop", height);
    check_size("CenterCrop", width);
}

void CenterCrop::apply(Image& image, SampleRandom&) const {
    if (image.height == height_ && image.width == width_) return;
    // A side that is too short is padded first: less than the half of what is missing goes before
    // it.
    const auto begin_of = [](std::int64_t have, std::int64_t want) {
        return have >= want ? round_to_int(static_cast<double>(have - want) / 2.0)
                            : -((want - have) / 2);
    };
    const std::int64_t top = begin_of(image.height, height_), left = begin_of(image.width, width_);
    Image out(height_, width_, image.channels);
    const std::int64_t x0 = std::max<std::int64_t>(left, 0);
    const std::int64_t x1 = std::min(left + width_, image.width);
    const auto bytes = static_cast<std::size_t>((x1 - x0) * image.channels);
    for (std::int64_t y = std::max<std::int64_t>(top, 0); y < std::min(top + height_, image.height);
         ++y)
        std::memcpy(&out.at(y - top, x0 - left, 0), &image.at(y, x0, 0), bytes);
    image = std::move(out);
}

std::string CenterCrop::str() const {
    return height_ == width_ ? fmt::format("CenterCrop({})", height_)
                             : fmt::format("CenterCrop({}, {})", height_, width_);
}

RandomResizedCrop::RandomResizedCrop(std::int64_t size, Range scale, Range ratio)
    : size_(size), scale_(scale), ratio_(ratio) {
    check_size("RandomResizedCrop", size);
    check_range("scale", scale);
    check_range("ratio", ratio);
}

void RandomResizedCrop::apply(Image& image, SampleRandom& random) const {
    const double area = static_cast<double>(image.height) * static_cast<double>(image.width);
    for (int attempt = 0; attempt < 10; ++attempt) {
        const double part = area * random.uniform(scale_[0], scale_[1]);
        const double ratio = std::exp(random.uniform(std::log(ratio_[0]), std::log(ratio_[1])));
        const std::int64_t width = round_to_int(std::sqrt(part * ratio));
        const std::int64_t height = round_to_int(std::sqrt(part / ratio));
        if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
        const std::int64_t top = random.below(image.height - height + 1);
        const std::int64_t left = random.below(image.width - width + 1);
        image = data::resize(image, {top, left, height, width}, size_, size_);
        return;
    }
    // Nothing fitted: as much of the middle as the ratio allows.
    std::int64_t width = image.width, height = image.height;
    const double ratio = static_cast<double>(width) / static_cast<double>(height);
    if (ratio < ratio_[0])
        height = round_to_int(static_cast<double>(width) / ratio_[0]);
    else if (ratio > ratio_[1])
        width = round_to_int(static_cast<double>(height) * ratio_[1]);
    height = std::clamp<std::int64_t>(height, 1, image.height);
    width = std::clamp<std::int64_t>(width, 1, image.width);
    image =
        data::resize(image, {(image.height - height) / 2, (image.width - width) / 2, height, width},
                     size_, size_);
}

std::string RandomResizedCrop::str() const {
    return fmt::format("RandomResizedCrop({}, scale=[{}, {}], ratio=[{:.4g}, {:.4g}])", size_,
                       scale_[0], scale_[1], ratio_[0], ratio_[1]);
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(p) {
    if (!(p >= 0 && p <= 1))
        throw ValueError(fmt::format("RandomHorizontalFlip: p {} is not in [0, 1]", p));
}

void RandomHorizontalFlip::apply(Image& image, SampleRandom& random) const {
    if (random.uniform() >= p_) return;
    const auto channels = static_cast<std::size_t>(image.channels);
    const auto row_bytes = static_cast<std::size_t>(image.width) * channels;
    for (std::int64_t y = 0; y < image.height; ++y) {
        std::uint8_t* left = image.pixels.data() + static_cast<std::size_t>(y) * row_bytes;
        std::uint8_t* right = left + row_bytes - channels;
        for (; left < right; left += channels, right -= channels)
            std::swap_ranges(left, left + channels, right);
    }
}

std::string RandomHorizontalFlip::str() const {
    return fmt::format("RandomHorizontalFlip({})", p_);
}

void Grayscale::apply(Image& image, SampleRandom&) const {
    if (image.channels == 1) return;
    if (image.channels != 3)
        throw ValueError(fmt::format("Grayscale: expected images of 3 channels or of 1, got {}",
                                     image.channels));
    Image out(image.height, image.width, 1);
    for (std::size_t i = 0; i < out.pixels.size(); ++i) {
        const std::uint8_t* p = image.pixels.data() + 3 * i;
        out.pixels[i] = static_cast<std::uint8_t>(
            (19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 32768u) >> 16);
    }
    image = std::move(out);
}

Normalize::Normalize(std::vector<float> mean_, std::vector<float> std_)
    : mean(std::move(mean_)), std(std::move(std_)) {
    if (mean.empty() || mean.size() != std.size())
        throw ValueError(
            fmt::format("Normalize: {} means and {} standard deviations", mean.size(), std.size()));
    for (const float s : std)
        if (!(s > 0))
            throw ValueError(
                fmt::format("Normalize: the standard deviation {} is not positive", s));
}

Compose::Compose(const std::vector<Step>& steps) {
    bool is_tensor = false;
    for (const Step& step : steps) {
        if (step.image_) {
            if (is_tensor)
                throw ValueError(
                    fmt::format("Compose: {} takes an image, so it must come before "
                                "ToTensor",
                                step.image_->str()));
            image_steps_.push_back(step.image_);
        } else if (step.normalize_) {
            if (!is_tensor) throw ValueError("Compose: Normalize must come after ToTensor");
            normalize_.push_back(step.normalize_);
        } else {
            if (is_tensor) throw ValueError("Compose: ToTensor comes twice");
            is_tensor = true;
        }
    }
}

void Compose::apply(Image& image, SampleRandom& random) const {
    for (const auto& step : image_steps_)
        step->apply(image, random);
}

std::vector<float> Compose::table(std::int64_t channels) const {
    std::vector<float> out(static_cast<std::size_t>(channels) * 256);
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<float>(i % 256) / 255.0f;
    for (const auto& step : normalize_) {
        const std::size_t given = step->mean.size();
        if (given != 1 && given != static_cast<std::size_t>(channels))
            throw ValueError(
                fmt::format("Normalize: it has {} means, but the images have {} "
                            "channels",
                            given, channels));
        for (std::size_t i = 0; i < out.size(); ++i) {
            const std::size_t c = given == 1 ? 0 : i / 256;
            out[i] = (out[i] - step->mean[c]) / step->std[c];
        }
    }
    return out;
}

std::string Compose::str() const {
    std::vector<std::string> names;
    for (const auto& step : image_steps_)
        names.push_back(step->str());
    names.push_back("ToTensor()");
    for (const auto& step : normalize_)
        names.push_back(fmt::format("Normalize([{}], [{}])", fmt::join(step->mean, ", "),
                                    fmt::join(step->std, ", ")));
    return fmt::format("Compose({})", fmt::join(names, ", "));
}

}  // namespace pippin::transforms
