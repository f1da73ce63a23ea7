// Large float32 matrix products on matrix units for bfloat16.
#include <algorithm>
#include <new>
#include <vector>

#include "backends/cpu/amx.h"
#include "backends/cpu/matmul_view.h"
#include "backends/cpu/split_product.h"
#include "backends/cpu/split_tiles.h"
#include "backends/cpu/threads.h"

namespace pippin::cpu {

void OtherKernel::run(void* const* operands, void* output) {
    if (!kernel_) kernel_ = make_(launch_);
    struct Free {
        void operator()(void* p) const { ::operator delete (p, std::align_val_t{64}); }
    };
    const std::unique_ptr<void, Free> scratch(
        ::operator new (std::max<std::size_t>(kernel_->scratch_bytes, 1), std::align_val_t{64}));
    kernel_->scratch = scratch.get();
    kernel_->run(operands, output);
}

bool can_split(const plan::HeavyLaunch& l) {
    if (!has_amx() || l.output.dtype != DType::Float32) return false;
    for (const plan::Operand& o : l.operands)
        if (o.dtype != DType::Float32) return false;
    const plan::Activation activation = l.epilogue.activation;
    return activation == plan::Activation::None || activation == plan::Activation::Relu;
}

void share_blocks(int threads, std::int64_t rows, std::int64_t most, std::int64_t columns,
                  const std::function<void(const BlockTask&)>& task) {
    std::int64_t parts = (rows + most - 1) / most, column_parts = 1;
    if (parts < threads && columns >= threads)
        column_parts = (threads + parts - 1) / parts;
    else
        parts = std::min(split::up(parts, threads), rows);
    const std::int64_t tasks = parts * column_parts, share = std::min<std::int64_t>(threads, tasks);
    parallel_threads(static_cast<int>(share), [&](int thread) {
        for (std::int64_t t = tasks * thread / share; t < tasks * (thread + 1) / share; ++t) {
            const std::int64_t r = t / column_parts, c = t % column_parts;
            task({rows * r / parts, rows * (r + 1) / parts, columns * c / column_parts,
                  columns * (c + 1) / column_parts, thread});
        }
    });
}

namespace {

using split::kBlock;
using split::kDepth;
using split::kPanelBytes;
using split::up;
using std::int64_t;

constexpr int64_t kDepthAtOnce = 768;           // so that parts of rows stay in the second cache
constexpr int64_t kRowBytes = 900 << 10;        // of those parts
constexpr int64_t kRowPanel = 3 * kBlock * 64;  // of kBlock rows' parts for kDepth
constexpr int64_t kMostColumnBytes = 96 << 20;  // of packed columns
constexpr int64_t kFewColumnBytes = 800 << 10;  // of those that the second cache holds beside rows

class SplitMatmul : public HeavyKernel, OneProduct {
  public:
    SplitMatmul(const plan::HeavyLaunch& l, const plan::Operand& a, const plan::Operand& b,
                const MakeKernel& make_other)
        : OneProduct(a, b, l.output),
          bias_(l.epilogue.bias),
          residual_(l.epilogue.residual),
          relu_(l.epilogue.activation == plan::Activation::Relu),
          other_(l, make_other) {
        if (residual_ >= 0)
            residual_row_ = row_stride(l.operands[static_cast<std::size_t>(residual_)]);
        depth_ = std::min(up(k_, kDepth), kDepthAtOnce);
        rows_ = std::min(std::max(kRowBytes / (depth_ * 6) / kBlock, int64_t{1}) * kBlock,
                         up(m_, kBlock));
        column_bytes_ = up(n_, kBlock) / kBlock * (depth_ / kDepth) * kPanelBytes;
        row_bytes_ = rows_ * depth_ * 6;
        threads_ = num_threads();
        scratch_bytes = static_cast<std::size_t>(column_bytes_ + row_bytes_ * threads_);
    }

    void run(void* const* operands, void* output) override {
        const auto* a = static_cast<const float*>(operands[0]);
        const auto* b = static_cast<const float*>(operands[1]);
        std::atomic<bool> good{true};
        for (int64_t k = 0; k < k_ && good; k += depth_) {
            const int64_t depth = std::min(depth_, k_ - k);
            const int64_t panel = up(depth, kDepth) / kDepth * kPanelBytes;
            std::byte* const columns = static_cast<std::byte*>(scratch);
            parallel_ranges(
                up(n_, kBlock) / kBlock, n_ * depth, [&](int64_t begin, int64_t end, int) {
                    split::Range range;
                    for (int64_t i = begin; i < end; ++i)
                        split::split_columns(
                            {b + k * b_row_ + i * kBlock * b_column_, b_row_, b_column_}, depth,
                            std::min(kBlock, n_ - i * kBlock), columns + i * panel, range);
                    if (!range.good) good = false;
                });
            if (good) multiply(a + k * a_column_, k, depth, panel, operands, output, good);
        }
        if (!good) other_.run(operands, output);
    }

  private:
    // Memory to ask for, so many lines with each kDepth.
    struct Ahead {
        const std::byte* at = nullptr;
        int64_t lines = 0;
    };

