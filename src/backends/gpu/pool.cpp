// Pooling and its gradients: one thread an element of the result, which goes over the windows that
// it has to do with. Sums are in scan order, so that they never depend on anything else.
#include <algorithm>

#include <fmt/format.h>

#include "backends/gpu/expression.h"
#include "backends/gpu/gemm.h"
#include "backends/gpu/heavy.h"
#include "graph/ops/records.h"

namespace pippin::gpu {

namespace {

namespace ops = graph::ops;

// The kernel over all elements of y (channels fastest): `body` finds img, row, col, ch and leaves
// the result in x.
void add_pointwise(Work& w, Step& s, const plan::HeavyLaunch& l, std::string name,
                   const std::string& body) {
    const plan::Operand& y = l.output;
    const std::int64_t all = y.shape.numel();
    if (all == 0) return;
    KernelSource k;
    k.name = std::move(name);
    k.body = fmt::format(
        "int i = int(GROUP * THREADS + LANE);\nif (i < {0}) {{\n"
        "PTR c = ADDRESS(1);\nPTR p = ADDRESS(2);\nPTR q = ADDRESS(3);\n"
        "int ch = i % {1};\nint col = i / {1} % {2};\nint row = i / {3} % {4};\n"
        "int img = i / {5};\nfloat x = 0.0f;\n",
        all, y.shape[1], y.shape[3], y.shape[1] * y.shape[3], y.shape[2],
        y.shape[1] * y.shape[3] * y.shape[2]);
    k.body += body;
    k.body += store(y.dtype, "c", strided_index(y, {"img", "ch", "row", "col"}), "x") + ";\n}\n";
    Dispatch d;
    d.groups = (all + k.threads - 1) / k.threads;
    d.args = {value_arg(d.groups), operand_arg(y), operand_arg(l.operands[0]),
              operand_arg(l.operands.back())};
    d.kernel = w.add(std::move(k));
    s.dispatches.push_back(std::move(d));
}

std::string map(const plan::Operand& o, const std::string& pointer, const std::string& h,
                const std::string& w) {
    return load(o.dtype, pointer, strided_index(o, {"img", "ch", h, w}));
}

// Goes over the window of output (oy, ox); leaves the maximum in `most` and its place in `at`, -1
// where the window sees nothing. The first of equal values, but the last NaN.
std::string scan_window(const plan::Operand& x, const graph::PoolAttrs& a) {
    return fmt::format(
        "float most = AS_FLOAT(0xff800000u);\nint at = -1;\n"
        "ROLL for (int wh = 0; wh < {}; wh++) {{\nROLL for (int ww = 0; ww < {}; ww++) {{\n"
        "int h = oy * {} - {} + wh * {};\nint v = ox * {} - {} + ww * {};\n"
        "if (h >= 0 && h < {} && v >= 0 && v < {}) {{\nfloat e = {};\n"
        "if (at < 0 || e > most || is_nan(e)) {{ most = e; at = h * {} + v; }}\n}}\n}}\n}}\n",
        a.kernel[0], a.kernel[1], a.stride[0], a.pad[0], a.dilation[0], a.stride[1], a.pad[1],
        a.dilation[1], x.shape[2], x.shape[3], map(x, "p", "h", "v"), x.shape[3]);
}

// Outputs whose windows may contain input row `in`: from first to last.
std::string window_range(const char* axis, const graph::PoolAttrs& a, std::size_t d, const char* in,
                         std::int64_t outputs) {
    const std::int64_t span = (a.kernel[d] - 1) * a.dilation[d];
    return fmt::format(
        "int first_{0} = {1} + {2} - {3};\n"
        "first_{0} = first_{0} <= 0 ? 0 : (first_{0} + {4}) / {5};\n"
        "int last_{0} = ({1} + {2}) / {5};\n"
        "if (last_{0} > {6}) last_{0} = {6};\n",
        axis, in, a.pad[d], span, a.stride[d] - 1, a.stride[d], outputs - 1);
}

void max_pool(Work& w, Step& s, const plan::HeavyLaunch& l) {
    const graph::PoolAttrs a = ops::pool_attrs(l.attrs);
    add_pointwise(w, s, l, "max_pool",
                  "int oy = row;\nint ox = col;\n" + scan_window(l.operands[0], a) + "x = most;\n");
}

void max_pool_grad(Work& w, Step& s, const plan::HeavyLaunch& l) {
    const graph::PoolAttrs a = ops::pool_attrs(l.attrs);
    const plan::Operand &x = l.operands[0], &dy = l.operands[1];
    std::string body =
        window_range("y", a, 0, "row", dy.shape[2]) + window_range("x", a, 1, "col", dy.shape[3]);
    body +=
        "ROLL for (int oy = first_y; oy <= last_y; oy++) {\n"
        "ROLL for (int ox = first_x; ox <= last_x; ox++) {\n" +
        scan_window(x, a) +
        fmt::format("if (at == row * {} + col) x = x + {};\n}}\n}}\n", x.shape[3],
                    map(dy, "q", "oy", "ox"));
    add_pointwise(w, s, l, "max_pool_grad", body);
}

// Statements that give begin_<d>, end_<d> (inside of the input) and size_<d> of output `o`.
std::string average_window(const char* axis, const graph::PoolAttrs& a, std::size_t d,
                           const char* o, std::int64_t extent) {
    return fmt::format(
        "int begin_{0} = {1} * {2} - {3};\nint end_{0} = begin_{0} + {4};\n"
        "if (end_{0} > {5}) end_{0} = {5};\nint size_{0} = end_{0} - begin_{0};\n"
        "if (begin_{0} < 0) begin_{0} = 0;\nif (end_{0} > {6}) end_{0} = {6};\n{7}",
        axis, o, a.stride[d], a.pad[d], a.kernel[d], extent + a.pad[d], extent,
        a.count_include_pad ? "" : fmt::format("size_{0} = end_{0} - begin_{0};\n", axis));
}
std::string adaptive_window(const char* axis, const char* o, std::int64_t outputs,
                            std::int64_t extent) {
    return fmt::format(
        "int begin_{0} = {1} * {2} / {3};\nint end_{0} = (({1} + 1) * {2} + {4}) / {3};\n"
        "int size_{0} = end_{0} - begin_{0};\n",
        axis, o, extent, outputs, outputs - 1);
}

void average(Work& w, Step& s, const plan::HeavyLaunch& l, std::string name,
             const std::string& windows) {
    add_pointwise(w, s, l, std::move(name),
                  "int oy = row;\nint ox = col;\n" + windows +
                      "ROLL for (int h = begin_y; h < end_y; h++) {\n"
                      "ROLL for (int v = begin_x; v < end_x; v++) {\n" +
                      fmt::format("x = x + {};\n}}\n}}\n", map(l.operands[0], "p", "h", "v")) +
                      "x = x / float(size_y * size_x);\n");
}

void average_grad(Work& w, Step& s, const plan::HeavyLaunch& l, std::string name,
                  const std::string& ranges, const std::string& windows) {
    add_pointwise(w, s, l, std::move(name),
                  ranges +
                      "ROLL for (int oy = first_y; oy <= last_y; oy++) {\n"
                      "ROLL for (int ox = first_x; ox <= last_x; ox++) {\n" +
                      windows +
                      "if (row >= begin_y && row < end_y && col >= begin_x && col < end_x)\n" +
                      fmt::format("x = x + {} / float(size_y * size_x);\n}}\n}}\n",
                                  map(l.operands[0], "p", "oy", "ox")));
}

}  // namespace

void write_pool(Work& w, Step& s, const plan::HeavyLaunch& l, const Features&) {
    for (const auto& o : l.operands)
        check_operand(o);
    check_operand(l.output);
    const Shape &in = l.operands[0].shape, &out = l.output.shape;
    if (l.op == &ops::kMaxPool2d) return max_pool(w, s, l);
    if (l.op == &ops::kMaxPool2dGrad) return max_pool_grad(w, s, l);
    if (l.op == &ops::kAvgPool2d || l.op == &ops::kAvgPool2dGrad) {
        const graph::PoolAttrs a = ops::pool_attrs(l.attrs);
        const bool grad = l.op == &ops::kAvgPool2dGrad;
        const Shape& x = grad ? out : in;
        const std::string windows =
            average_window("y", a, 0, "oy", x[2]) + average_window("x", a, 1, "ox", x[3]);
        if (!grad) return average(w, s, l, "avg_pool", windows);
        return average_grad(
            w, s, l, "avg_pool_grad",
            window_range("y", a, 0, "row", in[2]) + window_range("x", a, 1, "col", in[3]), windows);
    }
    if (l.op == &ops::kAdaptiveAvgPool2d)
        return average(
            w, s, l, "adaptive_avg_pool",
            adaptive_window("y", "oy", out[2], in[2]) + adaptive_window("x", "ox", out[3], in[3]));
    // Outputs of row h are those from floor(h O / H) on, to the last that begins before h + 1.
    const auto range = [](const char* axis, const char* at, std::int64_t outputs,
                          std::int64_t extent) {
        return fmt::format(
            "int first_{0} = {1} * {2} / {3};\nint last_{0} = (({1} + 1) * {2} - 1) / {3};\n", axis,
            at, outputs, extent);
    };
    average_grad(
        w, s, l, "adaptive_avg_pool_grad",
        range("y", "row", in[2], out[2]) + range("x", "col", in[3], out[3]),
        adaptive_window("y", "oy", in[2], out[2]) + adaptive_window("x", "ox", in[3], out[3]));
}

}  // namespace pippin::gpu
