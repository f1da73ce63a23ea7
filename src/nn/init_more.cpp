// The initialisations of ops_random.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "pippin/nn.h"
#include "pippin/ops_random.h"

namespace pippin::nn::init {
namespace {

double normal_cdf(double x) { return (1 + std::erf(x / std::numbers::sqrt2)) / 2; }

// The inverse of erf to float32's precision: Giles, "Approximating the erfinv function" (2010),
// single precision; one polynomial near 0 and one for the tails.
Tensor erfinv(const Tensor& x) {
    const Tensor w = -log((1 - x) * (1 + x));
    const auto polynomial = [](const Tensor& at, std::initializer_list<double> coefficients) {
        Tensor p;
        for (const double c : coefficients)
            p = p.defined() ? p * at + c : full({}, c, Options(at.dtype(), at.device()));
        return p;
    };
    const Tensor middle = polynomial(
        w - 2.5, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                  -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
    const Tensor tail = polynomial(
        sqrt(w) - 3, {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                      -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
    return where(w < 5, middle, tail) * x;
}

}  // namespace

void zeros_(Tensor& t) { constant_(t, 0); }
void ones_(Tensor& t) { constant_(t, 1); }

void eye_(Tensor& t) {
    if (t.dim() != 2)
        throw ValueError(fmt::format("eye_: expected 2 dimensions, got shape {}", t.shape().str()));
    const NoGrad no_grad;
    const Tensor rows = unsqueeze(arange(t.size(0), t.device()), 1);
    t.assign_(cast(rows == arange(t.size(1), t.device()), t.dtype()));
}

void trunc_normal_(Tensor& t, double mean, double std, double low, double high) {
    if (!(std > 0))
        throw ValueError(fmt::format("trunc_normal_: std must be positive, got {}", std));
    if (!(low < high))
        throw ValueError(fmt::format("trunc_normal_: low {} must be below high {}", low, high));
    const NoGrad no_grad;
    // Uniform between the bounds' cumulative probabilities, through the inverse distribution.
    const double from = 2 * normal_cdf((low - mean) / std) - 1,
                 to = 2 * normal_cdf((high - mean) / std) - 1;
    const Tensor u = uniform(t.shape(), from, to, {float32, t.device()});
    // float32 may round u to a bound where the inverse is infinite; the clamp takes that too.
    const Tensor x = erfinv(u) * (std * std::numbers::sqrt2) + mean;
    t.assign_(cast(clamp(x, low, high), t.dtype()));
}

void orthogonal_(Tensor& t, double gain) {
    if (t.dim() < 2)
        throw ValueError(fmt::format("orthogonal_: expected at least 2 dimensions, got shape {}",
                                     t.shape().str()));
    if (t.numel() == 0) return;
    const NoGrad no_grad;
    const auto rows = static_cast<std::size_t>(t.size(0)),
               columns = static_cast<std::size_t>(t.numel()) / rows;
    // Vectors of normal numbers, made orthogonal one after another (Gram and Schmidt, twice for the
    // digits); their direction is already uniform, so that no sign needs to be drawn.
    const std::size_t count = std::min(rows, columns), length = std::max(rows, columns);
    std::vector<double> v =
        randn({static_cast<std::int64_t>(count), static_cast<std::int64_t>(length)}, float64)
            .to_vector<double>();
    for (std::size_t i = 0; i < count; ++i) {
        double* own = &v[i * length];
        for (int pass = 0; pass < 2; ++pass)
            for (std::size_t j = 0; j < i; ++j) {
                const double* other = &v[j * length];
                double dot = 0;
                for (std::size_t k = 0; k < length; ++k)
                    dot += own[k] * other[k];
                for (std::size_t k = 0; k < length; ++k)
                    own[k] -= dot * other[k];
            }
        double norm = 0;
        for (std::size_t k = 0; k < length; ++k)
            norm += own[k] * own[k];
        const double scale = 1 / std::sqrt(norm);
        for (std::size_t k = 0; k < length; ++k)
            own[k] *= scale;
    }
    Tensor m = tensor(v, {static_cast<std::int64_t>(count), static_cast<std::int64_t>(length)},
                      {float64, t.device()});
    if (rows > columns) m = m.t();
    t.assign_(cast(reshape(m * gain, t.shape()), t.dtype()));
}

void dirac_(Tensor& t) {
    if (t.dim() != 3 && t.dim() != 4)
        throw ValueError(
            fmt::format("dirac_: expected 3 or 4 dimensions, got shape {}", t.shape().str()));
    const NoGrad no_grad;
    Tensor hit = unsqueeze(arange(t.size(0), t.device()), 1) == arange(t.size(1), t.device());
    for (std::int64_t d = 2; d < t.dim(); ++d) {
        const Tensor middle = arange(t.size(d), t.device()) == t.size(d) / 2;
        hit = logical_and(unsqueeze(hit, -1), middle);
    }
    t.assign_(cast(hit, t.dtype()));
}

double calculate_gain(After function, double slope) {
    switch (function) {
        case After::Tanh:
            return 5.0 / 3;
        case After::Relu:
            return std::numbers::sqrt2;
        case After::LeakyRelu:
            return std::sqrt(2 / (1 + slope * slope));
        case After::Selu:
            return 0.75;
        default:
            return 1;
    }
}

}  // namespace pippin::nn::init
