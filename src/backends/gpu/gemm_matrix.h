// Products of float16 matrices on a device's matrix units: what gemm.cpp's tile is for floats.
#pragma once

#include <optional>
#include <span>

#include "backends/gpu/gemm.h"

namespace pippin::gpu {

/// A group's tile of C is cut among `warps_m` x `warps_n` subgroups, wm x wn for each.
struct MatrixTile {
    int warps_m, warps_n, wm, wn, depth;
    int bm() const { return warps_m * wm; }
    int bn() const { return warps_n * wn; }
    int threads() const { return warps_m * warps_n * 32; }
    /// At most, whichever way the operands lie.
    int shared_bytes() const;
};

/// All there are. Their numbers (ProductForm::tile) are kFirstMatrixTile and up.
std::span<const MatrixTile> matrix_tiles();
constexpr int kFirstMatrixTile = 100;
/// Whether matrix units take the product: not where the device or the operands are not for it.
bool on_matrix_units(const Gemm& g, const Features& f);
/// The number of the tile for a product on matrix units.
int choose_matrix_tile(const Gemm& g, const Features& f);
/// The kernel; its arguments are those of gemm.cpp's.
KernelSource matrix_product(const Gemm& g, const MatrixTile& t, std::int64_t splits,
                            std::int64_t length);

/// The area of the tiles that cover C, in areas of C. (gemm.cpp)
double waste(const Gemm& g, int bm, int bn);
/// Statements that find this group's part of the work: pa, pb, pc, m_first, n_first, b, k_begin,
/// k_end and, of a split sum, part. (gemm.cpp)
std::string locate_tile(const Gemm& g, int bm, int bn, std::int64_t splits, std::int64_t length);

}  // namespace pippin::gpu
