// Tensor: a value with a shape, a dtype and a device, and PyTorch's vocabulary.
//
// Ops build a graph; work is submitted at item(), reading data, printing, saving, synchronize()
// and optimizer.step(). A copied handle shares the variable (a module and its optimizer see the
// same parameter), and no tensor ever aliases a part of another: `x += y` gives x's variable a new
// value and leaves every tensor that was made from x as it was.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "pippin/device.h"
#include "pippin/dtype.h"
#include "pippin/error.h"
#include "pippin/shape.h"

namespace pippin {

struct Variable;  // src/tensor/variable.h
struct Operand;

/// A dtype and a device for creation functions; unset fields take the defaults (float32, or the
/// dtype of the data; default_device()).
struct Options {
    std::optional<DType> dtype = std::nullopt;
    std::optional<Device> device = std::nullopt;
    bool requires_grad = false;

    Options() = default;
    Options(DType t) : dtype(t) {}
    Options(Device d) : device(d) {}
    Options(DType t, Device d) : dtype(t), device(d) {}
};

/// A range along one dimension: [start, stop) by step. Negative bounds count from the end.
struct Slice {
    std::optional<std::int64_t> start = std::nullopt, stop = std::nullopt;
    std::int64_t step = 1;  ///< at least 1
    Slice() = default;
    Slice(std::optional<std::int64_t> start_, std::optional<std::int64_t> stop_,
          std::int64_t step_ = 1)
        : start(start_), stop(stop_), step(step_) {}
};
struct NewAxisType {};
struct EllipsisType {};
inline constexpr NewAxisType NewAxis{};    ///< in an index: a new dimension of extent 1
inline constexpr EllipsisType Ellipsis{};  ///< in an index: all dimensions not named

/// One item of t.index({...}): an integer (drops the dimension), a Slice, NewAxis or Ellipsis.
struct Index {
    enum class Kind { Integer, Range, Axis, Rest } kind;
    std::int64_t integer = 0;
    Slice range{};
    Index(std::int64_t i) : kind(Kind::Integer), integer(i) {}
    Index(int i) : kind(Kind::Integer), integer(i) {}
    Index(Slice s) : kind(Kind::Range), range(s) {}
    Index(NewAxisType) : kind(Kind::Axis) {}
    Index(EllipsisType) : kind(Kind::Rest) {}
};

/// t[i]: the integer, and where the program says so.
struct At {
    std::int64_t i;
    Site site;
    At(std::int64_t i_, Site s = Site::current()) : i(i_), site(s) {}
};

class Tensor {
  public:
    Tensor() = default;  ///< undefined, as torch::Tensor() is
    /// A float32, int64 or bool tensor from literals: Tensor({1.f, 2.f}).
    template <class T>
    Tensor(std::initializer_list<T> values);

    bool defined() const { return variable_ != nullptr; }
    const Shape& shape() const;
    std::int64_t dim() const;
    std::int64_t size(
        std::int64_t d) const;  ///< extent of dimension d; negative counts from the end
    std::int64_t numel() const;
    DType dtype() const;
    Device device() const;

    // --- gradients ---
    bool requires_grad() const;
    /// Marks a leaf (a parameter). ValueError when the tensor was computed by an op; TypeError for
    /// dtypes that are not floating point.
    Tensor& requires_grad_(bool value = true);
    bool is_leaf() const;
    /// The gradient that backward() added up; undefined before.
    Tensor grad() const;
    void set_grad(const Tensor& gradient);
    void zero_grad() { set_grad({}); }
    /// Adds d(this)/d(leaf) into the grad of every leaf that requires it. `gradient` is d(loss)/
    /// d(this), of this shape; needed unless this has one element. The graph is given free unless
    /// `retain_graph`; a second backward() through it raises.
    void backward(const Tensor& gradient = {}, bool retain_graph = false,
                  Site site = Site::current()) const;
    /// The same value, cut off from the graph of gradients.
    Tensor detach() const;

    // --- reading; each of these computes what is pending and waits for it ---
    /// The only element, converted to T. ValueError unless numel() is 1.
    template <class T>
    T item() const;
    /// All elements in row-major order, converted to T.
    template <class T>
    std::vector<T> to_vector() const;
    /// Row-major elements, valid while this handle keeps its value. TypeError unless T is the
    /// dtype.
    template <class T>
    const T* data() const;
    const void* raw_data() const;
    /// Computes this tensor (and every other live pending one) and waits.
    const Tensor& eval() const;
    /// As PyTorch prints: tensor([[1., 2.], [3., 4.]])
    std::string str() const;

    // --- rebinding: the variable gets a new value ---
    /// Shape must be equal, dtype and device are converted to this tensor's. Raises on a leaf that
    /// requires grad unless inside NoGrad, as PyTorch does.
    Tensor& assign_(const Tensor& value, Site site = Site::current());
    Tensor& operator+=(const Operand& o);
    Tensor& operator-=(const Operand& o);
    Tensor& operator*=(const Operand& o);
    Tensor& operator/=(const Operand& o);
    Tensor& zero_();
    Tensor& fill_(double value);
    /// Writes `value` (broadcast) into the part that the index names.
    Tensor& index_put_(std::initializer_list<Index> index, const Tensor& value,
                       Site site = Site::current());

