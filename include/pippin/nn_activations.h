// Activations beside those of ops.h (relu, leaky_relu, gelu, silu, tanh, sigmoid): functions, and
// all of them as modules. Names, arguments and defaults are PyTorch's. Inputs must be floating
// point (TypeError). NaN stays NaN unless a line says otherwise.
#pragma once

#include "pippin/nn.h"

namespace pippin {

/// x where x > 0, else alpha * (exp(x) - 1). Clevert et al. 2016.
Tensor elu(const Tensor& x, double alpha = 1, Site site = Site::current());
/// elu with the constants that keep mean and variance. Klambauer et al. 2017.
Tensor selu(const Tensor& x, Site site = Site::current());
/// x where x > 0, else alpha * (exp(x / alpha) - 1), alpha not 0. Barron 2017.
Tensor celu(const Tensor& x, double alpha = 1, Site site = Site::current());
/// x * tanh(softplus(x)). Misra 2019.
Tensor mish(const Tensor& x, Site site = Site::current());
/// x * relu6(x + 3) / 6. Howard et al. 2019.
Tensor hardswish(const Tensor& x, Site site = Site::current());
Tensor hardsigmoid(const Tensor& x, Site site = Site::current());  ///< relu6(x + 3) / 6
/// x within [min_val, max_val], whose ends pass no gradient. ValueError if min_val > max_val.
Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1,
                Site site = Site::current());
Tensor relu6(const Tensor& x, Site site = Site::current());  ///< hardtanh from 0 to 6
/// x where x > 0, else weight * x; the weight has one element, or one for each channel (dimension
/// 1). He et al. 2015.
Tensor prelu(const Tensor& x, const Tensor& weight, Site site = Site::current());
/// log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold.
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20,
                Site site = Site::current());
Tensor softsign(const Tensor& x, Site site = Site::current());    ///< x / (1 + |x|)
Tensor logsigmoid(const Tensor& x, Site site = Site::current());  ///< finite for finite x
Tensor tanhshrink(const Tensor& x, Site site = Site::current());  ///< x - tanh(x)
/// x moved towards 0 by lambd >= 0, and 0 within [-lambd, lambd].
Tensor softshrink(const Tensor& x, double lambd = 0.5, Site site = Site::current());
/// x outside of [-lambd, lambd], else 0.
Tensor hardshrink(const Tensor& x, double lambd = 0.5, Site site = Site::current());
/// x where x > threshold, else value.
Tensor threshold(const Tensor& x, double threshold, double value, Site site = Site::current());
/// The first half of dimension `dim` times the sigmoid of the second; its extent must be even.
/// Dauphin et al. 2017.
Tensor glu(const Tensor& x, std::int64_t dim = -1, Site site = Site::current());
Tensor softmin(const Tensor& x, std::int64_t dim, Site site = Site::current());  ///< softmax(-x)

