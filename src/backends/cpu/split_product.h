// Matrix products and convolutions in float32 on matrix units for bfloat16 (see split_tiles.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "backends/cpu/geometry.h"
#include "backends/cpu/heavy.h"

namespace pippin::cpu {

using MakeKernel = std::function<std::unique_ptr<HeavyKernel>(const plan::HeavyLaunch&)>;

/// A kernel for a float32 matmul of one large product; null where another is the better choice.
/// `make_other` makes the kernel for numbers that cannot be split (infinite, no numbers, huge).
std::unique_ptr<HeavyKernel> make_matmul_split(const plan::HeavyLaunch& launch,
                                               const MakeKernel& make_other);

/// Its kernel for small products of great depth, A and B as matmul_view.h has them; or null.
std::unique_ptr<HeavyKernel> make_matmul_split_deep(const plan::HeavyLaunch& launch,
                                                    const plan::Operand& a, const plan::Operand& b,
                                                    const MakeKernel& make_other);

/// The same for a convolution or its input gradient.
std::unique_ptr<HeavyKernel> make_conv_split(const plan::HeavyLaunch& launch,
                                             const ConvGeometry& geometry,
                                             const MakeKernel& make_other);

/// Of x and dy that a weight gradient splits at once. Tests lower it.
inline std::int64_t split_chunk_bytes = 12 << 20;

/// The same for a convolution's weight gradient.
std::unique_ptr<HeavyKernel> make_conv_split_grad_weight(const plan::HeavyLaunch& launch,
                                                         const ConvGeometry& geometry,
                                                         const MakeKernel& make_other);

/// Whether this processor and a launch's dtypes and activation are such as all of these can do.
bool can_split(const plan::HeavyLaunch& launch);

/// Which blocks of a product's rows and columns one task computes, both from first to before last.
struct BlockTask {
    std::int64_t first_row, last_row, first_column, last_column;
    int thread;
};
/// Shares blocks among threads, for each task at most `most` of rows: threads share rows, or where
/// those are few, columns.
void share_blocks(int threads, std::int64_t rows, std::int64_t most, std::int64_t columns,
                  const std::function<void(const BlockTask&)>& task);

/// The kernel that takes over, made when it is first wanted, with scratch memory of its own.
class OtherKernel {
  public:
    OtherKernel(const plan::HeavyLaunch& launch, MakeKernel make)
        : launch_(launch), make_(std::move(make)) {}
    void run(void* const* operands, void* output);

  private:
    plan::HeavyLaunch launch_;
    MakeKernel make_;
    std::unique_ptr<HeavyKernel> kernel_;
};

}  // namespace pippin::cpu
