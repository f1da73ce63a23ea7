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

/// The parts of B: rows 2 i and 2 i + 1 lie number by number in row i of a tile, 64 bytes.
struct Columns {
    const std::byte* at;
    std::int64_t depth_bytes = 3 * 2 * kTileBytes;  ///< kDepth on
    std::int64_t tile_bytes = kTileBytes;           ///< to the next kTile columns
    std::int64_t part_bytes = 2 * kTileBytes;       ///< to the next part
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

/// Pixels of an image: where each row of a matrix lies in memory, -1: a row of zeros.
struct Pixels {
    const float* at;
    std::int64_t step;  ///< numbers to the next pixel
    const std::int32_t* pixels;
};

/// `rows` pixels' first `depth` channels as rows of A, and 0 up to kDepth.
void split_pixels(const Pixels& a, std::int64_t rows, std::int64_t depth, const Rows& to,
                  Range& range);
/// `channels` <= kTile of `count` <= kDepth pixels, turned, as rows of A.
void split_turned(const Pixels& a, std::int64_t channels, std::int64_t count, const Rows& to,
                  Range& range);
/// `channels` <= kTile of pixels [first, last) as columns of B that may begin at any pixel: a row
/// of a tile has a pixel and its next one; those of even pixels lie in `even`, those of odd ones in
/// `odd`; null: not wanted. One more pixel than `last` is read.
void split_pairs(const Pixels& b, std::int64_t channels, std::int64_t first, std::int64_t last,
                 std::byte* even, std::byte* odd, std::int64_t part_bytes, Range& range);

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
/// that are run through, while B goes on.
struct Product {
    Rows a;
    Columns b;
    std::int64_t depths;  ///< tiles along the inner extent, of each tap
    const std::int64_t* taps;
    std::int64_t tap_count;
    /// Memory that is read soon: so many lines of the cache are asked for with each kDepth.
    const std::byte* ahead = nullptr;
    std::int64_t ahead_lines = 0;
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