    // --- the same ops as in ops.h, for chaining ---
    Tensor operator[](At i) const;
    Tensor index(std::initializer_list<Index> index, Site site = Site::current()) const;
    Tensor to(DType dtype) const;
    Tensor to(Device device) const;
    Tensor cpu() const { return to(Device(Device::Type::CPU)); }
    Tensor reshape(const Shape& shape, Site site = Site::current()) const;
    Tensor view(const Shape& shape, Site site = Site::current()) const {
        return reshape(shape, site);
    }
    Tensor flatten(std::int64_t start = 0, std::int64_t end = -1,
                   Site site = Site::current()) const;
    Tensor permute(const std::vector<std::int64_t>& dims, Site site = Site::current()) const;
    Tensor transpose(std::int64_t a, std::int64_t b, Site site = Site::current()) const;
    Tensor t(Site site = Site::current()) const;
    Tensor squeeze(std::optional<std::int64_t> dim = {}, Site site = Site::current()) const;
    Tensor unsqueeze(std::int64_t dim, Site site = Site::current()) const;
    Tensor expand(const Shape& shape, Site site = Site::current()) const;
    Tensor sum(const std::vector<std::int64_t>& dims = {}, bool keepdim = false,
               Site site = Site::current()) const;
    Tensor mean(const std::vector<std::int64_t>& dims = {}, bool keepdim = false,
                Site site = Site::current()) const;
    Tensor max(Site site = Site::current()) const;
    Tensor min(Site site = Site::current()) const;
    Tensor amax(const std::vector<std::int64_t>& dims = {}, bool keepdim = false,
                Site site = Site::current()) const;
    Tensor argmax(std::optional<std::int64_t> dim = {}, bool keepdim = false,
                  Site site = Site::current()) const;
    Tensor matmul(const Tensor& o, Site site = Site::current()) const;
    Tensor abs() const;
    Tensor exp() const;
    Tensor log() const;
    Tensor sqrt() const;
    Tensor tanh() const;
    Tensor relu() const;
    Tensor sigmoid() const;
    Tensor softmax(std::int64_t dim, Site site = Site::current()) const;
    Tensor pow(double exponent) const;

    // --- for the library's own use ---
    explicit Tensor(std::shared_ptr<Variable> v) : variable_(std::move(v)) {}
    const std::shared_ptr<Variable>& variable() const { return variable_; }
    bool is_same(const Tensor& o) const { return variable_ == o.variable_; }

  private:
    std::shared_ptr<Variable> variable_;
};

std::ostream& operator<<(std::ostream& out, const Tensor& t);

/// The right-hand side of an operator: a tensor, or a number that does not raise the dtype within
/// its kind (int tensor + 1.5 gives float32; half + 1.5 stays half). Remembers the call site.
struct Operand {
    Tensor tensor;
    double real = 0;
    std::int64_t integer = 0;
    enum class Kind : std::uint8_t { Tensor, Real, Integer, Bool } kind = Kind::Tensor;
    Site site;
    Operand(const Tensor& t, Site s = Site::current()) : tensor(t), site(s) {}
    Operand(double v, Site s = Site::current()) : real(v), kind(Kind::Real), site(s) {}
    Operand(float v, Site s = Site::current()) : Operand(static_cast<double>(v), s) {}
    Operand(int v, Site s = Site::current()) : integer(v), kind(Kind::Integer), site(s) {}
    Operand(std::int64_t v, Site s = Site::current()) : integer(v), kind(Kind::Integer), site(s) {}
    Operand(bool v, Site s = Site::current()) : integer(v), kind(Kind::Bool), site(s) {}
};

/// While one lives, ops of this thread record no gradients (torch.no_grad).
class NoGrad {
  public:
    NoGrad();
    ~NoGrad();
    NoGrad(const NoGrad&) = delete;
    NoGrad& operator=(const NoGrad&) = delete;

  private:
    bool before_;
};
bool grad_enabled();

/// While one lives, conv2d, linear and matmul of this thread compute in `dtype` (bfloat16 or
/// float16): their floating-point inputs are cast, their results stay in it; losses and norms cast
/// back to float32 (torch.autocast). float32 turns it off inside another.
class Autocast {
  public:
    explicit Autocast(DType dtype);
    ~Autocast();
    Autocast(const Autocast&) = delete;
    Autocast& operator=(const Autocast&) = delete;

  private:
    DType before_;
};

/// Submits every live pending tensor of this thread. Does not wait.
void flush();

/// The plan that computing `t` (and all else that is pending) would run: launches, what was fused
/// into each, bytes moved, arena size. Computes nothing.
std::string explain(const Tensor& t);

}  // namespace pippin
