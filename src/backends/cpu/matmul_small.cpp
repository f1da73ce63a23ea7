// Small products: when, and how threads share them.
#include "backends/cpu/matmul_small.h"

#include <algorithm>

#include "backends/cpu/geometry.h"
#include "backends/cpu/matmul_view.h"
#include "backends/cpu/threads.h"

namespace pippin::cpu {

namespace {

using std::int64_t;

const SmallProductFunctions& functions() {
    static const SmallProductFunctions f = small_product_functions();
    return f;
}

class SmallMatmul : public HeavyKernel {
  public:
    explicit SmallMatmul(const plan::HeavyLaunch& l)
        : a_(matrix_a(l)), b_(matrix_b(l)), c_(l.output), threads_(num_threads()) {
        bias_ = l.epilogue.bias;
        residual_ = l.epilogue.residual;
        if (residual_ >= 0) r_ = l.operands[static_cast<std::size_t>(residual_)];
        rank_ = c_.shape.rank();
        p_.m = c_.shape[rank_ - 2];
        p_.n = c_.shape[rank_ - 1];
        p_.k = a_.shape[rank_ - 1];
        p_.a_row = row_stride(a_), p_.a_col = column_stride(a_);
        p_.b_row = row_stride(b_), p_.b_col = p_.n == 1 ? 1 : column_stride(b_);
        p_.c_row = row_stride(c_);
        p_.residual_row = residual_ >= 0 ? row_stride(r_) : 0;
        p_.activation = l.epilogue.activation;
        batch_ = c_.shape.numel() / (p_.m * p_.n);
        panel_bytes_ =
            align64(static_cast<std::size_t>(functions().panel_vectors * functions().lanes * p_.k) *
                    sizeof(float));
        if (p_.b_col == 1) panel_bytes_ = 0;
        scratch_bytes = panel_bytes_ * static_cast<std::size_t>(threads_);
    }

    void run(void* const* operands, void* output) override {
        const int64_t lanes = functions().lanes, columns = (p_.n + lanes - 1) / lanes;
        // Eight multiplications are worth one element operation.
        const int64_t work = batch_ * p_.m * p_.n * p_.k / 8;
        const int most = std::min(threads_, threads_for(std::max(batch_, p_.m), work));
        const bool by_batch = batch_ >= most;
        // Panels of B are packed by whoever uses them, so columns are shared rather than rows,
        // where that is nearly even.
        const bool by_columns = !by_batch && columns % most == 0;
        parallel_threads(most, [&](int t) {
            const auto share = [&](int64_t n, int64_t* begin, int64_t* end) {
                *begin = n * t / most;
                *end = n * (t + 1) / most;
            };
            int64_t first = 0, last = batch_, i0 = 0, i1 = p_.m, j0 = 0, j1 = p_.n;
            if (by_batch) {
                share(batch_, &first, &last);
            } else if (by_columns) {
                share(columns, &j0, &j1);
                j0 *= lanes;
                j1 = std::min(j1 * lanes, p_.n);
            } else {
                share(p_.m, &i0, &i1);
            }
            if (i0 == i1) return;
            SmallProduct p = p_;
            p.m = i1 - i0;
            p.n = j1 - j0;
            p.panel = reinterpret_cast<float*>(static_cast<char*>(scratch) +
                                               panel_bytes_ * static_cast<std::size_t>(t));
            for (int64_t i = first; i < last; ++i) {
                p.a = static_cast<const float*>(operands[0]) + offset(a_, i) + i0 * p.a_row;
                p.b = static_cast<const float*>(operands[1]) + offset(b_, i) + j0 * p.b_col;
                p.c = static_cast<float*>(output) + offset(c_, i) + i0 * p.c_row + j0;
                p.bias = bias_ >= 0 ? static_cast<const float*>(operands[bias_]) + j0 : nullptr;
                p.residual = residual_ >= 0 ? static_cast<const float*>(operands[residual_]) +
                                                  offset(r_, i) + i0 * p.residual_row + j0
                                            : nullptr;
                functions().run(p);
            }
        });
    }

  private:
    int64_t offset(const plan::Operand& o, int64_t i) const {
        int64_t at = 0;
        for (int d = rank_ - 3; d >= 0; --d) {
            at += i % c_.shape[d] * o.strides[static_cast<std::size_t>(d)];
            i /= c_.shape[d];
        }
        return at;
    }

    plan::Operand a_, b_, c_, r_;
    int threads_, rank_ = 2;
    int bias_ = -1, residual_ = -1;
    SmallProduct p_{};
    int64_t batch_ = 1;
    std::size_t panel_bytes_ = 0;
};

}  // namespace

std::unique_ptr<HeavyKernel> make_matmul_small(const plan::HeavyLaunch& l) {
    for (const plan::Operand& o : l.operands)
        if (o.dtype != DType::Float32) return nullptr;
    const plan::Operand &c = l.output, b = matrix_b(l);
    const int rank = c.shape.rank();
    const auto contiguous = [](const plan::Operand& o) {
        return o.shape.back() == 1 || column_stride(o) == 1;
    };
    if (c.dtype != DType::Float32 || !contiguous(c) || functions().lanes == 1) return nullptr;
    if (!contiguous(b) && row_stride(b) != 1) return nullptr;
    if (l.epilogue.residual >= 0 &&
        !contiguous(l.operands[static_cast<std::size_t>(l.epilogue.residual)]))
        return nullptr;
    // Where a product no longer fits the caches, oneDNN's blocking pays.
    const int64_t m = c.shape[rank - 2], n = c.shape[rank - 1], k = b.shape[rank - 2];
    constexpr int64_t kMost = 64 * 1024;
    if (k * n > kMost || m * k > kMost || m * n > kMost) return nullptr;
    return std::make_unique<SmallMatmul>(l);
}

}  // namespace pippin::cpu
