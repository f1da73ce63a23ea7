// Printing as PyTorch does: four decimals, scientific where the range asks for it, long dims cut.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>

#include "pippin/tensor.h"
#include "tensor/variable.h"

namespace pippin {
namespace {

constexpr std::int64_t kThreshold = 1000, kEdge = 3;
constexpr std::size_t kLine = 80;

struct Format {
    bool whole = false, scientific = false;
    std::size_t width = 0;
    DType dtype = DType::Float32;

    std::string text(std::int64_t v) const {
        if (dtype == DType::Bool) return v != 0 ? "True" : "False";
        return fmt::format("{}", v);
    }
    std::string text(double v) const {
        if (std::isnan(v)) return "nan";
        if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
        if (scientific) return fmt::format("{:.4e}", v);
        return whole ? fmt::format("{:.0f}.", v) : fmt::format("{:.4f}", v);
    }
    template <class T>
    std::string padded(T v) const {
        return fmt::format("{:>{}}", text(v), width);
    }
};

// T: double, or int64 for the dtypes that are whole numbers, all of which a double cannot hold.
template <class T>
class Printer {
  public:
    explicit Printer(const Tensor& t) : shape_(t.shape()), values_(t.to_vector<T>()) {
        f_.dtype = t.dtype();
        cut_ = t.numel() > kThreshold;
        choose_format();
    }

    std::string str() const {
        if (shape_.rank() == 0) return f_.text(values_[0]);
        if (shape_.numel() == 0) return "[]";
        return dim(0, 0);
    }

  private:
    // As torch._tensor_str's formatter: whole numbers get a bare point; a wide range, the e form.
    void choose_format() {
        if constexpr (std::is_same_v<T, double>) {
            double least = INFINITY, most = 0;
            bool whole = true, any = false;
            visit(0, 0, [&](double v) {
                if (!std::isfinite(v)) return;
                whole &= v == std::round(v);
                if (v == 0) return;
                any = true;
                least = std::min(least, std::fabs(v));
                most = std::max(most, std::fabs(v));
            });
            f_.whole = whole;
            if (any) f_.scientific = most / least > 1000 || most > 1e8 || (!whole && least < 1e-4);
        }
        visit(0, 0, [&](T v) {
            if (std::isfinite(static_cast<double>(v)))
                f_.width = std::max(f_.width, f_.text(v).size());
        });
    }

    bool shown(int d, std::int64_t i) const {
        return !cut_ || shape_[d] <= 2 * kEdge || i < kEdge || i >= shape_[d] - kEdge;
    }

    template <class F>
    void visit(int d, std::int64_t at, const F& f) const {
        if (d == shape_.rank()) return f(values_[static_cast<std::size_t>(at)]);
        for (std::int64_t i = 0; i < shape_[d]; ++i)
            if (shown(d, i)) visit(d + 1, at * shape_[d] + i, f);
    }

    std::string dim(int d, std::int64_t at) const {
        const std::string margin(static_cast<std::size_t>(d) + 8, ' ');
        std::string out = "[";
        const bool last = d + 1 == shape_.rank();
        std::size_t column = margin.size();
        bool dots = false;
        for (std::int64_t i = 0; i < shape_[d]; ++i) {
            const bool first = i == 0;
            std::string item;
            if (!shown(d, i)) {
                if (dots) continue;
                dots = true;
                item = last ? " ..." : "...";
            } else {
                item = last ? f_.padded(values_[static_cast<std::size_t>(at * shape_[d] + i)])
                            : dim(d + 1, at * shape_[d] + i);
            }
            if (last) {
                if (!first) out += ",";
                if (!first && column + item.size() + 2 > kLine) {
                    out += "\n" + margin;
                    column = margin.size();
                } else if (!first) {
                    out += " ";
                }
                column += item.size() + 2;
            } else if (!first) {
                out += "," + std::string(static_cast<std::size_t>(shape_.rank() - d - 1), '\n') +
                       margin;
            }
            out += item;
        }
        return out + "]";
    }

    Shape shape_;
    std::vector<T> values_;
    Format f_;
    bool cut_ = false;
};

}  // namespace

std::string Tensor::str() const {
    if (!defined()) return "tensor(undefined)";
    std::string out = "tensor(" + (is_floating(dtype()) ? Printer<double>(*this).str()
                                                        : Printer<std::int64_t>(*this).str());
    if (shape().numel() == 0 && shape().rank() != 1)
        out += ", size=(" + shape().str().substr(1, shape().str().size() - 2) + ")";
    const DType t = dtype();
    if (t != DType::Float32 && t != DType::Int64 && t != DType::Bool)
        out += fmt::format(", dtype={}", name_of(t));
    if (device().type() != Device::Type::CPU) out += fmt::format(", device='{}'", device().str());
    if (requires_grad())
        out += variable_->requires_grad ? ", requires_grad=True"
                                        : fmt::format(", grad_fn=<{}>", variable_->node->op->name);
    return out + ")";
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << t.str(); }

}  // namespace pippin
