// The input gradient of a convolution with strides. A pixel of the input meets only the taps of its
// phase (its row and column, modulo the strides): each phase is a product of its own, over its
// taps.
#include <fmt/format.h>

#include "backends/gpu/conv.h"
#include "backends/gpu/expression.h"

namespace pippin::gpu {

namespace {

// Along one dim d, of phase `p`: the first tap, how many there are, and by how much the output's
// index is ahead of the input's row (in strides) at the first tap.
std::string phase(const ConvGeometry& g, int d, std::int64_t taps, char p) {
    const std::int64_t s = g.stride[d];
    return fmt::format(
        "int {0}_first = ({0} + {1}) % {2};\nint {0}_taps = ({3} - {0}_first + {4}) / {2};\n"
        "int {0}_ahead = ({0} + {1} - {0}_first) / {2};\n",
        p == 'h' ? "ph" : "pw", g.pad[d], s, taps, s - 1);
}

std::string phases(const ConvGeometry& g) {
    return fmt::format("int ph = b / {0};\nint pw = b % {0};\n", g.stride[1]) +
           phase(g, 0, g.kh, 'h') + phase(g, 1, g.kw, 'w');
}

}  // namespace

bool write_grad_input_strided(Work& w, Step& s, const plan::HeavyLaunch& l, const ConvGeometry& g,
                              const Features& f) {
    const plan::Operand &dy = l.operands[0], &dx = l.output;
    if (g.groups > 1 || g.stride[0] * g.stride[1] == 1 || g.dilation[0] * g.dilation[1] > 1)
        return false;
    const std::int64_t rows = ceil_div(g.h, g.stride[0]), columns = ceil_div(g.w, g.stride[1]);
    Gemm gemm;
    gemm.name = "conv2d_grad_input";
    gemm.batches = g.stride[0] * g.stride[1];
    gemm.m = g.n * rows * columns;
    gemm.n = g.ci;
    gemm.k = ceil_div(g.kh, g.stride[0]) * ceil_div(g.kw, g.stride[1]) * g.co;
    gemm.k_end = fmt::format("ph_taps * pw_taps * {}", g.co);
    gemm.k_end_needs = phases(g);
    const std::string pixel = cut("m", {{"img", g.n}, {"r", rows}, {"q", columns}});
    // A phase has one of two numbers of taps along a row: no division by a variable.
    const std::int64_t most = ceil_div(g.kw, g.stride[1]),
                       least = std::max<std::int64_t>(most - 1, 1);
    const std::string tap = fmt::format(
        "int tap = k / {0};\nint c = k % {0};\n"
        "int th = pw_taps == {1} ? tap / {1} : tap / {2};\nint tw = tap - th * pw_taps;\n",
        g.co, most, least);
    const PackedWeights weights = set_input_gradient(gemm, l, g, f);
    gemm.b_quads = !gemm.halves && g.co % 4 == 0;
    gemm.b_octets = gemm.halves && g.co % 8 == 0;
    for (const Width width : widths(gemm.a_quads, gemm.halves, gemm.a_octets))
        gemm.functions += load_a_head(width) + pixel + phases(g) + tap +
                          fmt::format(
                              "int o_h = r + ph_ahead - th;\nint o_w = q + pw_ahead - tw;\n"
                              "ok = ok && o_h >= 0 && o_w >= 0 && o_h < {} && o_w < {};\n",
                              g.oh, g.ow) +
                          load_if_ok(dy.dtype, map_index(dy, "img", "c", "o_h", "o_w"), width) +
                          "}\n";
    weights.add_loads(
        gemm, phases(g) + tap,
        fmt::format("((n * {} + ph_first + th * {}) * {} + pw_first + tw * {}) * {} + c", g.kh,
                    g.stride[0], g.kw, g.stride[1], g.co));
    const std::string place =
        pixel + fmt::format("int row = r * {0} + b / {1};\nint col = q * {1} + b % {1};\n",
                            g.stride[0], g.stride[1]);
    std::string inside;
    if (g.h % g.stride[0] != 0) inside = fmt::format("row < {}", g.h);
    if (g.w % g.stride[1] != 0)
        inside += fmt::format("{}col < {}", inside.empty() ? "" : " && ", g.w);
    const std::vector<std::string> at{"img", "n", "row", "col"};
    const auto if_inside = [&](const std::string& body) {
        return place + (inside.empty() ? body : fmt::format("if ({}) {{\n{}}}\n", inside, body)) +
               "}\n";
    };
    gemm.functions +=
        bias_function(l, "n") +
        "void store_c(PTR c, float bias, PTR residual, int b, int m, int n, float x) {\n" +
        if_inside(epilogue(l, "bias", residual_index(l, at), strided_index(dx, at)));
    gemm.c_quads = quads_in_groups(dx, g.ci) && l.epilogue.residual < 0;
    if (gemm.c_quads)
        gemm.functions +=
            "void store_c4(PTR c, F4 bias, PTR residual, int b, int m, int n, F4 x) {\n" +
            if_inside(epilogue4(l, strided_index(dx, at)));
    write_packed_product(w, s, l, g, false, weights, gemm, f);
    return true;
}

}  // namespace pippin::gpu
