// Matrix products, batched, of any strides.
#include <fmt/format.h>

#include "backends/gpu/expression.h"
#include "backends/gpu/gemm.h"
#include "backends/gpu/heavy.h"
#include "graph/ops/records.h"

namespace pippin::gpu {

namespace {

// Coordinates of an operand: the batch dims taken from `b`, then two more.
std::vector<std::string> matrix_coordinates(const Shape& shape, const std::string& row,
                                            const std::string& column) {
    std::vector<std::string> c;
    std::int64_t below = 1;
    for (int d = 0; d + 2 < shape.rank(); ++d)
        below *= shape[d];
    for (int d = 0; d + 2 < shape.rank(); ++d) {
        below /= std::max<std::int64_t>(shape[d], 1);
        c.push_back(d == 0 ? fmt::format("b / {}", below)
                           : fmt::format("b / {} % {}", below, shape[d]));
    }
    c.push_back(row);
    c.push_back(column);
    return c;
}

std::int64_t stride(const plan::Operand& o, int from_end) {
    return o.strides[static_cast<std::size_t>(o.shape.rank() - from_end)];
}

}  // namespace

void write_matmul(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f) {
    const plan::Operand &a = l.operands[0], &b = l.operands[1], &y = l.output;
    for (const auto& o : l.operands)
        check_operand(o);
    check_operand(y);
    const bool ta = graph::ops::trans_a(l.attrs), tb = graph::ops::trans_b(l.attrs);
    const int r = a.shape.rank();
    Gemm g;
    g.name = "matmul";
    g.m = a.shape[ta ? r - 1 : r - 2];
    g.k = a.shape[ta ? r - 2 : r - 1];
    g.n = b.shape[tb ? r - 2 : r - 1];
    for (int d = 0; d + 2 < r; ++d)
        g.batches *= y.shape[d];
    const std::string ia =
        strided_index(a, matrix_coordinates(a.shape, ta ? "k" : "m", ta ? "m" : "k"));
    const std::string ib =
        strided_index(b, matrix_coordinates(b.shape, tb ? "n" : "k", tb ? "k" : "n"));
    const auto yc = matrix_coordinates(y.shape, "m", "n");
    const std::string residual =
        l.epilogue.residual >= 0
            ? strided_index(l.operands[static_cast<std::size_t>(l.epilogue.residual)], yc)
            : "";
    g.functions = fmt::format(
        "{}void store_c(PTR c, float bias, PTR residual, int b, int m, int n, float x) {{\n{}}}\n",
        bias_function(l, "n"), epilogue(l, "bias", residual, strided_index(y, yc)));
    g.a_along_k = stride(a, ta ? 2 : 1) == 1 || g.k == 1;
    g.b_along_k = stride(b, tb ? 1 : 2) == 1 && g.k != 1;
    const int ra = ta ? 2 : 1, rb = tb ? 1 : 2;  // where k is, from the end
    g.a_quads = has_quads(a, g.a_along_k ? r - ra : r - (3 - ra));
    g.b_quads = has_quads(b, g.b_along_k ? r - rb : r - (3 - rb));
    g.c_quads = has_quads(y, r - 1) && l.epilogue.residual < 0;
    g.halves = a.dtype == DType::Float16 && b.dtype == DType::Float16;
    g.a_octets = has_octets(a, g.a_along_k ? r - ra : r - (3 - ra));
    g.b_octets = has_octets(b, g.b_along_k ? r - rb : r - (3 - rb));
    g.c_octets = has_octets(y, r - 1);
    if (l.epilogue.residual >= 0) {
        const plan::Operand& o = l.operands[static_cast<std::size_t>(l.epilogue.residual)];
        g.c_octets = g.c_octets && o.strides.back() == 1 && o.shape[r - 1] == y.shape[r - 1];
    }
    for (const Width width : widths(g.a_quads, g.halves, g.a_octets))
        g.functions += load_a_head(width) + load_if_ok(a.dtype, ia, width) + "}\n";
    for (const Width width : widths(g.b_quads, g.halves, g.b_octets))
        g.functions += load_b_head(width) + load_if_ok(b.dtype, ib, width) + "}\n";
    if (g.halves && g.c_octets)
        g.functions +=
            "void store_c8(PTR c, F4 bias_x, F4 bias_y, PTR residual, int b, int m, int n, F4 x, "
            "F4 "
            "y) {\n" +
            epilogue8(l, residual, strided_index(y, yc)) + "}\n";
    if (g.c_quads)
        g.functions +=
            "void store_c4(PTR c, F4 bias, PTR residual, int b, int m, int n, F4 x) {\n" +
            epilogue4(l, strided_index(y, yc)) + "}\n";
    g.a = operand_arg(a), g.b = operand_arg(b), g.c = operand_arg(y);
    if (l.epilogue.bias >= 0)
        g.bias = operand_arg(l.operands[static_cast<std::size_t>(l.epilogue.bias)]);
    if (l.epilogue.residual >= 0)
        g.residual = operand_arg(l.operands[static_cast<std::size_t>(l.epilogue.residual)]);
    write_gemm(w, s, g, f);
}

}  // namespace pippin::gpu
