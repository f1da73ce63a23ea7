// Initialisation of parameters.
#include <fmt/format.h>

#include <cmath>

#include "pippin/nn.h"

namespace pippin::nn::init {
namespace {

struct Fans {
    double in, out;
};

Fans fans(const char* function, const Tensor& t) {
    if (t.dim() < 2)
        throw ValueError(
            fmt::format("{}: fan in and fan out need at least 2 dimensions, got shape {}", function,
                        t.shape().str()));
    const std::int64_t outs = t.size(0), ins = t.size(1);
    std::int64_t receptive = 1;
    for (int d = 2; d < t.shape().rank(); ++d)
        receptive *= t.shape()[d];
    return {static_cast<double>(ins * receptive), static_cast<double>(outs * receptive)};
}

double kaiming_std(const char* function, const Tensor& t, double a, Fan fan) {
    const Fans f = fans(function, t);
    const double n = fan == Fan::In ? f.in : f.out;
    return n > 0 ? std::sqrt(2 / (1 + a * a)) / std::sqrt(n) : 0;
}

double xavier_std(const char* function, const Tensor& t, double gain) {
    const Fans f = fans(function, t);
    return f.in + f.out > 0 ? gain * std::sqrt(2 / (f.in + f.out)) : 0;
}

Options like(const Tensor& t) { return {t.dtype(), t.device()}; }

}  // namespace

void constant_(Tensor& t, double value) {
    const NoGrad no_grad;
    t.fill_(value);
}

void uniform_(Tensor& t, double low, double high) {
    const NoGrad no_grad;
    t.assign_(uniform(t.shape(), low, high, like(t)));
}

void normal_(Tensor& t, double mean, double std) {
    const NoGrad no_grad;
    t.assign_(normal(t.shape(), mean, std, like(t)));
}

void kaiming_uniform_(Tensor& t, double a, Fan fan) {
    const double bound = std::sqrt(3.0) * kaiming_std("kaiming_uniform_", t, a, fan);
    uniform_(t, -bound, bound);
}

void kaiming_normal_(Tensor& t, double a, Fan fan) {
    normal_(t, 0, kaiming_std("kaiming_normal_", t, a, fan));
}

void xavier_uniform_(Tensor& t, double gain) {
    const double bound = std::sqrt(3.0) * xavier_std("xavier_uniform_", t, gain);
    uniform_(t, -bound, bound);
}

void xavier_normal_(Tensor& t, double gain) {
    normal_(t, 0, xavier_std("xavier_normal_", t, gain));
}

}  // namespace pippin::nn::init
