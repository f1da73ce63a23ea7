// Convolutions as products (implicit GEMM): the matrix of windows is never made, its elements are
// read where they lie. Maps are read through their strides, so that either order works; channels
// last is the fast one. Weights are packed first, so that k runs along memory.
#include <algorithm>

#include <fmt/format.h>

#include "backends/gpu/expression.h"
#include "backends/gpu/gemm.h"
#include "backends/gpu/heavy.h"
#include "graph/ops/records.h"
#include "pippin/error.h"

namespace pippin::gpu {

namespace {

struct Geometry {
    std::int64_t n, ci, h, w, co, oh, ow, kh, kw, groups, cig, cog;
    std::int64_t stride[2], pad[2], dilation[2];

    Geometry(const plan::HeavyLaunch& l, const plan::Operand& x, const Shape& weight,
             const plan::Operand& y)
        : n(x.shape[0]),
          ci(x.shape[1]),
          h(x.shape[2]),
          w(x.shape[3]),
          co(y.shape[1]),
          oh(y.shape[2]),
          ow(y.shape[3]),
          kh(weight[2]),
          kw(weight[3]) {
        const graph::ConvAttrs a = graph::ops::conv_attrs(l.attrs);
        groups = a.groups;
        cig = ci / groups;
        cog = co / groups;
        for (int d = 0; d < 2; ++d) {
            stride[d] = a.stride[d];
            pad[d] = a.pad[d];
            dilation[d] = a.dilation[d];
        }
    }
    bool depthwise() const { return groups > 1 && cig == 1; }
};

void check_all(const plan::HeavyLaunch& l) {
    for (const auto& o : l.operands)
        check_operand(o);
    check_operand(l.output);
}

std::string map_index(const plan::Operand& o, const std::string& n, const std::string& c,
                      const std::string& h, const std::string& w) {
    return strided_index(o, {n, c, h, w});
}

// Input row (or column) of an output row under a window's row.
std::string input_at(const Geometry& g, int d, const std::string& out, const std::string& tap) {
    return fmt::format("{} * {} + {} * {} - {}", out, g.stride[d], tap, g.dilation[d], g.pad[d]);
}

// Statements that cut an index into parts, the last one running fastest.
std::string cut(const std::string& from,
                const std::vector<std::pair<std::string, std::int64_t>>& parts) {
    std::string out;
    std::int64_t below = 1;
    for (std::size_t i = parts.size(); i-- > 0;) {
        const auto& [name, extent] = parts[i];
        std::string x = below == 1 ? from : fmt::format("{} / {}", from, below);
        if (i > 0) x = fmt::format("{} % {}", x, extent);
        out = fmt::format("int {} = {};\n", name, extent == 1 ? "0" : x) + out;
        below *= std::max<std::int64_t>(extent, 1);
    }
    return out;
}

// float load_?(...): an element of x under a window, or zero in the padding.
std::string load_window(const Geometry& g, const plan::Operand& x) {
    return fmt::format(
        "int ih = {};\nint iw = {};\n"
        "if (ih < 0 || ih >= {} || iw < 0 || iw >= {}) return 0.0f;\n"
        "return {};\n",
        input_at(g, 0, "oh", "kh"), input_at(g, 1, "ow", "kw"), g.h, g.w,
        load(x.dtype, "p",
             map_index(x, "img", g.groups > 1 ? fmt::format("b * {} + c", g.cig) : "c", "ih",
                       "iw")));
}

// Copies weights to scratch as [group][n][kh][kw][c], floats; n is the output's channel (of the
// forward pass) or the input's.
void pack_weights(Work& w, Step& s, const Geometry& g, const plan::Operand& weight, bool forward) {
    const std::int64_t n = forward ? g.cog : g.cig, c = forward ? g.cig : g.cog;
    const std::int64_t all = g.groups * n * g.kh * g.kw * c;
    KernelSource k;
    k.name = "pack_weights";
    const std::string co = fmt::format("b * {} + {}", g.cog, forward ? "n" : "c");
    const std::string index = strided_index(weight, {co, forward ? "c" : "n", "kh", "kw"});
    k.body =
        fmt::format("int i = int(GROUP * THREADS + LANE);\nif (i < {}) {{\n{}", all,
                    cut("i", {{"b", g.groups}, {"n", n}, {"kh", g.kh}, {"kw", g.kw}, {"c", c}}));
    k.body +=
        fmt::format("ST_F32(ADDRESS(2), i, {});\n}}\n", load(weight.dtype, "ADDRESS(1)", index));
    Dispatch d;
    d.groups = (all + k.threads - 1) / k.threads;
    d.args = {value_arg(d.groups), operand_arg(weight), scratch_arg(0)};
    d.kernel = w.add(std::move(k));
    s.dispatches.push_back(std::move(d));
    w.scratch_bytes = std::max(w.scratch_bytes, all * 4);
}

// 1 x 1 weights lie as a packed copy would.
bool is_packed(const Geometry& g, const plan::Operand& weight, bool forward) {
    return forward && g.kh * g.kw == 1 && weight.dtype == DType::Float32 &&
           (g.cig == 1 || weight.strides[1] == 1) && (g.co == 1 || weight.strides[0] == g.cig);
}

void set_epilogue_args(Gemm& gemm, const plan::HeavyLaunch& l) {
    gemm.c = operand_arg(l.output);
    if (l.epilogue.bias >= 0)
        gemm.bias = operand_arg(l.operands[static_cast<std::size_t>(l.epilogue.bias)]);
    if (l.epilogue.residual >= 0)
        gemm.residual = operand_arg(l.operands[static_cast<std::size_t>(l.epilogue.residual)]);
}

std::string residual_index(const plan::HeavyLaunch& l, const std::vector<std::string>& c) {
    return l.epilogue.residual < 0
               ? ""
               : strided_index(l.operands[static_cast<std::size_t>(l.epilogue.residual)], c);
}

// Few channels a group: one thread an element of the result, which goes over the window.
void write_depthwise(Work& w, Step& s, const plan::HeavyLaunch& l, const Geometry& g,
                     bool forward) {
    const plan::Operand &from = l.operands[0], &weight = l.operands[1];
    const std::int64_t c = forward ? g.co : g.ci, oh = forward ? g.oh : g.h,
                       ow = forward ? g.ow : g.w;
    const std::int64_t all = g.n * c * oh * ow;
    if (all == 0) return;
    KernelSource k;
    k.name = forward ? "depthwise" : "depthwise_grad_input";
    k.body = fmt::format(
        "int i = int(GROUP * THREADS + LANE);\nif (i < {}) {{\n"
        "PTR p = ADDRESS(1);\nPTR weights = ADDRESS(2);\nPTR c = ADDRESS(3);\n"
        "PTR bias = ADDRESS(4);\nPTR residual = ADDRESS(5);\nfloat x = 0.0f;\n{}",
        all, cut("i", {{"img", g.n}, {"row", oh}, {"col", ow}, {"ch", c}}));
    k.body += fmt::format(
        "ROLL for (int kh = 0; kh < {}; kh++) {{\n"
        "ROLL for (int kw = 0; kw < {}; kw++) {{\n",
        g.kh, g.kw);
    if (forward) {
        k.body += fmt::format(
            "int ih = {};\nint iw = {};\nif (ih >= 0 && ih < {} && iw >= 0 && iw < {})\n"
            "x = FMA({}, {}, x);\n",
            input_at(g, 0, "row", "kh"), input_at(g, 1, "col", "kw"), g.h, g.w,
            load(from.dtype, "p",
                 map_index(from, "img", fmt::format("ch / {}", g.cog), "ih", "iw")),
            load(weight.dtype, "weights", strided_index(weight, {"ch", "0", "kh", "kw"})));
    } else {
        k.body += fmt::format(
            "int th = row + {} - kh * {};\nint tw = col + {} - kw * {};\n"
            "int o_h = th / {};\nint o_w = tw / {};\n"
            "if (th >= 0 && tw >= 0 && th % {} == 0 && tw % {} == 0 && o_h < {} && o_w < {})\n"
            "ROLL for (int m = 0; m < {}; m++)\nx = FMA({}, {}, x);\n",
            g.pad[0], g.dilation[0], g.pad[1], g.dilation[1], g.stride[0], g.stride[1], g.stride[0],
            g.stride[1], g.oh, g.ow, g.cog,
            load(from.dtype, "p",
                 map_index(from, "img", fmt::format("ch * {} + m", g.cog), "o_h", "o_w")),
            load(weight.dtype, "weights",
                 strided_index(weight, {fmt::format("ch * {} + m", g.cog), "0", "kh", "kw"})));
    }
    k.body += "}\n}\n";
    const std::vector<std::string> at{"img", "ch", "row", "col"};
    k.body += epilogue(l, "ch", residual_index(l, at), strided_index(l.output, at)) + "}\n";
    Gemm places;
    set_epilogue_args(places, l);
    Dispatch d;
    d.groups = (all + k.threads - 1) / k.threads;
    d.args = {value_arg(d.groups), operand_arg(from), operand_arg(weight), places.c,
              places.bias,         places.residual};
    d.kernel = w.add(std::move(k));
    s.dispatches.push_back(std::move(d));
}

std::int64_t align(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

void write_conv2d(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f) {
    check_all(l);
    const plan::Operand &x = l.operands[0], &weight = l.operands[1], &y = l.output;
    const Geometry g(l, x, weight.shape, y);
    if (y.shape.numel() == 0) return;
    if (g.depthwise()) return write_depthwise(w, s, l, g, true);
    Gemm gemm;
    gemm.name = "conv2d";
    gemm.batches = g.groups;
    gemm.m = g.n * g.oh * g.ow;
    gemm.n = g.cog;
    gemm.k = g.kh * g.kw * g.cig;
    const std::vector<std::string> at{"img", g.groups > 1 ? fmt::format("b * {} + n", g.cog) : "n",
                                      "oh", "ow"};
    const std::string pixel = cut("m", {{"img", g.n}, {"oh", g.oh}, {"ow", g.ow}});
    const bool packed = is_packed(g, weight, true);
    gemm.functions =
        "float load_a(PTR p, int b, int m, int k) {\n" + pixel +
        cut("k", {{"kh", g.kh}, {"kw", g.kw}, {"c", g.cig}}) + load_window(g, x) + "}\n" +
        fmt::format(
            "float load_b(PTR p, int b, int k, int n) {{ return LD_F32(p, (b * {} + n) * "
            "{} + k); }}\n",
            g.cog, gemm.k) +
        "void store_c(PTR c, PTR bias, PTR residual, int b, int m, int n, float x) {\n" + pixel +
        epilogue(l, at[1], residual_index(l, at), strided_index(y, at)) + "}\n";
    gemm.a_along_k = gemm.b_along_k = true;
    gemm.a = operand_arg(x);
    gemm.b = packed ? operand_arg(weight) : scratch_arg(0);
    set_epilogue_args(gemm, l);
    if (!packed) {
        pack_weights(w, s, g, weight, true);
        gemm.scratch_from = align(weight.shape.numel() * 4);
    }
    write_gemm(w, s, gemm, f);
}

void write_conv2d_grad_input(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f) {
    check_all(l);
    const plan::Operand &dy = l.operands[0], &weight = l.operands[1], &dx = l.output;
    const Geometry g(l, dx, weight.shape, dy);
    if (dx.shape.numel() == 0) return;
    if (g.depthwise()) return write_depthwise(w, s, l, g, false);
    Gemm gemm;
    gemm.name = "conv2d_grad_input";
    gemm.batches = g.groups;
    gemm.m = g.n * g.h * g.w;
    gemm.n = g.cig;
    gemm.k = g.kh * g.kw * g.cog;
    const std::string pixel = cut("m", {{"img", g.n}, {"row", g.h}, {"col", g.w}});
    const std::vector<std::string> at{"img", g.groups > 1 ? fmt::format("b * {} + n", g.cig) : "n",
                                      "row", "col"};
    std::string source = fmt::format("int th = row + {} - kh * {};\nint tw = col + {} - kw * {};\n",
                                     g.pad[0], g.dilation[0], g.pad[1], g.dilation[1]);
    source += "if (th < 0 || tw < 0) return 0.0f;\n";
    source += fmt::format("int o_h = th / {};\nint o_w = tw / {};\n", g.stride[0], g.stride[1]);
    std::string outside = fmt::format("o_h >= {} || o_w >= {}", g.oh, g.ow);
    if (g.stride[0] > 1) outside += fmt::format(" || o_h * {} != th", g.stride[0]);
    if (g.stride[1] > 1) outside += fmt::format(" || o_w * {} != tw", g.stride[1]);
    source +=
        fmt::format("if ({}) return 0.0f;\nreturn {};\n", outside,
                    load(dy.dtype, "p",
                         map_index(dy, "img", g.groups > 1 ? fmt::format("b * {} + c", g.cog) : "c",
                                   "o_h", "o_w")));
    gemm.functions =
        "float load_a(PTR p, int b, int m, int k) {\n" + pixel +
        cut("k", {{"kh", g.kh}, {"kw", g.kw}, {"c", g.cog}}) + source + "}\n" +
        fmt::format(
            "float load_b(PTR p, int b, int k, int n) {{ return LD_F32(p, (b * {} + n) * "
            "{} + k); }}\n",
            g.cig, gemm.k) +
        "void store_c(PTR c, PTR bias, PTR residual, int b, int m, int n, float x) {\n" + pixel +
        epilogue(l, at[1], residual_index(l, at), strided_index(dx, at)) + "}\n";
    gemm.a_along_k = gemm.b_along_k = true;
    gemm.a = operand_arg(dy);
    gemm.b = scratch_arg(0);
    set_epilogue_args(gemm, l);
    pack_weights(w, s, g, weight, false);
    gemm.scratch_from = align(weight.shape.numel() * 4);
    write_gemm(w, s, gemm, f);
}

void write_conv2d_grad_weight(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f) {
    check_all(l);
    const plan::Operand &x = l.operands[0], &dy = l.operands[1], &dw = l.output;
    const Geometry g(l, x, dw.shape, dy);
    if (dw.shape.numel() == 0) return;
    Gemm gemm;
    gemm.name = "conv2d_grad_weight";
    gemm.batches = g.groups;
    gemm.m = g.cog;
    gemm.n = g.kh * g.kw * g.cig;
    gemm.k = g.n * g.oh * g.ow;
    const std::string pixel = cut("k", {{"img", g.n}, {"oh", g.oh}, {"ow", g.ow}});
    const std::string window = cut("n", {{"kh", g.kh}, {"kw", g.kw}, {"c", g.cig}});
    const std::string channel = g.groups > 1 ? fmt::format("b * {} + m", g.cog) : "m";
    const std::vector<std::string> at{channel, "c", "kh", "kw"};
    gemm.functions =
        "float load_a(PTR p, int b, int m, int k) {\n" + pixel +
        fmt::format("return {};\n}}\n",
                    load(dy.dtype, "p", map_index(dy, "img", channel, "oh", "ow"))) +
        "float load_b(PTR p, int b, int k, int n) {\n" + pixel + window + load_window(g, x) +
        "}\n" + "void store_c(PTR c_, PTR bias, PTR residual, int b, int m, int n, float x) {\n" +
        window + "PTR to = c_;\n" + store(dw.dtype, "to", strided_index(dw, at), "x") + ";\n}\n";
    gemm.a_along_k = dy.strides[1] != 1 && g.co != 1;
    gemm.b_along_k = x.strides[1] != 1 && g.ci != 1;
    gemm.a = operand_arg(dy);
    gemm.b = operand_arg(x);
    gemm.c = operand_arg(dw);
    write_gemm(w, s, gemm, f);
}

}  // namespace pippin::gpu
