// Arranging elements, beside what ops.h has: triangles, repeats, parts, diagonals, borders.
#pragma once

#include "pippin/ops.h"

namespace pippin {

// --- triangles and diagonals of the last two dimensions ---
/// Zero above (tril) or below (triu) the given diagonal; 0 is the main one, positive ones lie
/// above.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0, Site site = Site::current());
Tensor triu(const Tensor& x, std::int64_t diagonal = 0, Site site = Site::current());
/// The diagonal of dims a and b as a new last dimension.
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t a = 0, std::int64_t b = 1,
                Site site = Site::current());
/// A matrix with a vector on its diagonal, or the diagonal of a matrix.
Tensor diag(const Tensor& x, std::int64_t offset = 0, Site site = Site::current());

// --- moving and repeating ---
/// Elements pushed out at one end come in at the other. No dims: over the flattened tensor.
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {},
            Site site = Site::current());
Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to, Site site = Site::current());
/// The whole tensor counts[d] times along each dim; more counts than dims add leading ones.
Tensor repeat(const Tensor& x, const Dims& counts, Site site = Site::current());
/// As repeat; fewer counts than dims leave the leading ones alone.
Tensor tile(const Tensor& x, const Dims& counts, Site site = Site::current());
/// Each element `count` times. No dim: flattened.
Tensor repeat_interleave(const Tensor& x, std::int64_t count, std::optional<std::int64_t> dim = {},
                         Site site = Site::current());
/// One tensor a dim: element i of tensor k varies along dim k ("ij"), or the first two dims are
/// swapped ("xy").
enum class Indexing { IJ, XY };
std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, Indexing indexing = Indexing::IJ,
                             Site site = Site::current());

// --- parts ---
std::vector<Tensor> split_with_sizes(const Tensor& x, const Dims& sizes, std::int64_t dim = 0,
                                     Site site = Site::current());
/// At most `chunks` parts of equal size, the last one smaller where it must be.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim = 0,
                          Site site = Site::current());
/// All slices along dim, without it.
std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim = 0, Site site = Site::current());

// --- borders ---
/// Reflect: without the edge itself; Replicate: the edge; Circular: from the other end.
enum class PadMode { Constant, Reflect, Replicate, Circular };
/// `amounts` as in pad(x, amounts, value), which is what Constant does, with zeros.
Tensor pad(const Tensor& x, const Dims& amounts, PadMode mode, Site site = Site::current());

}  // namespace pippin
