#include "backends/cpu/conv_product.h"

#include "backends/cpu/split_product.h"
#include "graph/ops/records.h"

namespace pippin::cpu {

namespace {

class Product : public HeavyKernel {
  public:
    Product(std::unique_ptr<HeavyKernel> product, bool swapped)
        : product_(std::move(product)), swapped_(swapped) {
        scratch_bytes = product_->scratch_bytes;
    }
    void run(void* const* operands, void* output) override {
        product_->scratch = scratch;
        void* const exchanged[] = {operands[1], operands[0]};
        product_->run(swapped_ ? exchanged : operands, output);
    }

  private:
    std::unique_ptr<HeavyKernel> product_;
    bool swapped_;
};

plan::Operand matrix(const plan::Operand& like, std::int64_t rows, std::int64_t columns) {
    plan::Operand m = like;
    m.shape = {rows, columns};
    m.strides = {columns, 1};
    return m;
}

}  // namespace

std::unique_ptr<HeavyKernel> make_conv_product(const plan::HeavyLaunch& l, const ConvGeometry& g) {
    if (!g.is_product()) return nullptr;

    const std::int64_t pixels = g.n * g.h * g.w;
    plan::HeavyLaunch p;
    p.op = &graph::ops::kMatmul;
    const auto transposes = [&p](std::int64_t a, std::int64_t b) {
        p.attrs.i.push_back(a);
        p.attrs.i.push_back(b);
    };
    const bool weights = l.op == &graph::ops::kConv2dGradWeight;
    if (weights) {
        transposes(1, 0);
        p.operands = {matrix(l.operands[1], pixels, g.co), matrix(l.operands[0], pixels, g.ci)};
        p.output = matrix(l.output, g.co, g.ci);
    } else if (l.op == &graph::ops::kConv2d) {
        transposes(0, 1);
        p.operands = {matrix(l.operands[0], pixels, g.ci), matrix(l.operands[1], g.co, g.ci)};
        p.output = matrix(l.output, pixels, g.co);
        p.epilogue = l.epilogue;
        for (std::size_t i = 2; i < l.operands.size(); ++i)
            p.operands.push_back(static_cast<int>(i) == l.epilogue.residual
                                     ? matrix(l.operands[i], pixels, g.co)
                                     : l.operands[i]);
    } else {
        transposes(0, 0);
        p.operands = {matrix(l.operands[0], pixels, g.co), matrix(l.operands[1], g.co, g.ci)};
        p.output = matrix(l.output, pixels, g.ci);
    }
    const auto whole = [](const plan::HeavyLaunch& other) { return make_matmul(other); };
    if (auto split = make_matmul_split(p, whole))
        return std::make_unique<Product>(std::move(split), weights);
    if (l.op == &graph::ops::kConv2d) return nullptr;
    // Measured with oneDNN 2.6 (bench/heavy): for halves always faster; for float32 where vectors
    // of input channels or of pixels are few, and the same elsewhere.
    if (!is_half(l.output.dtype) && g.ci > 64 && g.h * g.w > 64) return nullptr;
    return std::make_unique<Product>(make_matmul(p), weights);
}

}  // namespace pippin::cpu
