// Convolutions with few channels: as products their tiles would be mostly padding. A thread sums up
// a pixel's next eight channels; all weights lie in shared memory.
#include <fmt/format.h>

#include "backends/gpu/conv.h"
#include "backends/gpu/expression.h"

namespace pippin::gpu {

namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kMostWeights = 4096, kMostOutputs = 16, kMostInputs = 32;

}  // namespace

bool write_conv_direct(Work& w, Step& s, const plan::HeavyLaunch& l, const ConvGeometry& g,
                       bool forward, const Features& f) {
    const plan::Operand &from = l.operands[0], &weight = l.operands[1];
    const std::int64_t inputs = forward ? g.cig : g.cog, outputs = forward ? g.cog : g.cig;
    const std::int64_t height = forward ? g.oh : g.h, width = forward ? g.ow : g.w;
    const std::int64_t taps = g.kh * g.kw, blocks = (outputs + 7) / 8,
                       pixels = g.n * height * width;
    if (g.groups > 1 || outputs > kMostOutputs || inputs > kMostInputs ||
        taps * inputs * blocks * 8 > kMostWeights || pixels >= (std::int64_t{1} << 30))
        return false;
    Gemm places;  // for its functions and addresses
    const std::string pixel = cut("m", {{"img", g.n}, {"row", height}, {"col", width}});
    store_map(places, l, pixel, {"img", "n", "row", "col"}, outputs);
    set_epilogue_args(places, l);
    KernelSource k;
    k.name = forward ? "conv2d_direct" : "conv2d_grad_input_direct";
    k.threads = kThreads;
    k.functions = places.functions;
    k.shared = {{"F4", "weights", static_cast<int>(taps * inputs * blocks * 2)}};
    // [kh][kw][input][output], as quads of outputs
    k.body = fmt::format(
        "PTR p = ADDRESS(1);\nPTR pw = ADDRESS(2);\n"
        "ROLL for (int e = int(LANE); e < {0}; e += {1}) {{\n"
        "int o = e % {2};\nint t = e / {2};\n{3}float x = 0.0f;\nif (o < {4}) x = {5};\n"
        "SET_PART(weights[e / 4], e % 4, x);\n}}\nBARRIER();\n",
        taps * inputs * blocks * 8, kThreads, blocks * 8,
        cut("t", {{"kh", g.kh}, {"kw", g.kw}, {"i", inputs}}), outputs,
        load(weight.dtype, "pw",
             strided_index(weight, {forward ? "o" : "i", forward ? "i" : "o", "kh", "kw"})));
    k.body += fmt::format(
        "int at = int(GROUP * THREADS + LANE);\nif (at < {} * {}) {{\n"
        "int m = at % {};\nint block = at / {};\n{}",
        pixels, blocks, pixels, pixels, pixel);
    for (int c = 0; c < 8; ++c)
        k.body += fmt::format("float x{} = 0.0f;\n", c);
    // Loads of a few taps are on their way at once; software compiles long bodies slowly.
    const bool unroll = !f.small_tiles;
    const char* columns = unroll && g.kw * inputs <= 32 ? "UNROLL" : "ROLL";
    const char* channels = unroll && inputs <= 32 ? "UNROLL" : "ROLL";
    if (forward) {
        k.body += fmt::format(
            "ROLL for (int kh = 0; kh < {}; kh++) {{\nint ih = {};\n"
            "bool row_ok = ih >= 0 && ih < {};\n"
            "{} for (int kw = 0; kw < {}; kw++) {{\nint iw = {};\n"
            "bool ok = row_ok && iw >= 0 && iw < {};\n",
            g.kh, input_at(g, 0, "row", "kh"), g.h, columns, g.kw, input_at(g, 1, "col", "kw"),
            g.w);
    } else {
        k.body += fmt::format(
            "ROLL for (int kh = 0; kh < {0}; kh++) {{\nint th = row + {1} - kh * {2};\n"
            "int ih = th / {3};\nbool row_ok = th >= 0 && ih * {3} == th && ih < {4};\n",
            g.kh, g.pad[0], g.dilation[0], g.stride[0], g.oh);
        k.body += fmt::format(
            "{0} for (int kw = 0; kw < {1}; kw++) {{\nint tw = col + {2} - kw * {3};\n"
            "int iw = tw / {4};\nbool ok = row_ok && tw >= 0 && iw * {4} == tw && iw < {5};\n",
            columns, g.kw, g.pad[1], g.dilation[1], g.stride[1], g.ow);
    }
    k.body += fmt::format(
        "int quad = ((kh * {0} + kw) * {1} * {2} + block) * 2;\n"
        "{3} for (int i = 0; i < {1}; i++) {{\nfloat x = 0.0f;\nint index = {4};\n"
        "if (ok) x = {5};\n"
        "F4 u = weights[quad + i * {6}];\nF4 v = weights[quad + i * {6} + 1];\n",
        g.kw, inputs, blocks, channels, map_index(from, "img", "i", "ih", "iw"),
        load(from.dtype, "p", "index"), blocks * 2);
    for (int c = 0; c < 8; ++c)
        k.body +=
            fmt::format("x{0} = FMA(x, {1}.{2}, x{0});\n", c, c < 4 ? 'u' : 'v', "xyzw"[c % 4]);
    k.body += "}\n}\n}\nPTR pc = ADDRESS(3);\nPTR bias = ADDRESS(4);\nPTR residual = ADDRESS(5);\n";
    for (int c = 0; c < 8; ++c)
        k.body += fmt::format(
            "{0}store_c(pc, bias_at(bias, 0, block * 8 + {1}), residual, 0, m, block * 8 + {1}, "
            "x{1});\n",
            outputs % 8 != 0 ? fmt::format("if (block * 8 + {} < {}) ", c, outputs) : "", c);
    k.body += "}\n";
    Dispatch d;
    d.groups = (pixels * blocks + kThreads - 1) / kThreads;
    d.args = {value_arg(d.groups), operand_arg(from), operand_arg(weight), places.c,
              places.bias,         places.residual};
    d.kernel = w.add(std::move(k));
    s.dispatches.push_back(std::move(d));
    return true;
}

}  // namespace pippin::gpu
