#include <fmt/format.h>

#include "pippin/datasets.h"
#include "pippin/error.h"

namespace pippin::data {
namespace {

// (H, W, C) bytes to (C, H, W) floats through the transform's table.
void to_floats(const Image& image, const std::vector<float>& table, float* to) {
    const auto channels = static_cast<std::size_t>(image.channels);
    const std::size_t pixels = image.pixels.size() / channels;
    for (std::size_t c = 0; c < channels; ++c) {
        const float* values = table.data() + c * 256;
        const std::uint8_t* from = image.pixels.data() + c;
        for (std::size_t i = 0; i < pixels; ++i)
            *to++ = values[from[i * channels]];
    }
}

// In a shuffled epoch every image comes from another place in memory, and waiting for it would take
// longer than converting it.
void prefetch(const std::uint8_t* from, std::size_t bytes) {
#if defined(__GNUC__)
    for (std::size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(from + i);
#else
    (void)from, (void)bytes;
#endif
}

Image transformed(const ImageDataset& dataset, std::int64_t index, Draws draws) {
    Image image = dataset.image(index);
    SampleRandom random = draws.of(index);
    dataset.transform().apply(image, random);
    return image;
}

}  // namespace

Example ImageDataset::load(std::int64_t index, Draws draws) const {
    const Image image = transformed(*this, index, draws);
    Example example{Array(DType::Float32, Shape{image.channels, image.height, image.width}),
                    Array::scalar(label(index))};
    to_floats(image, transform_.table(image.channels), example.data.data<float>());
    return example;
}

void ImageDataset::load_batch(std::span<const std::int64_t> indices, Draws draws,
                              Example& batch) const {
    const auto n = static_cast<std::int64_t>(indices.size());
    batch.target.reset(DType::Int64, Shape{n});
    std::int64_t height = 0, width = 0, channels = 0;
    std::vector<float> table;
    std::size_t floats = 0;
    for (std::size_t place = 0; place < indices.size(); ++place) {
        const Image image = transformed(*this, indices[place], draws);
        if (place == 0) {
            height = image.height, width = image.width, channels = image.channels;
            batch.data.reset(DType::Float32, Shape{n, channels, height, width});
            table = transform_.table(channels);
            floats = image.pixels.size();
        }
        if (image.height != height || image.width != width || image.channels != channels)
            throw ValueError(fmt::format(
                "sample {} is an image of {}x{} with {} channels, but sample {}, the first of its "
                "batch, one of {}x{} with {}: give the dataset a transform with a fixed size, such "
                "as Resize(height, width); now it is {}",
                indices[place], image.height, image.width, image.channels, indices[0], height,
                width, channels, transform_.str()));
        to_floats(image, table, batch.data.data<float>() + place * floats);
        batch.target.data<std::int64_t>()[place] = label(indices[place]);
    }
}

Image MemoryImages::image(std::int64_t index) const {
    Image image(store_->height, store_->width, store_->channels);
    const auto channels = static_cast<std::size_t>(store_->channels);
    const std::size_t plane = image.pixels.size() / channels;
    const std::uint8_t* from =
        store_->pixels.data() + static_cast<std::size_t>(index) * image.pixels.size();
    for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t i = 0; i < plane; ++i)
            image.pixels[i * channels + c] = *from++;
    return image;
}

std::int64_t MemoryImages::label(std::int64_t index) const {
    return store_->labels[static_cast<std::size_t>(index)];
}

// Small networks train on tens of thousands of such images a second, so without image steps they go
// from store to batch in one pass.
void MemoryImages::load_batch(std::span<const std::int64_t> indices, Draws draws,
                              Example& batch) const {
    if (transform().has_image_steps()) return ImageDataset::load_batch(indices, draws, batch);
    const Store& store = *store_;
    const auto n = static_cast<std::int64_t>(indices.size());
    batch.data.reset(DType::Float32, Shape{n, store.channels, store.height, store.width});
    batch.target.reset(DType::Int64, Shape{n});
    const std::vector<float> table = transform().table(store.channels);
    const auto plane = static_cast<std::size_t>(store.height * store.width);
    const auto channels = static_cast<std::size_t>(store.channels);
    float* to = batch.data.data<float>();
    std::int64_t* label = batch.target.data<std::int64_t>();
    const std::size_t image_bytes = channels * plane;
    for (std::size_t place = 0; place < indices.size(); ++place) {
        constexpr std::size_t kAhead = 2;
        if (place + kAhead < indices.size())
            prefetch(&store.pixels[static_cast<std::size_t>(indices[place + kAhead]) * image_bytes],
                     image_bytes);
        const auto i = static_cast<std::size_t>(indices[place]);
        const std::uint8_t* from = &store.pixels[i * image_bytes];
        for (std::size_t c = 0; c < channels; ++c) {
            const float* values = table.data() + c * 256;
            for (std::size_t p = 0; p < plane; ++p)
                to[p] = values[from[p]];
            to += plane;
            from += plane;
        }
        label[place] = store.labels[i];
    }
}

}  // namespace pippin::data

namespace pippin::transforms {

data::Array Compose::operator()(Image image, SampleRandom random) const {
    apply(image, random);
    data::Array out(DType::Float32, Shape{image.channels, image.height, image.width});
    data::to_floats(image, table(image.channels), out.data<float>());
    return out;
}

}  // namespace pippin::transforms
