// Products beside matmul.
#pragma once

#include <span>
#include <string_view>

#include "pippin/ops.h"

namespace pippin {

/// torch.einsum: "bij,bjk->bik", "ii->i", "...i,i". Letters name dimensions; one that is missing on
/// the right is summed over; without "->" the right side is the letters that occur once, in
/// alphabetical order. Operands are contracted from left to right.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands,
              Site site = Site::current());
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands,
                     Site site = Site::current()) {
    return einsum(equation, std::span<const Tensor>(operands.begin(), operands.size()), site);
}
/// The product of each element of a vector with each of another: (n), (m) give (n, m).
Tensor outer(const Tensor& a, const Tensor& b, Site site = Site::current());
/// (b, n, k) times (b, k, m), without broadcasting.
Tensor bmm(const Tensor& a, const Tensor& b, Site site = Site::current());

}  // namespace pippin
