#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "pippin/error.h"

namespace pippin::data {
namespace {

// Weights are integers over 2^22, and each of the two passes rounds to bytes: what Pillow does, so
// that networks trained on its images see the same ones here.
constexpr int kFractionBits = 22;
constexpr std::int32_t kHalf = std::int32_t{1} << (kFractionBits - 1);

// Each output pixel is a weighted sum of `count` input pixels from `first` on.
struct Taps {
    struct Run {
        std::size_t first, count;
    };
    std::vector<Run> runs;
    std::vector<std::int32_t> weights;  // `stride` for each run
    std::size_t stride;
};

// A triangle as wide as an output pixel where that covers several input pixels, else as an input
// pixel.
Taps make_taps(std::int64_t in, std::int64_t out) {
    const double scale = static_cast<double>(in) / static_cast<double>(out);
    const double radius = std::max(scale, 1.0);
    Taps taps;
    taps.stride = static_cast<std::size_t>(std::ceil(radius)) * 2 + 1;
    taps.weights.assign(static_cast<std::size_t>(out) * taps.stride, 0);
    std::vector<double> w(taps.stride);
    for (std::int64_t i = 0; i < out; ++i) {
        const double center = (static_cast<double>(i) + 0.5) * scale;
        const auto first =
            std::max<std::int64_t>(static_cast<std::int64_t>(center - radius + 0.5), 0);
        const auto end = std::min(static_cast<std::int64_t>(center + radius + 0.5), in);
        const auto count = static_cast<std::size_t>(end - first);
        double sum = 0;
        for (std::size_t t = 0; t < count; ++t) {
            const double x = static_cast<double>(first) + static_cast<double>(t) - center + 0.5;
            w[t] = std::max(0.0, 1.0 - std::abs(x * (1.0 / radius)));
            sum += w[t];
        }
        std::int32_t* to = taps.weights.data() + static_cast<std::size_t>(i) * taps.stride;
        for (std::size_t t = 0; t < count; ++t)
            to[t] = static_cast<std::int32_t>(0.5 + w[t] / sum * (1 << kFractionBits));
        taps.runs.push_back({static_cast<std::size_t>(first), count});
    }
    return taps;
}

std::uint8_t to_byte(std::int32_t sum) {
    return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

template <int C>
void resize_row(const std::uint8_t* from, const Taps& taps, std::uint8_t* to) {
    const std::int32_t* w = taps.weights.data();
    for (const Taps::Run run : taps.runs) {
        std::int32_t sums[C];
        std::fill_n(sums, C, kHalf);
        const std::uint8_t* p = from + run.first * C;
        for (std::size_t t = 0; t < run.count; ++t, p += C)
            for (int c = 0; c < C; ++c)
                sums[c] += w[t] * p[c];
        for (int c = 0; c < C; ++c)
            *to++ = to_byte(sums[c]);
        w += taps.stride;
    }
}

}  // namespace

Image resize(const Image& image, Window window, std::int64_t height, std::int64_t width) {
    if (image.channels != 1 && image.channels != 3)
        throw ValueError("resizing needs images of 1 or 3 channels, and this one has " +
                         std::to_string(image.channels));
    const auto channels = static_cast<std::size_t>(image.channels);
    const auto in_row = static_cast<std::size_t>(image.width) * channels;
    const auto out_row = static_cast<std::size_t>(width) * channels;
    const auto rows = static_cast<std::size_t>(window.height);
    const std::uint8_t* origin = image.pixels.data() +
                                 static_cast<std::size_t>(window.top) * in_row +
                                 static_cast<std::size_t>(window.left) * channels;

    Image wide(window.height, width, image.channels);
    if (width == window.width) {
        for (std::size_t y = 0; y < rows; ++y)
            std::memcpy(wide.pixels.data() + y * out_row, origin + y * in_row, out_row);
    } else {
        const Taps taps = make_taps(window.width, width);
        for (std::size_t y = 0; y < rows; ++y) {
            std::uint8_t* to = wide.pixels.data() + y * out_row;
            const std::uint8_t* from = origin + y * in_row;
            channels == 3 ? resize_row<3>(from, taps, to) : resize_row<1>(from, taps, to);
        }
    }
    if (height == window.height) return wide;

    Image out(height, width, image.channels);
    const Taps taps = make_taps(window.height, height);
    std::vector<std::int32_t> sums(out_row);
    for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
        std::fill(sums.begin(), sums.end(), kHalf);
        for (std::size_t t = 0; t < taps.runs[y].count; ++t) {
            const std::int32_t w = taps.weights[y * taps.stride + t];
            const std::uint8_t* from = wide.pixels.data() + (taps.runs[y].first + t) * out_row;
            for (std::size_t x = 0; x < out_row; ++x)
                sums[x] += w * from[x];
        }
        std::uint8_t* to = out.pixels.data() + y * out_row;
        for (std::size_t x = 0; x < out_row; ++x)
            to[x] = to_byte(sums[x]);
    }
    return out;
}

}  // namespace pippin::data
