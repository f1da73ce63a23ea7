// The layers of nn_layers.h but its convolutions, and their functions.
#include "pippin/nn_layers.h"

#include "nn/repr.h"
#include "tensor/promote.h"
#include "tensor/site.h"

namespace pippin {
namespace {

void check_probability(const char* op, double p) {
    if (!(p >= 0 && p <= 1))
        throw ValueError(fmt::format("{}: probability {} is not in [0, 1]", op, p));
}

void check_maps(const Tensor& x, const char* op, std::int64_t factor) {
    if (x.dim() < 3)
        throw ValueError(
            fmt::format("{}: expected (..., C, H, W), got shape {}", op, x.shape().str()));
    if (factor < 1)
        throw ValueError(fmt::format("{}: the factor must be positive, got {}", op, factor));
}

// x as (the leading dims in one, C, H, W).
Tensor one_batch(const Tensor& x) { return reshape(x, {-1, x.size(-3), x.size(-2), x.size(-1)}); }

Tensor with_leading_dims(const Tensor& x, const Shape& like) {
    Shape shape = like;
    for (int i = 1; i <= 3; ++i)
        shape[shape.rank() - i] = x.size(-i);
    return reshape(x, shape);
}

}  // namespace

Tensor dropout2d(const Tensor& x, double p, bool training, Site site) {
    return at_site(site, [&] {
        check_probability("dropout2d", p);
        if (x.dim() < 2)
            throw ValueError(
                fmt::format("dropout2d: expected (N, C, ...), got shape {}", x.shape().str()));
        if (!training || p == 0) return x;
        Shape channels;
        for (int d = 0; d < x.shape().rank(); ++d)
            channels.push_back(d < 2 ? x.shape()[d] : 1);
        return x * dropout(ones(channels, {x.dtype(), x.device()}), p);
    });
}

Tensor alpha_dropout(const Tensor& x, double p, bool training, Site site) {
    return at_site(site, [&] {
        check_probability("alpha_dropout", p);
        if (!is_floating(x.dtype()))
            throw TypeError(fmt::format("alpha_dropout: the input must be floating point, it is {}",
                                        name_of(x.dtype())));
        if (!training || p == 0) return x;
        if (p == 1) return x * 0;
        constexpr double kLimit = 1.7580993408473766;  // selu(-inf) is minus this
        const double a = 1 / std::sqrt((kLimit * kLimit * p + 1) * (1 - p));
        const Tensor keep = rand(x.shape(), x.device()) >= p;
        return where(keep, x * a, -kLimit * a) + kLimit * a * p;
    });
}

Tensor pixel_shuffle(const Tensor& x, std::int64_t r, Site site) {
    return at_site(site, [&] {
        check_maps(x, "pixel_shuffle", r);
        const std::int64_t c = x.size(-3), h = x.size(-2), w = x.size(-1);
        if (c % (r * r) != 0)
            throw ValueError(fmt::format(
                "pixel_shuffle: {} channels are not divisible by the factor's square {}", c,
                r * r));
        const Tensor parts = reshape(one_batch(x), {-1, c / (r * r), r, r, h, w});
        const Tensor y =
            reshape(permute(parts, {0, 1, 4, 2, 5, 3}), {-1, c / (r * r), h * r, w * r});
        return with_leading_dims(y, x.shape());
    });
}

Tensor pixel_unshuffle(const Tensor& x, std::int64_t r, Site site) {
    return at_site(site, [&] {
        check_maps(x, "pixel_unshuffle", r);
        const std::int64_t c = x.size(-3), h = x.size(-2), w = x.size(-1);
        if (h % r != 0 || w % r != 0)
            throw ValueError(fmt::format(
                "pixel_unshuffle: height {} and width {} must be divisible by the factor {}", h, w,
                r));
        const Tensor parts = reshape(one_batch(x), {-1, c, h / r, r, w / r, r});
        const Tensor y = reshape(permute(parts, {0, 1, 3, 5, 2, 4}), {-1, c * r * r, h / r, w / r});
        return with_leading_dims(y, x.shape());
    });
}

Tensor unflatten(const Tensor& x, std::int64_t dim, const Shape& sizes, Site site) {
    return at_site(site, [&] {
        if (sizes.empty()) throw ValueError("unflatten: the sizes must not be empty");
        const int d = normalized_dim(dim, x.shape().rank());
        std::int64_t known = 1;
        int open = -1;
        Shape full = sizes;
        for (int i = 0; i < full.rank(); ++i) {
            if (full[i] != -1)
                known *= full[i];
            else if (std::exchange(open, i) != -1)
                throw ValueError("unflatten: only one size may be -1");
        }
        const std::int64_t extent = x.size(d);
        if (open != -1 && known > 0 && extent % known == 0) full[open] = extent / known;
        if (full.numel() != extent)
            throw ValueError(fmt::format("unflatten: sizes {} do not fit dimension {} of extent {}",
                                         sizes.str(), dim, extent));
        Shape shape;
        for (int i = 0; i < x.shape().rank(); ++i) {
            if (i != d) {
                shape.push_back(x.shape()[i]);
                continue;
            }
            for (const std::int64_t s : full)
                shape.push_back(s);
        }
        return reshape(x, shape);
    });
}

namespace nn {

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
                     std::optional<std::int64_t> padding_idx)
    : padding_idx_(-1) {
    if (num_embeddings <= 0 || embedding_dim <= 0)
        throw ValueError(
            fmt::format("Embedding: num_embeddings {} and embedding_dim {} must be positive",
                        num_embeddings, embedding_dim));
    if (padding_idx) {
        const std::int64_t row = *padding_idx < 0 ? *padding_idx + num_embeddings : *padding_idx;
        if (row < 0 || row >= num_embeddings)
            throw ValueError(fmt::format("Embedding: padding_idx {} is not among {} rows",
                                         *padding_idx, num_embeddings));
        padding_idx_ = row;
    }
    Tensor table = randn({num_embeddings, embedding_dim});
    if (padding_idx_ >= 0)
        table = where(unsqueeze(arange(num_embeddings), 1) == padding_idx_, 0.0, table);
    weight = register_parameter("weight", table.detach());
}

Tensor Embedding::forward(const Tensor& ids) { return embedding(ids, weight, padding_idx_); }

std::string Embedding::extra_repr() const {
    return fmt::format("{}, {}{}", weight.size(0), weight.size(1),
                       padding_idx_ >= 0 ? fmt::format(", padding_idx={}", padding_idx_) : "");
}

namespace {

Pool1dOptions pool_options(const char* layer, std::int64_t kernel, std::int64_t stride,
                           std::int64_t padding, bool ceil_mode) {
    if (kernel < 1 || stride < 0)
        throw ValueError(fmt::format(
            "{}: the kernel must be at least 1 and the stride not negative, got {} and {}", layer,
            kernel, stride));
    if (padding < 0 || 2 * padding > kernel)
        throw ValueError(fmt::format("{}: padding must be from 0 to half the kernel {}, got {}",
                                     layer, kernel, padding));
    Pool1dOptions o;
    o.kernel = kernel, o.stride = stride ? stride : kernel, o.pad = padding;
    o.ceil_mode = ceil_mode;
    return o;
}

}  // namespace

MaxPool1d::MaxPool1d(std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                     std::int64_t dilation, bool ceil_mode)
    : o_(pool_options("MaxPool1d", kernel, stride, padding, ceil_mode)) {
    if (dilation < 1)
        throw ValueError(fmt::format("MaxPool1d: dilation must be at least 1, got {}", dilation));
    o_.dilation = dilation;
}

std::string MaxPool1d::extra_repr() const {
    return fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                       o_.kernel, o_.stride, o_.pad, o_.dilation, repr(o_.ceil_mode));
}

