// Small float32 products of great depth (weight gradients) on matrix units for bfloat16: the depth
// is cut into parts, whose number does not depend on the threads, and their sums are added in
// order.
#include <algorithm>
#include <cstring>

#include "backends/cpu/matmul_view.h"
#include "backends/cpu/split_product.h"
#include "backends/cpu/split_tiles.h"
#include "backends/cpu/threads.h"

namespace pippin::cpu {

namespace {

using split::kBlock;
using split::kDepth;
using split::kPanelBytes;
using split::up;
using std::int64_t;

constexpr int64_t kParts = 16;
constexpr int64_t kSplitBytes = 1 << 20;     // of both operands at once: half of the second cache
constexpr int64_t kMostResult = 160 * 1024;  // numbers of a result

class DeepMatmul : public HeavyKernel, OneProduct {
  public:
    DeepMatmul(const plan::HeavyLaunch& l, const plan::Operand& a, const plan::Operand& b,
               const MakeKernel& make_other)
        : OneProduct(a, b, l.output),
          rows_(up(m_, kBlock)),
          columns_(up(n_, kBlock)),
          deep_(up((k_ + kParts - 1) / kParts, kDepth)),
          threads_(num_threads()),
          other_(l, make_other) {
        depth_ = std::max(kSplitBytes / ((rows_ + columns_) * 6) / kDepth, int64_t{1}) * kDepth;
        depth_ = std::min(depth_, deep_);
        split_bytes_ = (rows_ + columns_) * depth_ * 6;
        scratch_bytes =
            static_cast<std::size_t>(kParts * rows_ * columns_ * 4 + threads_ * split_bytes_);
    }

    void run(void* const* operands, void* output) override {
        const auto* a = static_cast<const float*>(operands[0]);
        const auto* b = static_cast<const float*>(operands[1]);
        auto* const sums = static_cast<float*>(scratch);
        const int64_t step = rows_ * columns_, deep = deep_;
        const int64_t parts = (k_ + deep - 1) / deep;
        std::atomic<bool> good{true};
        const int64_t share = std::min<int64_t>(std::min(threads_, num_threads()), parts);
        parallel_threads(static_cast<int>(share), [&](int thread) {
            std::byte* const at =
                static_cast<std::byte*>(scratch) + kParts * step * 4 + thread * split_bytes_;
            for (int64_t p = parts * thread / share; p < parts * (thread + 1) / share; ++p)
                for (int64_t k = p * deep; k < std::min((p + 1) * deep, k_) && good; k += depth_)
                    if (!add(a, b, k, std::min({depth_, (p + 1) * deep - k, k_ - k}), k > p * deep,
                             at, sums + p * step))
                        good = false;
        });
        if (!good) return other_.run(operands, output);
        parallel_ranges(m_, m_ * n_ * parts, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
                float* const c = static_cast<float*>(output) + i * c_row_;
                std::memcpy(c, sums + i * columns_, static_cast<std::size_t>(n_) * 4);
                for (int64_t p = 1; p < parts; ++p) {
                    const float* const from = sums + p * step + i * columns_;
                    for (int64_t j = 0; j < n_; ++j)
                        c[j] += from[j];
                }
            }
        });
    }

  private:
    // `depth` from k on; false: its numbers cannot be split.
    bool add(const float* a, const float* b, int64_t k, int64_t depth, bool adds, std::byte* at,
             float* sums) const {
        const split::Rows rows{at, 64, 3 * rows_ * 64, rows_ * 64};
        std::byte* const columns = at + rows_ * depth_ * 6;
        const int64_t depths = (depth + kDepth - 1) / kDepth, panel = depths * kPanelBytes;
        split::Range range;
        split::split_rows({a + k * a_column_, a_row_, a_column_}, m_, depth, rows, range);
        // Across first, so that memory is read as it lies.
        for (int64_t d = 0; d < depths; ++d)
            for (int64_t n = 0; n < n_; n += kBlock)
                split::split_columns(
                    {b + (k + d * kDepth) * b_row_ + n * b_column_, b_row_, b_column_},
                    std::min(kDepth, depth - d * kDepth), std::min(kBlock, n_ - n),
                    columns + n / kBlock * panel + d * kPanelBytes, range);
        if (!range.good) return false;
        const split::Tiles tiles;
        const int64_t tap = 0;
        for (int64_t n = 0; n < columns_; n += kBlock)
            for (int64_t m = 0; m < rows_; m += kBlock) {
                split::Product p{rows, {columns + n / kBlock * panel}, depths, &tap, 1};
                p.a.at += m * 64;
                split::Output out{sums + m * columns_ + n, columns_};
                out.adds = adds;
                tiles.run(p, kBlock, kBlock, out);
            }
        return true;
    }

    int64_t rows_, columns_;
    int64_t deep_;  // of a part
    int64_t depth_ = 0, split_bytes_ = 0;
    int threads_;
    OtherKernel other_;
};

}  // namespace

std::unique_ptr<HeavyKernel> make_matmul_split_deep(const plan::HeavyLaunch& l,
                                                    const plan::Operand& a, const plan::Operand& b,
                                                    const MakeKernel& make_other) {
    const int64_t m = a.shape[a.shape.rank() - 2], k = a.shape.back(), n = b.shape.back();
    if (l.epilogue.bias >= 0 || l.epilogue.residual >= 0 ||
        l.epilogue.activation != plan::Activation::None)
        return nullptr;
    if (up(m, kBlock) * up(n, kBlock) > kMostResult || k < 2048) return nullptr;
    return std::make_unique<DeepMatmul>(l, a, b, make_other);
}

}  // namespace pippin::cpu
