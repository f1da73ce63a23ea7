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

const char* zero(bool quad) { return quad ? "MAKE_F4(0.0f, 0.0f, 0.0f, 0.0f)" : "0.0f"; }
std::string load_at(const plan::Operand& o, const std::string& index, bool quad) {
    return quad ? fmt::format("LD_F4(p, ({}) / 4)", index) : load(o.dtype, "p", index);
}

// The body of load_?(...): an element (or a quad of channels) of x under a window, or zero in the
// padding.
std::string load_window(const Geometry& g, const plan::Operand& x, bool quad) {
    return fmt::format(
        "int ih = {};\nint iw = {};\n"
        "if (ih < 0 || ih >= {} || iw < 0 || iw >= {}) return {};\n"
        "return {};\n",
        input_at(g, 0, "oh", "kh"), input_at(g, 1, "ow", "kw"), g.h, g.w, zero(quad),
        load_at(
            x,
            map_index(x, "img", g.groups > 1 ? fmt::format("b * {} + c", g.cig) : "c", "ih", "iw"),
            quad));
}

// Whether pixels lie one behind the other, image after image: then a pixel's number is enough.
bool has_linear_pixels(const plan::Operand& o) {
    const std::int64_t step = o.shape[3] == 1 ? o.strides[2] : o.strides[3];
    if (o.shape[3] == 1 && o.shape[2] == 1) return false;
    return (o.shape[2] == 1 || o.strides[2] == o.shape[3] * step) &&
           (o.shape[0] == 1 || o.strides[0] == o.shape[2] * o.shape[3] * step);
}
std::string pixel_index(const plan::Operand& o, const std::string& m, const std::string& channel) {
    const std::int64_t c = o.shape[1] == 1 ? 0 : o.strides[1];
    return fmt::format("({}) * {} + ({}) * {}", m, o.shape[3] == 1 ? o.strides[2] : o.strides[3],
                       channel, c);
}
// Quads of channels, none of which belongs to two groups.
bool quads_in_groups(const plan::Operand& o, std::int64_t channels) {
    return has_quads(o, 1) && channels % 4 == 0;
}
// Windows of one pixel, one after the other.
bool is_pointwise(const Geometry& g) {
    return g.kh * g.kw == 1 && g.stride[0] * g.stride[1] == 1 && g.pad[0] + g.pad[1] == 0;
}

