#include "layers.h"

#include <fmt/format.h>

#include "pippin/ops_attention.h"

namespace pippin::models {

std::shared_ptr<nn::Conv2d> conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                 std::int64_t stride, std::int64_t groups) {
    auto layer = nn::make<nn::Conv2d>(in, out,
                                      {.kernel = kernel,
                                       .stride = stride,
                                       .padding = kernel / 2,
                                       .groups = groups,
                                       .bias = false});
    nn::init::kaiming_normal_(layer->weight, 0, nn::init::Fan::Out);
    return layer;
}

Tensor stochastic_depth(const Tensor& x, double p, bool training, Site site) {
    if (!(p >= 0 && p <= 1))
        throw ValueError(fmt::format("stochastic_depth: p must be from 0 to 1, got {}", p));
    if (x.dim() < 1) throw ValueError("stochastic_depth: a 0-d tensor has no samples");
    if (!training || p == 0) return x;
    Shape rows{x.size(0)};
    for (std::int64_t d = 1; d < x.dim(); ++d)
        rows.push_back(1);
    const Tensor kept = bernoulli(rows, 1 - p, Options(x.dtype(), x.device()));
    const double scale = p < 1 ? 1 / (1 - p) : 1;
    return Operand(x, site) * (kept * scale);
}

Tensor split_heads(const Tensor& x, std::int64_t heads) {
    const std::int64_t n = x.size(0), length = x.size(1), d = x.size(2) / heads;
    return x.reshape({n, length, heads, d}).transpose(1, 2);
}

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
              double dropout_p) {
    const std::int64_t n = q.size(0), heads = q.size(1), length = q.size(2), d = q.size(3);
    return scaled_dot_product_attention(q, k, v, mask, dropout_p)
        .transpose(1, 2)
        .reshape({n, length, heads * d});
}

}  // namespace pippin::models