    void multiply(const float* a, int64_t k, int64_t depth, int64_t panel, void* const* operands,
                  void* output, std::atomic<bool>& good) const {
        const auto task = [&](const BlockTask& t) {
            const int64_t first = t.first_row * kBlock, last = std::min(t.last_row * kBlock, m_);
            std::byte* const rows =
                static_cast<std::byte*>(scratch) + column_bytes_ + t.thread * row_bytes_;
            // The parts of kBlock rows lie together.
            const int64_t depths = (depth + kDepth - 1) / kDepth, block_bytes = depths * kRowPanel;
            const auto parts_of = [&](int64_t r) {
                return split::Rows{rows + (r - first) / kBlock * block_bytes, 64, kRowPanel,
                                   kRowPanel / 3};
            };
            split::Range range;
            const auto split_block = [&](int64_t r, const split::Rows& to) {
                split::split_rows({a + r * a_row_, a_row_, a_column_}, std::min(kBlock, last - r),
                                  depth, to, range);
            };
            const split::Tiles tiles;
            const int64_t tap = 0;
            const auto block = [&](int64_t r, int64_t n, const split::Rows& from,
                                   const Ahead& ahead) {
                const split::Product p{
                    from,       {static_cast<std::byte*>(scratch) + n / kBlock * panel},
                    depths,     &tap,
                    1,          ahead.at,
                    ahead.lines};
                split::Output out{static_cast<float*>(output) + r * c_row_ + n, c_row_};
                out.adds = k > 0;
                if (k + depth == k_) {
                    if (bias_ >= 0) out.bias = static_cast<const float*>(operands[bias_]) + n;
                    if (residual_ >= 0) {
                        out.residual =
                            static_cast<const float*>(operands[residual_]) + r * residual_row_ + n;
                        out.residual_row = residual_row_;
                    }
                    out.relu = relu_;
                }
                tiles.run(p, std::min(kBlock, last - r), std::min(kBlock, n_ - n), out);
            };
            const int64_t first_n = t.first_column * kBlock,
                          last_n = std::min(t.last_column * kBlock, n_);
            if ((t.last_column - t.first_column) * panel <= kFewColumnBytes) {
                // All columns stay in the second cache: results are written as they lie, and the
                // next rows come from memory in the meantime.
                const bool dense = a_column_ == 1 && a_row_ == depth;
                const int64_t steps = (t.last_column - t.first_column) * depths;
                const int64_t lines = (kBlock * depth * 4 / 64 + steps - 1) / steps;
                for (int64_t r = first; r < last; r += kBlock) {
                    split_block(r, parts_of(first));
                    Ahead ahead;
                    if (dense && r + 2 * kBlock <= m_)
                        ahead = {reinterpret_cast<const std::byte*>(a + (r + kBlock) * a_row_),
                                 lines};
                    for (int64_t n = first_n; n < last_n; n += kBlock) {
                        block(r, n, parts_of(first), ahead);
                        ahead.at += depths * lines * 64;
                    }
                }
            } else {
                for (int64_t r = first; r < last; r += kBlock)
                    split_block(r, parts_of(r));
                const int64_t blocks = up(last - first, kBlock) / kBlock;
                const int64_t lines = (kPanelBytes / 64 + blocks - 1) / blocks;
                for (int64_t n = first_n; n < last_n; n += kBlock) {
                    // The next columns' panel.
                    Ahead ahead;
                    if (n + 2 * kBlock <= last_n)
                        ahead = {static_cast<std::byte*>(scratch) + (n / kBlock + 1) * panel,
                                 lines};
                    for (int64_t r = first; r < last; r += kBlock) {
                        block(r, n, parts_of(r), ahead);
                        ahead.at += depths * lines * 64;
                    }
                }
            }
            if (!range.good) good = false;
        };
        share_blocks(std::min(threads_, num_threads()), up(m_, kBlock) / kBlock, rows_ / kBlock,
                     up(n_, kBlock) / kBlock, task);
    }

    int64_t residual_row_ = 0;
    int bias_, residual_;
    bool relu_;
    int64_t depth_ = 0, rows_ = 0, column_bytes_ = 0, row_bytes_ = 0;
    int threads_ = 1;
    OtherKernel other_;
};

bool one_matrix(const plan::Operand& o) {
    for (int d = 0; d < o.shape.rank() - 2; ++d)
        if (o.shape[d] != 1) return false;
    return true;
}
bool has_unit_stride(const plan::Operand& o) { return row_stride(o) == 1 || column_stride(o) == 1; }

}  // namespace

std::unique_ptr<HeavyKernel> make_matmul_split(const plan::HeavyLaunch& l,
                                               const MakeKernel& make_other) {
    if (!can_split(l)) return nullptr;
    const plan::Operand a = matrix_a(l), b = matrix_b(l);
    if (!one_matrix(a) || !one_matrix(b) || !one_matrix(l.output)) return nullptr;
    if (!has_unit_stride(a) || !has_unit_stride(b) || column_stride(l.output) != 1) return nullptr;
    if (l.epilogue.bias >= 0 &&
        l.operands[static_cast<std::size_t>(l.epilogue.bias)].shape.numel() != b.shape.back())
        return nullptr;
    if (l.epilogue.residual >= 0) {
        const plan::Operand& r = l.operands[static_cast<std::size_t>(l.epilogue.residual)];
        if (column_stride(r) != 1 || !one_matrix(r)) return nullptr;
    }
    const std::int64_t m = a.shape[a.shape.rank() - 2], k = a.shape.back(), n = b.shape.back();
    // Splitting pays where tiles are mostly full and each number of B, whose splitting costs as
    // much as its products with 100 rows, meets more of them.
    if (m < (k < 2048 ? 128 : 64) || n < 64 || k < 64 || m * n * k < (1 << 21)) return nullptr;
    const std::int64_t depth = std::min(up(k, kDepth), kDepthAtOnce);
    if (up(n, kBlock) * depth * 6 > kMostColumnBytes) return nullptr;
    if (auto deep = make_matmul_split_deep(l, a, b, make_other)) return deep;
    return std::make_unique<SplitMatmul>(l, a, b, make_other);
}

}  // namespace pippin::cpu
