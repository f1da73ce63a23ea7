// Sorting, running sums, and reading and writing by tensors of indices. Indices are int64 or int32
// and checked: IndexError at the next synchronisation. No function changes its input.
#pragma once

#include "pippin/ops.h"

namespace pippin {

struct ValuesIndices {
    Tensor values, indices;  ///< indices are int64; gradients go through the values
};

// --- in order along a dimension; NaN counts as the largest, equal elements keep their order ---
ValuesIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false,
                   Site site = Site::current());
Tensor argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false,
               Site site = Site::current());
/// The k largest (or smallest) in order.
ValuesIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true,
                   Site site = Site::current());
/// The k-th smallest, k from 1.
ValuesIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool keepdim = false,
                       Site site = Site::current());
/// The lower of the two middle elements; NaN if there is one.
ValuesIndices median(const Tensor& x, std::int64_t dim, bool keepdim = false,
                     Site site = Site::current());
Tensor median(const Tensor& x, Site site = Site::current());
/// The extremum and its first index (the first NaN's, if there is one); the gradient goes there.
ValuesIndices max(const Tensor& x, std::int64_t dim, bool keepdim = false,
                  Site site = Site::current());
ValuesIndices min(const Tensor& x, std::int64_t dim, bool keepdim = false,
                  Site site = Site::current());
/// Sums up to and with each element; integers and bool give int64.
Tensor cumsum(const Tensor& x, std::int64_t dim, Site site = Site::current());
/// Products, in log2(extent) steps of pairs: where a partial product overflows, PyTorch's running
/// one may differ.
Tensor cumprod(const Tensor& x, std::int64_t dim, Site site = Site::current());

// --- reading and writing by index ---
/// gather with an index that broadcasts against x outside of `dim`.
Tensor take_along_dim(const Tensor& x, const Tensor& index, std::int64_t dim,
                      Site site = Site::current());
/// x where y[.., index[.., j, ..], ..] = src[.., j, ..] along dim. src is at least as large as the
/// index. Of several that go to one place the last stays; each of them gets that place's gradient,
/// as in PyTorch.
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
               Site site = Site::current());
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, double value,
               Site site = Site::current());
/// As scatter, but adds.
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                   Site site = Site::current());
/// x with source's slices along dim times alpha added to the slices that the 1-d index names.
Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                 double alpha = 1, Site site = Site::current());
/// x with slices along dim replaced by source's, or filled.
Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                  Site site = Site::current());
Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, double value,
                  Site site = Site::current());
/// x, but `value` where the bool mask is true; they broadcast. The dtype stays x's.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value, Site site = Site::current());

// --- random ---
/// 0 .. n - 1 in random order.
Tensor randperm(std::int64_t n, Options o = int64);
/// Samples of class numbers for each row of weights (classes) or (rows, classes), which are not
/// negative and need not sum to 1. Without replacement no class comes twice: there must be as many
/// of positive weight as samples, which is not checked.
Tensor multinomial(const Tensor& weights, std::int64_t samples, bool replacement = false,
                   Site site = Site::current());

}  // namespace pippin
