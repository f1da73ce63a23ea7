// float32 products on matrix units for bfloat16: each number is a sum of three bfloat16 (8 bits of
// its 24 each, exactly), and of the nine products of parts the six that float32 can see are summed
// in float32. The result is as close as a float32 product's, at a multiple of its speed. (Henry,
// Tang, Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
// Computations", 2019.) Only where has_amx().
#pragma once

#include <cstddef>
#include <cstdint>

namespace pippin::cpu::split {

inline constexpr std::int64_t kTile = 16;   ///< rows of A and columns of B in a tile
inline constexpr std::int64_t kDepth = 32;  ///< of the inner extent in a tile
inline constexpr std::int64_t kBlock = 32;  ///< rows and columns of C that are computed together
inline constexpr std::int64_t kTileBytes = 1024;
constexpr std::int64_t up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }
/// Packed bytes of B for kBlock columns and kDepth of the inner extent.
inline constexpr std::int64_t kPanelBytes = 3 * 2 * kTileBytes;

/// The parts of A: a part's row is kDepth bfloat16, and what lies where is linear.
struct Rows {
    std::byte* at;
    std::int64_t row_bytes, depth_bytes, part_bytes;  ///< to the next row, kDepth on, next part
};

/// A matrix of float32 in memory.
struct Source {
    const float* at;
    std::int64_t row, column;  ///< strides; one of them is 1
};

/// Whether all numbers seen so far may be split: finite, and so small that no product overflows.
struct Range {
    bool good = true;
};

/// Splits `rows` x `depth` numbers; what is missing to kDepth becomes 0. Of rows beyond, up to a
/// whole tile, anything may be written: they reach no other row of the result.
void split_rows(const Source& a, std::int64_t rows, std::int64_t depth, const Rows& to,
                Range& range);
/// `columns` <= kBlock columns of B of `depth` rows, for all of them: kPanelBytes each kDepth.
void split_columns(const Source& b, std::int64_t depth, std::int64_t columns, std::byte* to,
                   Range& range);

/// `count` numbers that are `step` apart, one after the other.
void gather(const float* from, std::int64_t step, std::int64_t count, float* to);

/// What is done to results on their way out.
struct Output {
    float* c;
    std::int64_t c_row;
    const float* bias = nullptr;      ///< of columns
    const float* residual = nullptr;  ///< like c, its rows residual_row apart
    std::int64_t residual_row = 0;
    bool relu = false;
    bool adds = false;  ///< to what is in c
    /// Where rows of the block go, -1: nowhere; null: one after the other.
    const std::int32_t* to_rows = nullptr;
};

/// kBlock x kBlock numbers of C, of which `rows` x `columns` are wanted. `taps`: byte offsets of A
/// that are run through, B's panels lying one after the other.
struct Product {
    Rows a;
    const std::byte* b;
    std::int64_t depths;  ///< tiles along the inner extent, of each tap
    const std::int64_t* taps;
    std::int64_t tap_count;
};

/// Sets the tile registers of this thread up while it lives.
class Tiles {
  public:
    Tiles();
    ~Tiles();
    Tiles(const Tiles&) = delete;
    Tiles& operator=(const Tiles&) = delete;
    void run(const Product& p, std::int64_t rows, std::int64_t columns, const Output& out) const;
};

}  // namespace pippin::cpu::split