// load_b of packed weights: [group][n][k].
std::string load_packed(std::int64_t n, std::int64_t k, bool quads) {
    std::string out = fmt::format(
        "float load_b(PTR p, int b, int k, int n) {{ return LD_F32(p, (b * {} + n) * {} + k); }}\n",
        n, k);
    if (quads)
        out += fmt::format(
            "F4 load_b4(PTR p, int b, int k, int n) {{ return LD_F4(p, ((b * {} + n) * {} + k) / "
            "4); }}\n",
            n, k);
    return out;
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

namespace {

const char* kLoadA[] = {"float load_a(PTR p, int b, int m, int k) {\n",
                        "F4 load_a4(PTR p, int b, int m, int k) {\n"};
const char* kLoadB[] = {"float load_b(PTR p, int b, int k, int n) {\n",
                        "F4 load_b4(PTR p, int b, int k, int n) {\n"};

std::string in_group(const Geometry& g, const char* name, std::int64_t channels) {
    return g.groups > 1 ? fmt::format("b * {} + {}", channels, name) : name;
}

// store_c and store_c4 into a map whose pixel is m.
void store_map(Gemm& gemm, const plan::HeavyLaunch& l, const std::string& pixel,
               const std::vector<std::string>& at, std::int64_t channels) {
    // Where pixels are in one run, nothing has to be taken apart.
    const bool linear = has_linear_pixels(l.output) && l.epilogue.residual < 0;
    const std::string to = linear ? pixel_index(l.output, "m", at[1]) : strided_index(l.output, at);
    gemm.functions +=
        "void store_c(PTR c, PTR bias, PTR residual, int b, int m, int n, float x) {\n" +
        (linear ? "" : pixel) + epilogue(l, at[1], residual_index(l, at), to) + "}\n";
    gemm.c_quads = linear && quads_in_groups(l.output, channels);
    if (gemm.c_quads)
        gemm.functions +=
            "void store_c4(PTR c, PTR bias, PTR residual, int b, int m, int n, F4 x) {\n" +
            epilogue4(l, at[1], to) + "}\n";
}

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
    const std::string pixel = cut("m", {{"img", g.n}, {"oh", g.oh}, {"ow", g.ow}});
    const std::string taps = cut("k", {{"kh", g.kh}, {"kw", g.kw}, {"c", g.cig}});
    const bool packed = is_packed(g, weight, true);
    const bool rows = is_pointwise(g) && has_linear_pixels(x);
    gemm.a_along_k = gemm.b_along_k = true;
    gemm.a_quads = quads_in_groups(x, g.cig);
    gemm.b_quads = gemm.k % 4 == 0 && (!packed || weight.offset % 4 == 0);
    for (int quad = 0; quad <= gemm.a_quads; ++quad)
        gemm.functions +=
            kLoadA[quad] +
            (rows ? fmt::format("return {};\n",
                                load_at(x, pixel_index(x, "m", in_group(g, "k", g.cig)), quad))
                  : pixel + taps + load_window(g, x, quad)) +
            "}\n";
    gemm.functions += load_packed(g.cog, gemm.k, gemm.b_quads);
    store_map(gemm, l, pixel, {"img", in_group(g, "n", g.cog), "oh", "ow"}, g.cog);
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
    const std::string taps = cut("k", {{"kh", g.kh}, {"kw", g.kw}, {"c", g.cog}});
    const auto source = [&](bool quad) {
        std::string text =
            fmt::format("int th = row + {} - kh * {};\nint tw = col + {} - kw * {};\n", g.pad[0],
                        g.dilation[0], g.pad[1], g.dilation[1]);
        text += fmt::format("if (th < 0 || tw < 0) return {};\n", zero(quad));
        text += fmt::format("int o_h = th / {};\nint o_w = tw / {};\n", g.stride[0], g.stride[1]);
        std::string outside = fmt::format("o_h >= {} || o_w >= {}", g.oh, g.ow);
        if (g.stride[0] > 1) outside += fmt::format(" || o_h * {} != th", g.stride[0]);
        if (g.stride[1] > 1) outside += fmt::format(" || o_w * {} != tw", g.stride[1]);
        return text +
               fmt::format(
                   "if ({}) return {};\nreturn {};\n", outside, zero(quad),
                   load_at(dy, map_index(dy, "img", in_group(g, "c", g.cog), "o_h", "o_w"), quad));
    };
    const bool rows = is_pointwise(g) && has_linear_pixels(dy);
    gemm.a_along_k = gemm.b_along_k = true;
    gemm.a_quads = quads_in_groups(dy, g.cog);
    gemm.b_quads = gemm.k % 4 == 0;
    for (int quad = 0; quad <= gemm.a_quads; ++quad)
        gemm.functions +=
            kLoadA[quad] +
            (rows ? fmt::format("return {};\n",
                                load_at(dy, pixel_index(dy, "m", in_group(g, "k", g.cog)), quad))
                  : pixel + taps + source(quad)) +
            "}\n";
    gemm.functions += load_packed(g.cig, gemm.k, gemm.b_quads);
    store_map(gemm, l, pixel, {"img", in_group(g, "n", g.cig), "row", "col"}, g.cig);
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
    const std::string channel = in_group(g, "m", g.cog);
    gemm.a_along_k = dy.strides[1] != 1 && g.co != 1;
    gemm.b_along_k = x.strides[1] != 1 && g.ci != 1;
    gemm.a_quads = !gemm.a_along_k && quads_in_groups(dy, g.cog);
    gemm.b_quads = !gemm.b_along_k && quads_in_groups(x, g.cig);
    const bool linear = has_linear_pixels(dy);
    const bool rows = is_pointwise(g) && has_linear_pixels(x);
    const std::string from =
        linear ? pixel_index(dy, "k", channel) : map_index(dy, "img", channel, "oh", "ow");
    for (int quad = 0; quad <= gemm.a_quads; ++quad)
        gemm.functions += kLoadA[quad] + (linear ? "" : pixel) +
                          fmt::format("return {};\n}}\n", load_at(dy, from, quad));
    for (int quad = 0; quad <= gemm.b_quads; ++quad)
        gemm.functions +=
            kLoadB[quad] +
            (rows ? fmt::format("return {};\n",
                                load_at(x, pixel_index(x, "k", in_group(g, "n", g.cig)), quad))
                  : pixel + window + load_window(g, x, quad)) +
            "}\n";
    gemm.functions +=
        "void store_c(PTR to, PTR bias, PTR residual, int b, int m, int n, float x) {\n" + window +
        store(dw.dtype, "to", strided_index(dw, {channel, "c", "kh", "kw"}), "x") + ";\n}\n";
    gemm.a = operand_arg(dy);
    gemm.b = operand_arg(x);
    gemm.c = operand_arg(dw);
    write_gemm(w, s, gemm, f);
}

}  // namespace pippin::gpu