namespace nn {

class Sigmoid : public Module {
  public:
    Tensor forward(const Tensor& x) override { return sigmoid(x); }
    std::string type_name() const override { return "Sigmoid"; }
};

class SiLU : public Module {
  public:
    Tensor forward(const Tensor& x) override { return silu(x); }
    std::string type_name() const override { return "SiLU"; }
};

class Mish : public Module {
  public:
    Tensor forward(const Tensor& x) override { return mish(x); }
    std::string type_name() const override { return "Mish"; }
};

class SELU : public Module {
  public:
    Tensor forward(const Tensor& x) override { return selu(x); }
    std::string type_name() const override { return "SELU"; }
};

class Hardswish : public Module {
  public:
    Tensor forward(const Tensor& x) override { return hardswish(x); }
    std::string type_name() const override { return "Hardswish"; }
};

class Hardsigmoid : public Module {
  public:
    Tensor forward(const Tensor& x) override { return hardsigmoid(x); }
    std::string type_name() const override { return "Hardsigmoid"; }
};

class ReLU6 : public Module {
  public:
    Tensor forward(const Tensor& x) override { return relu6(x); }
    std::string type_name() const override { return "ReLU6"; }
};

class Softsign : public Module {
  public:
    Tensor forward(const Tensor& x) override { return softsign(x); }
    std::string type_name() const override { return "Softsign"; }
};

class LogSigmoid : public Module {
  public:
    Tensor forward(const Tensor& x) override { return logsigmoid(x); }
    std::string type_name() const override { return "LogSigmoid"; }
};

class Tanhshrink : public Module {
  public:
    Tensor forward(const Tensor& x) override { return tanhshrink(x); }
    std::string type_name() const override { return "Tanhshrink"; }
};

class ELU : public Module {
  public:
    explicit ELU(double alpha = 1) : alpha_(alpha) {}
    Tensor forward(const Tensor& x) override { return elu(x, alpha_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "ELU"; }

  private:
    double alpha_;
};

class CELU : public Module {
  public:
    explicit CELU(double alpha = 1);
    Tensor forward(const Tensor& x) override { return celu(x, alpha_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "CELU"; }

  private:
    double alpha_;
};

class GELU : public Module {
  public:
    explicit GELU(Gelu approximate = Gelu::Erf) : kind_(approximate) {}
    Tensor forward(const Tensor& x) override { return gelu(x, kind_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "GELU"; }

  private:
    Gelu kind_;
};

class LeakyReLU : public Module {
  public:
    explicit LeakyReLU(double negative_slope = 0.01) : slope_(negative_slope) {}
    Tensor forward(const Tensor& x) override { return leaky_relu(x, slope_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "LeakyReLU"; }

  private:
    double slope_;
};

class Hardtanh : public Module {
  public:
    explicit Hardtanh(double min_val = -1, double max_val = 1);
    Tensor forward(const Tensor& x) override { return hardtanh(x, low_, high_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "Hardtanh"; }

  private:
    double low_, high_;
};

class Softplus : public Module {
  public:
    explicit Softplus(double beta = 1, double threshold = 20);
    Tensor forward(const Tensor& x) override { return softplus(x, beta_, threshold_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "Softplus"; }

  private:
    double beta_, threshold_;
};

class Softshrink : public Module {
  public:
    explicit Softshrink(double lambd = 0.5);
    Tensor forward(const Tensor& x) override { return softshrink(x, lambd_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "Softshrink"; }

  private:
    double lambd_;
};

class Hardshrink : public Module {
  public:
    explicit Hardshrink(double lambd = 0.5) : lambd_(lambd) {}
    Tensor forward(const Tensor& x) override { return hardshrink(x, lambd_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "Hardshrink"; }

  private:
    double lambd_;
};

class Threshold : public Module {
  public:
    Threshold(double threshold, double value) : threshold_(threshold), value_(value) {}
    Tensor forward(const Tensor& x) override { return pippin::threshold(x, threshold_, value_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "Threshold"; }

  private:
    double threshold_, value_;
};

class GLU : public Module {
  public:
    explicit GLU(std::int64_t dim = -1) : dim_(dim) {}
    Tensor forward(const Tensor& x) override { return glu(x, dim_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "GLU"; }

  private:
    std::int64_t dim_;
};

class Softmax : public Module {
  public:
    explicit Softmax(std::int64_t dim) : dim_(dim) {}
    Tensor forward(const Tensor& x) override { return softmax(x, dim_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "Softmax"; }

  private:
    std::int64_t dim_;
};

class LogSoftmax : public Module {
  public:
    explicit LogSoftmax(std::int64_t dim) : dim_(dim) {}
    Tensor forward(const Tensor& x) override { return log_softmax(x, dim_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "LogSoftmax"; }

  private:
    std::int64_t dim_;
};

class Softmin : public Module {
  public:
    explicit Softmin(std::int64_t dim) : dim_(dim) {}
    Tensor forward(const Tensor& x) override { return softmin(x, dim_); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "Softmin"; }

  private:
    std::int64_t dim_;
};

/// A learned slope for negative inputs, or one for each channel.
class PReLU : public Module {
  public:
    explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25);
    Tensor forward(const Tensor& x) override { return prelu(x, weight); }
    std::string extra_repr() const override;
    std::string type_name() const override { return "PReLU"; }
    Tensor weight;
};

}  // namespace nn
}  // namespace pippin
