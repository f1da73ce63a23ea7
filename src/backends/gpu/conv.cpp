// Convolutions as products (implicit GEMM): the matrix of windows is never made, its elements are
// read where they lie. Maps are read through their strides, so that either order works; channels
// last is the fast one. Weights are packed first, so that k runs along memory.
#include <algorithm>

#include <fmt/format.h>

#include "backends/gpu/conv.h"
#include "backends/gpu/expression.h"
#include "backends/gpu/heavy.h"
#include "graph/ops/records.h"
#include "pippin/error.h"

namespace pippin::gpu {

namespace {

void check_all(const plan::HeavyLaunch& l) {
    for (const auto& o : l.operands)
        check_operand(o);
    check_operand(l.output);
}

// The body of load_?(...): an element (or a quad of channels) of x under a window, or zero in the
// padding.
std::string load_window(const ConvGeometry& g, const plan::Operand& x, Width width) {
    return fmt::format(
               "int ih = {};\nint iw = {};\n"
               "ok = ok && ih >= 0 && ih < {} && iw >= 0 && iw < {};\n",
               input_at(g, 0, "oh", "kh"), input_at(g, 1, "ow", "kw"), g.h, g.w) +
           load_if_ok(x.dtype,
                      map_index(x, "img", g.groups > 1 ? fmt::format("b * {} + c", g.cig) : "c",
                                "ih", "iw"),
                      width);
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
// Whether matrix units take a product of these.
bool is_half_product(const plan::Operand& a, const plan::Operand& b, const Features& f) {
    return f.matrices && a.dtype == DType::Float16 && b.dtype == DType::Float16;
}
}  // namespace

bool quads_in_groups(const plan::Operand& o, std::int64_t channels) {
    return has_quads(o, 1) && channels % 4 == 0;
}
bool octets_in_groups(const plan::Operand& o, std::int64_t channels) {
    return has_octets(o, 1) && channels % 8 == 0;
}

std::string map_index(const plan::Operand& o, const std::string& n, const std::string& c,
                      const std::string& h, const std::string& w) {
    return strided_index(o, {n, c, h, w});
}

std::string input_at(const ConvGeometry& g, int d, const std::string& out, const std::string& tap) {
    return fmt::format("{} * {} + {} * {} - {}", out, g.stride[d], tap, g.dilation[d], g.pad[d]);
}

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

std::string fill_shared(std::int64_t count, int threads, int together, const std::string& prepare,
                        const std::string& ok, const std::string& value,
                        const std::function<std::string(const std::string& x)>& put) {
    const std::int64_t copies = std::clamp<std::int64_t>(count / threads, 1, together);
    std::string loads, puts;
    for (std::int64_t c = 0; c < copies; ++c) {
        const std::string begin = fmt::format("{{\nint e = e0 + {};\n{}", c * threads, prepare);
        const std::string inside =
            count % (copies * threads) != 0 ? fmt::format("e < {} && ", count) : "";
        loads += fmt::format("float x{0} = 0.0f;\n{1}if ({2}{3}) x{0} = {4};\n}}\n", c, begin,
                             inside, ok, value);
        puts += begin + (inside.empty() ? "" : fmt::format("if (e < {}) ", count)) +
                put(fmt::format("x{}", c)) + ";\n}\n";
    }
    return fmt::format("ROLL for (int e0 = int(LANE); e0 < {}; e0 += {}) {{\n", count,
                       copies * threads) +
           loads + puts + "}\nBARRIER();\n";
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

std::string in_group(const ConvGeometry& g, const char* name, std::int64_t channels) {
    return g.groups > 1 ? fmt::format("b * {} + {}", channels, name) : name;
}

void store_map(Gemm& gemm, const plan::HeavyLaunch& l, const std::string& pixel,
               const std::vector<std::string>& at, std::int64_t channels) {
    // Where pixels are in one run, nothing has to be taken apart.
    const bool linear = has_linear_pixels(l.output) && l.epilogue.residual < 0;
    const std::string to = linear ? pixel_index(l.output, "m", at[1]) : strided_index(l.output, at);
    gemm.functions +=
        bias_function(l, at[1]) +
        "void store_c(PTR c, float bias, PTR residual, int b, int m, int n, float x) {\n" +
        (linear ? "" : pixel) + epilogue(l, "bias", residual_index(l, at), to) + "}\n";
    gemm.c_quads = linear && quads_in_groups(l.output, channels);
    if (gemm.c_quads)
        gemm.functions +=
            "void store_c4(PTR c, F4 bias, PTR residual, int b, int m, int n, F4 x) {\n" +
            epilogue4(l, to) + "}\n";
    if (!gemm.halves || !has_linear_pixels(l.output) || !octets_in_groups(l.output, channels))
        return;
    // The residual's octets are read where they are, if they lie like the result's.
    if (l.epilogue.residual >= 0 &&
        !has_octets(l.operands[static_cast<std::size_t>(l.epilogue.residual)], 1))
        return;
    gemm.c_octets = true;
    gemm.functions +=
        "void store_c8(PTR c, F4 bias_x, F4 bias_y, PTR residual, int b, int m, int n, F4 x, F4 y) "
        "{\n" +
        (linear ? "" : pixel) + epilogue8(l, residual_index(l, at), to) + "}\n";
}

namespace {

// Windows of one pixel, one after the other.
bool is_pointwise(const ConvGeometry& g) {
    return g.kh * g.kw == 1 && g.stride[0] * g.stride[1] == 1 && g.pad[0] + g.pad[1] == 0;
}

// Weights in rows, as PyTorch has them: a block of a few n and c goes through shared memory, so
// that both reading and writing go along memory.
void transpose_weights(KernelSource& k, std::int64_t& groups, const ConvGeometry& g,
                       const plan::Operand& weight, bool forward, const PackedWeights& to) {
    const std::int64_t c = to.c, taps = to.taps;
    // Neighbours in memory are taps, then input channels: those are c forward, and n backward.
    std::int64_t bn = forward ? 4 : 16, bc = forward ? 64 : 32;
    while (bn * bc * taps > 4096)
        (bc > 8 ? bc : bn) /= 2;
    const std::int64_t blocks_n = (to.n + bn - 1) / bn, blocks_c = (c + bc - 1) / bc;
    groups = g.groups * blocks_n * blocks_c;
    // Rows of inner x taps elements, one to spare.
    const std::int64_t inner = forward ? bc : bn, outer = forward ? bn : bc;
    const std::int64_t row = inner * taps + 1;
    k.shared = {{"float", "block", static_cast<int>(outer * row)}};
    k.body = fmt::format(
        "int c_first = int(GROUP) % {0} * {1};\nint n_first = int(GROUP) / {0} % {2} * {3};\n"
        "int b = int(GROUP) / {4};\n",
        blocks_c, bc, blocks_n, bn, blocks_c * blocks_n);
    // Output channels of a group times input channels of a group.
    k.body += fill_shared(
        // Short code counts more here than loads side by side.
        outer * inner * taps, k.threads, 1,
        fmt::format("int o = e / {0};\nint r = e % {0};\nint i = r / {1};\n", inner * taps, taps),
        fmt::format("{} + o < {} && {} + i < {}", forward ? "n_first" : "c_first", g.cog,
                    forward ? "c_first" : "n_first", g.cig),
        load(weight.dtype, "ADDRESS(1)",
             fmt::format("((b * {} + {} + o) * {} + {}) * {} + r", g.cog,
                         forward ? "n_first" : "c_first", g.cig, forward ? "c_first" : "n_first",
                         taps)),
        [&](const std::string& x) { return fmt::format("block[o * {} + r] = {}", row, x); });
    k.body += fmt::format(
        "ROLL for (int e = int(LANE); e < {0}; e += int(THREADS)) {{\n"
        "int c = e % {1};\nint tap = e / {1} % {2};\nint n = e / {3};\n"
        "if (c_first + c < {4} && n_first + n < {5}) {6};\n}}\n",
        bn * bc * taps, bc, taps, bc * taps, c, to.n,
        store(to.dtype, "ADDRESS(2)",
              fmt::format("((b * {} + n_first + n) * {} + tap) * {} + c_first + c", to.n, taps, c),
              fmt::format("block[{} * {} + {} * {} + tap]", forward ? "n" : "c", row,
                          forward ? "c" : "n", taps)));
}

}  // namespace

void PackedWeights::add_loads(Gemm& gemm, const std::string& body, const std::string& index) const {
    for (const Width width : widths(gemm.b_quads, gemm.halves, gemm.b_octets))
        gemm.functions += load_b_head(width) + body + load_if_ok(dtype, index, width) + "}\n";
}
std::int64_t PackedWeights::bytes(const ConvGeometry& g) const {
    return g.groups * n * taps * c * static_cast<std::int64_t>(size_of(dtype));
}

namespace {

void pack_weights(Work& w, Step& s, const ConvGeometry& g, const plan::Operand& weight,
                  bool forward, const PackedWeights& to) {
    const std::int64_t c = to.c, taps = to.taps, all = g.groups * to.n * taps * c;
    KernelSource k;
    k.name = "pack_weights";
    Dispatch d;
    d.groups = (all + k.threads - 1) / k.threads;
    const bool in_rows = g.kw == 1 || weight.strides[3] == 1;
    if (taps > 1 && c >= 4 && in_rows && weight.strides[2] == g.kw && weight.strides[1] == taps &&
        weight.strides[0] == g.cig * taps) {
        transpose_weights(k, d.groups, g, weight, forward, to);
    } else {
        const std::string co = fmt::format("b * {} + {}", g.cog, forward ? "n" : "c");
        const std::string index = strided_index(weight, {co, forward ? "c" : "n", "kh", "kw"});
        k.body = fmt::format(
            "int i = int(GROUP * THREADS + LANE);\nif (i < {}) {{\n{}", all,
            cut("i", {{"b", g.groups}, {"n", to.n}, {"kh", g.kh}, {"kw", g.kw}, {"c", c}}));
        k.body +=
            store(to.dtype, "ADDRESS(2)", "i", load(weight.dtype, "ADDRESS(1)", index)) + ";\n}\n";
    }
    d.args = {value_arg(d.groups), operand_arg(weight), scratch_arg(0)};
    d.kernel = w.add(std::move(k));
    s.dispatches.push_back(std::move(d));
    w.scratch_bytes = std::max(w.scratch_bytes, to.bytes(g));
}

}  // namespace

PackedWeights set_input_gradient(Gemm& gemm, const plan::HeavyLaunch& l, const ConvGeometry& g,
                                 const Features& f) {
    const plan::Operand& dy = l.operands[0];
    gemm.a_along_k = gemm.b_along_k = true;
    gemm.halves = is_half_product(dy, l.operands[1], f);
    gemm.a_quads = quads_in_groups(dy, g.cog);
    gemm.a_octets = gemm.halves && octets_in_groups(dy, g.cog);
    gemm.a = operand_arg(dy);
    return {g.cig, g.kh * g.kw, g.cog, gemm.halves ? DType::Float16 : DType::Float32};
}

void write_packed_product(Work& w, Step& s, const plan::HeavyLaunch& l, const ConvGeometry& g,
                          bool forward, const PackedWeights& weights, Gemm& gemm,
                          const Features& f) {
    gemm.b = scratch_arg(0);
    set_epilogue_args(gemm, l);
    pack_weights(w, s, g, l.operands[1], forward, weights);
    gemm.scratch_from = scratch_align(weights.bytes(g));
    write_gemm(w, s, gemm, f);
}

namespace {

// 1 x 1 weights lie as a packed copy would.
bool is_packed(const ConvGeometry& g, const plan::Operand& weight, const PackedWeights& as) {
    return g.kh * g.kw == 1 && weight.dtype == as.dtype && (g.cig == 1 || weight.strides[1] == 1) &&
           (g.co == 1 || weight.strides[0] == g.cig);
}

// Few channels a group: one thread an element of the result, which goes over the window.
void write_depthwise(Work& w, Step& s, const plan::HeavyLaunch& l, const ConvGeometry& g,
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
    k.body += epilogue(l, bias_value(l, "ch"), residual_index(l, at), strided_index(l.output, at)) +
              "}\n";
    Gemm places;
    set_epilogue_args(places, l);
    Dispatch d;
    d.groups = (all + k.threads - 1) / k.threads;
    d.args = {value_arg(d.groups), operand_arg(from), operand_arg(weight), places.c,
              places.bias,         places.residual};
    d.kernel = w.add(std::move(k));
    s.dispatches.push_back(std::move(d));
}

// Whether the choice leaves room for an algorithm.
bool is_open(const Step& s, Algorithm a) {
    return s.choice.algorithm == Algorithm::Default || s.choice.algorithm == a;
}

// By an algorithm other than the product, where it is for that.
bool write_special(Work& w, Step& s, const plan::HeavyLaunch& l, const ConvGeometry& g,
                   bool forward, const Features& f) {
    s.taken.algorithm = Algorithm::Direct;
    if (is_open(s, Algorithm::Direct) && write_conv_direct(w, s, l, g, forward, f)) return true;
    s.taken.algorithm = Algorithm::Winograd;
    if (is_open(s, Algorithm::Winograd) && write_conv_winograd(w, s, l, g, forward, f)) return true;
    s.taken.algorithm = Algorithm::Product;
    return false;
}

}  // namespace

void write_conv2d(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f) {
    check_all(l);
    const plan::Operand &x = l.operands[0], &weight = l.operands[1], &y = l.output;
    const ConvGeometry g(l, x, weight.shape, y);
    if (y.shape.numel() == 0) return;
    if (g.depthwise()) return write_depthwise(w, s, l, g, true);
    if (write_special(w, s, l, g, true, f)) return;
    Gemm gemm;
    gemm.name = "conv2d";
    gemm.batches = g.groups;
    gemm.m = g.n * g.oh * g.ow;
    gemm.n = g.cog;
    gemm.k = g.kh * g.kw * g.cig;
    const std::string pixel = cut("m", {{"img", g.n}, {"oh", g.oh}, {"ow", g.ow}});
    const std::string taps = cut("k", {{"kh", g.kh}, {"kw", g.kw}, {"c", g.cig}});
    gemm.halves = is_half_product(x, weight, f);
    const PackedWeights weights{g.cog, g.kh * g.kw, g.cig,
                                gemm.halves ? DType::Float16 : DType::Float32};
    const bool packed = is_packed(g, weight, weights);
    const bool rows = is_pointwise(g) && has_linear_pixels(x);
    gemm.a_along_k = gemm.b_along_k = true;
    gemm.a_quads = quads_in_groups(x, g.cig);
    gemm.a_octets = gemm.halves && octets_in_groups(x, g.cig);
    gemm.b_quads = !gemm.halves && gemm.k % 4 == 0 && (!packed || weight.offset % 4 == 0);
    gemm.b_octets = gemm.halves && gemm.k % 8 == 0 && (!packed || weight.offset % 8 == 0);
    for (const Width width : widths(gemm.a_quads, gemm.halves, gemm.a_octets))
        gemm.functions +=
            load_a_head(width) +
            (rows ? load_if_ok(x.dtype, pixel_index(x, "m", in_group(g, "k", g.cig)), width)
                  : pixel + taps + load_window(g, x, width)) +
            "}\n";
    weights.add_loads(gemm, "", fmt::format("(b * {} + n) * {} + k", g.cog, gemm.k));
    store_map(gemm, l, pixel, {"img", in_group(g, "n", g.cog), "oh", "ow"}, g.cog);
    gemm.a = operand_arg(x);
    if (!packed) return write_packed_product(w, s, l, g, true, weights, gemm, f);
    gemm.b = operand_arg(weight);
    set_epilogue_args(gemm, l);
    write_gemm(w, s, gemm, f);
}

void write_conv2d_grad_input(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f) {
    check_all(l);
    const plan::Operand &dy = l.operands[0], &weight = l.operands[1], &dx = l.output;
    const ConvGeometry g(l, dx, weight.shape, dy);
    if (dx.shape.numel() == 0) return;
    if (g.depthwise()) return write_depthwise(w, s, l, g, false);
    if (write_special(w, s, l, g, false, f) || write_grad_input_strided(w, s, l, g, f)) return;
    Gemm gemm;
    gemm.name = "conv2d_grad_input";
    gemm.batches = g.groups;
    gemm.m = g.n * g.h * g.w;
    gemm.n = g.cig;
    gemm.k = g.kh * g.kw * g.cog;
    const std::string pixel = cut("m", {{"img", g.n}, {"row", g.h}, {"col", g.w}});
    const std::string taps = cut("k", {{"kh", g.kh}, {"kw", g.kw}, {"c", g.cog}});
    const auto source = [&](Width width) {
        std::string text =
            fmt::format("int th = row + {} - kh * {};\nint tw = col + {} - kw * {};\n", g.pad[0],
                        g.dilation[0], g.pad[1], g.dilation[1]);
        text += fmt::format("int o_h = th / {};\nint o_w = tw / {};\n", g.stride[0], g.stride[1]);
        text += fmt::format("ok = ok && th >= 0 && tw >= 0 && o_h < {} && o_w < {}", g.oh, g.ow);
        if (g.stride[0] > 1) text += fmt::format(" && o_h * {} == th", g.stride[0]);
        if (g.stride[1] > 1) text += fmt::format(" && o_w * {} == tw", g.stride[1]);
        return text + ";\n" +
               load_if_ok(dy.dtype, map_index(dy, "img", in_group(g, "c", g.cog), "o_h", "o_w"),
                          width);
    };
    const bool rows = is_pointwise(g) && has_linear_pixels(dy);
    const PackedWeights weights = set_input_gradient(gemm, l, g, f);
    gemm.b_quads = !gemm.halves && gemm.k % 4 == 0;
    gemm.b_octets = gemm.halves && gemm.k % 8 == 0;
    for (const Width width : widths(gemm.a_quads, gemm.halves, gemm.a_octets))
        gemm.functions +=
            load_a_head(width) +
            (rows ? load_if_ok(dy.dtype, pixel_index(dy, "m", in_group(g, "k", g.cog)), width)
                  : pixel + taps + source(width)) +
            "}\n";
    weights.add_loads(gemm, "", fmt::format("(b * {} + n) * {} + k", g.cig, gemm.k));
    store_map(gemm, l, pixel, {"img", in_group(g, "n", g.cig), "row", "col"}, g.cig);
    write_packed_product(w, s, l, g, false, weights, gemm, f);
}

void write_conv2d_grad_weight(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f) {
    check_all(l);
    const plan::Operand &x = l.operands[0], &dy = l.operands[1], &dw = l.output;
    const ConvGeometry g(l, x, dw.shape, dy);
    if (dw.shape.numel() == 0) return;
    if (is_open(s, Algorithm::Winograd) && write_grad_weight_winograd(w, s, l, g, f)) {
        s.taken.algorithm = Algorithm::Winograd;
        return;
    }
    s.taken.algorithm = Algorithm::Product;
    Gemm gemm;
    gemm.name = "conv2d_grad_weight";
    gemm.batches = g.groups;
    gemm.m = g.cog;
    gemm.n = g.kh * g.kw * g.cig;
    gemm.k = g.n * g.oh * g.ow;
    const std::string pixel = cut("k", {{"img", g.n}, {"oh", g.oh}, {"ow", g.ow}});
    gemm.halves = is_half_product(dy, x, f);
    // Short sums (small batches) of many weights: their stores count, so that those go along memory
    // and the loads do not.
    const std::int64_t row = g.cig * g.kh * g.kw;
    const bool by_rows =
        g.kh * g.kw > 1 && gemm.k <= 512 && !gemm.halves && dw.dtype == DType::Float32 &&
        (g.kw == 1 || dw.strides[3] == 1) && (g.kh == 1 || dw.strides[2] == g.kw) &&
        (g.cig == 1 || dw.strides[1] == g.kh * g.kw) && (g.co == 1 || dw.strides[0] == row);
    const std::string window = by_rows ? cut("n", {{"c", g.cig}, {"kh", g.kh}, {"kw", g.kw}})
                                       : cut("n", {{"kh", g.kh}, {"kw", g.kw}, {"c", g.cig}});
    const std::string channel = in_group(g, "m", g.cog);
    gemm.a_along_k = dy.strides[1] != 1 && g.co != 1;
    gemm.b_along_k = x.strides[1] != 1 && g.ci != 1;
    gemm.a_quads = !gemm.a_along_k && quads_in_groups(dy, g.cog);
    gemm.b_quads = !gemm.b_along_k && !by_rows && quads_in_groups(x, g.cig);
    gemm.a_octets = gemm.halves && !gemm.a_along_k && octets_in_groups(dy, g.cog);
    gemm.b_octets = gemm.halves && !gemm.b_along_k && octets_in_groups(x, g.cig);
    const bool linear = has_linear_pixels(dy);
    const bool rows = is_pointwise(g) && has_linear_pixels(x);
    const std::string from =
        linear ? pixel_index(dy, "k", channel) : map_index(dy, "img", channel, "oh", "ow");
    for (const Width width : widths(gemm.a_quads, gemm.halves, gemm.a_octets))
        gemm.functions +=
            load_a_head(width) + (linear ? "" : pixel) + load_if_ok(dy.dtype, from, width) + "}\n";
    for (const Width width : widths(gemm.b_quads, gemm.halves, gemm.b_octets))
        gemm.functions +=
            load_b_head(width) +
            (rows ? load_if_ok(x.dtype, pixel_index(x, "k", in_group(g, "n", g.cig)), width)
                  : pixel + window + load_window(g, x, width)) +
            "}\n";
    gemm.functions +=
        std::string(kNoBias) +
        "void store_c(PTR to, float bias, PTR residual, int b, int m, int n, float x) {\n" +
        window + store(dw.dtype, "to", strided_index(dw, {channel, "c", "kh", "kw"}), "x") +
        ";\n}\n";
    gemm.c_quads = by_rows && row % 4 == 0 && dw.offset % 4 == 0;
    if (gemm.c_quads)
        gemm.functions += fmt::format(
            "void store_c4(PTR to, F4 bias, PTR residual, int b, int m, int n, F4 x) {{\n"
            "ST_F4(to, (({}) * {} + n) / 4, x);\n}}\n",
            channel, row);
    gemm.a = operand_arg(dy);
    gemm.b = operand_arg(x);
    gemm.c = operand_arg(dw);
    write_gemm(w, s, gemm, f);
}

}  // namespace pippin::gpu
