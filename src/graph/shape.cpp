// Shapes: what is too long for the header.
#include "pippin/shape.h"

#include "pippin/error.h"

namespace pippin {
namespace {

[[noreturn]] void too_many(std::size_t rank) {
    throw ValueError("a tensor has at most " + std::to_string(Shape::kMaxRank) +
                     " dimensions, not " + std::to_string(rank));
}

}  // namespace

Shape::Shape(std::span<const std::int64_t> dims) {
    if (dims.size() > static_cast<std::size_t>(kMaxRank)) too_many(dims.size());
    for (const std::int64_t d : dims)
        dims_[static_cast<std::size_t>(rank_++)] = d;
}

void Shape::push_back(std::int64_t extent) {
    if (rank_ == kMaxRank) too_many(kMaxRank + 1);
    dims_[static_cast<std::size_t>(rank_++)] = extent;
}

void Shape::insert(int at, std::int64_t extent) {
    push_back(extent);
    for (int i = rank_ - 1; i > at; --i)
        (*this)[i] = (*this)[i - 1];
    (*this)[at] = extent;
}

void Shape::erase(int at) {
    for (int i = at; i + 1 < rank_; ++i)
        (*this)[i] = (*this)[i + 1];
    --rank_;
}

std::string Shape::str() const {
    std::string s = "[";
    for (int i = 0; i < rank_; ++i) {
        if (i) s += ", ";
        s += std::to_string((*this)[i]);
    }
    return s + "]";
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
    const Shape& longer = a.rank() >= b.rank() ? a : b;
    const Shape& shorter = a.rank() >= b.rank() ? b : a;
    const int shift = longer.rank() - shorter.rank();
    Shape out = longer;
    for (int i = 0; i < shorter.rank(); ++i) {
        const std::int64_t l = longer[i + shift], s = shorter[i];
        if (l == s || s == 1) continue;
        if (l != 1)
            throw ValueError(
                "shapes " + a.str() + " and " + b.str() + " do not broadcast: extents " +
                std::to_string(a[a.rank() - shorter.rank() + i]) + " and " +
                std::to_string(b[b.rank() - shorter.rank() + i]) + " differ and neither is 1");
        out[i + shift] = s;
    }
    return out;
}

}  // namespace pippin
