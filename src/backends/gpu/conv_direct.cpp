// Convolutions with few channels: as products their tiles would be mostly padding. A thread sums up
// a pixel's next eight channels; all weights lie in shared memory. Where pixels are few, four
// threads share the taps of a pixel, and then its channels.
#include <fmt/format.h>

#include "backends/gpu/conv.h"
#include "backends/gpu/expression.h"

namespace pippin::gpu {

namespace {

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
    const int slices = !f.small_tiles && pixels * blocks < 256 * f.parallel_groups ? 4 : 1;
    KernelSource k;
    k.name = forward ? "conv2d_direct" : "conv2d_grad_input_direct";
    k.threads = slices > 1 ? 256 : 128;
    const int teams = k.threads / slices;
    k.functions = places.functions;
    k.shared = {{"F4", "weights", static_cast<int>(taps * inputs * blocks * 2)}};
    if (slices > 1) k.shared.push_back({"float", "sums", 8 * k.threads});
    // [kh][kw][input][output], as quads of outputs
    k.body =
        "PTR p = ADDRESS(1);\nPTR pw = ADDRESS(2);\n" +
        fill_shared(
            taps * inputs * blocks * 8, k.threads, 8,
            fmt::format("int o = e % {0};\nint t = e / {0};\n", blocks * 8) +
                cut("t", {{"kh", g.kh}, {"kw", g.kw}, {"i", inputs}}),
            fmt::format("o < {}", outputs),
            load(weight.dtype, "pw",
                 strided_index(weight, {forward ? "o" : "i", forward ? "i" : "o", "kh", "kw"})),
            [](const std::string& x) {
                return fmt::format("SET_PART(weights[e / 4], e % 4, {})", x);
            });
    k.body += fmt::format(
        "int slice = int(LANE) / {0};\nint at = int(GROUP) * {0} + int(LANE) % {0};\n", teams);
    for (int c = 0; c < 8; ++c)
        k.body += fmt::format("float x{} = 0.0f;\n", c);
    k.body += fmt::format("int m = at % {0};\nint block = at / {0};\nif (block < {1}) {{\n{2}",
                          pixels, blocks, pixel);
    // Loads of a row of taps are on their way at once, or of a tap's inputs; software compiles long
    // bodies slowly.
    const bool rows = slices == 1;
    const char* columns = !f.small_tiles && g.kw * inputs <= 32 ? "UNROLL" : "ROLL";
    k.body += rows ? fmt::format(
                         "ROLL for (int kh = 0; kh < {}; kh++) {{\n"
                         "{} for (int kw = 0; kw < {}; kw++) {{\n",
                         g.kh, columns, g.kw)
                   : fmt::format(
                         "ROLL for (int tap = slice; tap < {0}; tap += {1}) {{\n{{\n"
                         "int kh = tap / {2};\nint kw = tap % {2};\n",
                         taps, slices, g.kw);
    if (forward)
        k.body += fmt::format(
            "int ih = {};\nint iw = {};\nbool ok = ih >= 0 && ih < {} && iw >= 0 && iw < {};\n",
            input_at(g, 0, "row", "kh"), input_at(g, 1, "col", "kw"), g.h, g.w);
    else
        k.body += fmt::format(
            "int th = row + {0} - kh * {1};\nint tw = col + {2} - kw * {3};\n"
            "int ih = th / {4};\nint iw = tw / {5};\n"
            "bool ok = th >= 0 && ih * {4} == th && ih < {6} && tw >= 0 && iw * {5} == tw && iw < "
            "{7};\n",
            g.pad[0], g.dilation[0], g.pad[1], g.dilation[1], g.stride[0], g.stride[1], g.oh, g.ow);
    k.body += fmt::format(
        "int quad = ((kh * {0} + kw) * {1} * {2} + block) * 2;\n"
        "{3} for (int i = 0; i < {1}; i++) {{\nfloat x = 0.0f;\nint index = {4};\n"
        "if (ok) x = {5};\n"
        "F4 u = weights[quad + i * {6}];\nF4 v = weights[quad + i * {6} + 1];\n",
        g.kw, inputs, blocks, f.small_tiles ? "ROLL" : "UNROLL",
        map_index(from, "img", "i", "ih", "iw"), load(from.dtype, "p", "index"), blocks * 2);
    for (int c = 0; c < 8; ++c)
        k.body +=
            fmt::format("x{0} = FMA(x, {1}.{2}, x{0});\n", c, c < 4 ? 'u' : 'v', "xyzw"[c % 4]);
    k.body += "}\n}\n}\n}\n";
    int mine = 8;
    std::string channel = "block * 8";
    if (slices > 1) {
        mine = 8 / slices;
        channel += fmt::format(" + slice * {}", mine);
        for (int c = 0; c < 8; ++c)
            k.body += fmt::format("sums[{} + int(LANE)] = x{};\n", c * k.threads, c);
        k.body += "BARRIER();\n";
        for (int c = 0; c < mine; ++c)
            k.body += fmt::format(
                "x{0} = 0.0f;\nUNROLL for (int s = 0; s < {1}; s++)\n"
                "x{0} = x{0} + sums[(slice * {2} + {0}) * {3} + s * {4} + int(LANE) % {4}];\n",
                c, slices, mine, k.threads, teams);
    }
    k.body += fmt::format(
        "if (block < {}) {{\nPTR pc = ADDRESS(3);\nPTR bias = ADDRESS(4);\n"
        "PTR residual = ADDRESS(5);\n",
        blocks);
    for (int c = 0; c < mine; ++c) {
        const std::string n = fmt::format("{} + {}", channel, c);
        k.body +=
            fmt::format("{}store_c(pc, bias_at(bias, 0, {}), residual, 0, m, {}, x{});\n",
                        outputs % 8 != 0 ? fmt::format("if ({} < {}) ", n, outputs) : "", n, n, c);
    }
    k.body += "}\n";
    Dispatch d;
    d.groups = ceil_div(pixels * blocks, teams);
    d.args = {value_arg(d.groups), operand_arg(from), operand_arg(weight), places.c,
              places.bias,         places.residual};
    d.kernel = w.add(std::move(k));
    s.dispatches.push_back(std::move(d));
    return true;
}

}  // namespace pippin::gpu