AvgPool1d::AvgPool1d(std::int64_t kernel, std::int64_t stride, std::int64_t padding, bool ceil_mode,
                     bool count_include_pad)
    : o_(pool_options("AvgPool1d", kernel, stride, padding, ceil_mode)) {
    o_.count_include_pad = count_include_pad;
}

std::string AvgPool1d::extra_repr() const {
    return fmt::format("kernel_size=({},), stride=({},), padding=({},)", o_.kernel, o_.stride,
                       o_.pad);
}

std::string AdaptiveAvgPool1d::extra_repr() const { return fmt::format("output_size={}", output_); }

Tensor AdaptiveMaxPool2d::forward(const Tensor& x) {
    return adaptive_max_pool2d(x, output_.h, output_.w);
}

std::string AdaptiveMaxPool2d::extra_repr() const { return "output_size=" + repr(output_); }

Upsample::Upsample(InterpolateOptions o) : o_(std::move(o)) {
    if (o_.size.empty() == o_.scale.empty())
        throw ValueError("Upsample: give either a size or a scale");
}

std::string Upsample::extra_repr() const {
    constexpr const char* kLinear[] = {"linear", "bilinear", "trilinear"};
    const std::size_t given = o_.size.empty() ? o_.scale.size() : o_.size.size();
    std::string values;
    for (std::size_t i = 0; i < given; ++i)
        values +=
            (i ? ", " : "") + (o_.size.empty() ? repr(o_.scale[i]) : std::to_string(o_.size[i]));
    const char* mode = o_.mode == Interpolation::Nearest ? "nearest"
                       : o_.mode == Interpolation::NearestExact
                           ? "nearest-exact"
                           : kLinear[std::min<std::size_t>(given, 3) - 1];
    return fmt::format("{}={}, mode='{}'", o_.size.empty() ? "scale_factor" : "size",
                       given == 1 ? values : "(" + values + ")", mode);
}

std::string PixelShuffle::extra_repr() const { return fmt::format("upscale_factor={}", factor_); }

Dropout2d::Dropout2d(double p) : p_(p) { check_probability("Dropout2d", p); }
std::string Dropout2d::extra_repr() const { return fmt::format("p={}, inplace=False", repr(p_)); }

AlphaDropout::AlphaDropout(double p) : p_(p) { check_probability("AlphaDropout", p); }
std::string AlphaDropout::extra_repr() const {
    return fmt::format("p={}, inplace=False", repr(p_));
}

std::string Unflatten::extra_repr() const {
    return fmt::format("dim={}, unflattened_size={}", dim_, repr(sizes_));
}

}  // namespace nn
}  // namespace pippin
