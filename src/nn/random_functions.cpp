// The random functions of ops_random.h.
#include "nn/pointwise.h"
#include "pippin/ops_random.h"
#include "tensor/site.h"

namespace pippin {

Tensor rand_like(const Tensor& x) { return rand(x.shape(), {x.dtype(), x.device()}); }
Tensor randn_like(const Tensor& x) { return randn(x.shape(), {x.dtype(), x.device()}); }

Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high) {
    return randint(low, high, x.shape(), {x.dtype(), x.device()});
}

Tensor bernoulli(const Tensor& p, Site site) {
    return at_site(site, [&] {
        nn::float_node(p, "bernoulli", "the probability");
        return cast(rand(p.shape(), p.device()) < p, p.dtype());
    });
}

Tensor normal(const Tensor& mean, const Tensor& std, Site site) {
    return at_site(site, [&] {
        nn::float_node(mean, "normal", "the mean");
        nn::float_node(std, "normal", "the standard deviation");
        const Tensor like = (mean + std).detach();
        return randn_like(like) * std + mean;
    });
}

Tensor normal(const Tensor& mean, double std, Site site) {
    return at_site(site, [&] {
        nn::float_node(mean, "normal", "the mean");
        if (!(std >= 0))
            throw ValueError(fmt::format("normal: negative standard deviation {}", std));
        return randn_like(mean) * std + mean;
    });
}

Tensor exponential(const Shape& shape, double rate, Options o) {
    if (!(rate > 0))
        throw ValueError(fmt::format("exponential: rate must be positive, got {}", rate));
    return log(1 - rand(shape, o)) * (-1 / rate);
}

}  // namespace pippin
