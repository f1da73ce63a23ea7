// matmul: [..., M, K] x [..., K, N] with equal batch dims; either matrix may be stored transposed.
// Integers wrap.
#include "graph/ops/check.h"
#include "graph/ops/records.h"
#include "graph/ops/ref.h"

namespace pippin::graph::ops {
namespace {

// Extents of a stored matrix after its transposition.
std::int64_t rows(const Shape& s, bool trans) { return s[s.rank() - (trans ? 1 : 2)]; }
std::int64_t columns(const Shape& s, bool trans) { return s[s.rank() - (trans ? 2 : 1)]; }

Type infer_matmul(std::span<const NodePtr> in, const Attrs& attrs) {
    const Node &a = *in[0], &b = *in[1];
    need_same_dtype(a, b);
    if (a.dtype == DType::Bool) bad_type("not defined on bool; cast to an integer");
    const int rank = a.shape.rank();
    if (rank < 2 || b.shape.rank() != rank)
        bad_value("both must have the same number of dimensions, at least 2");
    for (int d = 0; d < rank - 2; ++d)
        if (a.shape[d] != b.shape[d])
            bad_value("batch extents differ: ", a.shape[d], " and ", b.shape[d], " at dim ",
                      std::int64_t{d});
    const bool ta = trans_a(attrs), tb = trans_b(attrs);
    if (columns(a.shape, ta) != rows(b.shape, tb))
        bad_value("inner extents differ: ", columns(a.shape, ta), " and ", rows(b.shape, tb));
    Shape out = a.shape;
    out[rank - 2] = rows(a.shape, ta);
    out[rank - 1] = columns(b.shape, tb);
    return {a.dtype, countable(out)};
}

// Only flags change: no gradient needs a transposed copy.
Inputs grad_matmul(const NodePtr& y, const NodePtr& dy) {
    const NodePtr &a = y->inputs[0], &b = y->inputs[1];
    const bool ta = trans_a(y->attrs), tb = trans_b(y->attrs);
    Inputs g{nullptr, nullptr};
    if (a->requires_grad) g[0] = ta ? matmul(b, dy, tb, true) : matmul(dy, b, false, !tb);
    if (b->requires_grad) g[1] = tb ? matmul(dy, a, true, ta) : matmul(a, dy, !ta, false);
    return g;
}

RefArray ref_matmul(const Node& n, Refs in) {
    const bool ta = trans_a(n.attrs), tb = trans_b(n.attrs);
    const auto row = static_cast<std::size_t>(n.shape.rank() - 2), column = row + 1;
    const std::int64_t inner = columns(in[0].shape, ta);
    return generate(n.shape, [&](const Point& p) {
        double sum = 0;
        Point a = p, b = p;
        if (ta) a[column] = p[row];
        if (tb) b[row] = p[column];
        for (std::int64_t k = 0; k < inner; ++k) {
            a[ta ? row : column] = k;
            b[tb ? column : row] = k;
            sum += at(in[0], a) * at(in[1], b);
        }
        return sum;
    });
}

}  // namespace

const OpRecord kMatmul{"matmul", Kind::Heavy, infer_matmul, grad_matmul, ref_matmul, nullptr};

}  // namespace pippin::graph::ops
