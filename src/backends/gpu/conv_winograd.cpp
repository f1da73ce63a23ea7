// Convolutions with 3 x 3 windows and many channels by Winograd's F(2 x 2, 3 x 3): tiles of 4 x 4
// pixels and the windows are transformed, 16 products of matrices take the place of 36, and the
// results are transformed back (Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2015). The sums differ from the direct ones in their last digits, and an infinite or
// NaN pixel spreads over the 2 x 2 results of its tiles.
#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "backends/gpu/conv.h"
#include "backends/gpu/expression.h"
#include "backends/gpu/lines.h"

namespace pippin::gpu {

namespace {

using Matrix = std::vector<std::vector<double>>;

// Y = At [(G g Gt) (Bt d B)] A for a tile d of the input and a window g; the gradient of g is
// Gt [(A dY At) (Bt d B)] G.
const Matrix kBt{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
const Matrix kG{{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
const Matrix kAt{{1, 1, 1, 0}, {0, 1, -1, -1}};
Matrix transposed(const Matrix& m) {
    Matrix t(m[0].size(), std::vector<double>(m.size()));
    for (std::size_t i = 0; i < m.size(); ++i)
        for (std::size_t j = 0; j < m[i].size(); ++j)
            t[j][i] = m[i][j];
    return t;
}

std::string name(char what, std::size_t i, std::size_t j) {
    return fmt::format("{}{}{}", what, i, j);
}
std::string row_times(const std::vector<double>& row,
                      const std::function<std::string(std::size_t)>& element) {
    std::string out;
    for (std::size_t k = 0; k < row.size(); ++k) {
        if (row[k] == 0) continue;
        out += out.empty() ? (row[k] < 0 ? "-" : "") : row[k] < 0 ? " - " : " + ";
        if (row[k] != 1 && row[k] != -1) out += fmt::format("{:g}f * ", std::abs(row[k]));
        out += element(k);
    }
    return out;
}
// Statements for to = m from m^t, of floats with such names: x00, x01, ...
std::string sandwich(const Matrix& m, char from, char to) {
    std::string out;
    for (std::size_t p = 0; p < m.size(); ++p)
        for (std::size_t c = 0; c < m[0].size(); ++c)
            out += fmt::format("float {}_ = {};\n", name(to, p, c),
                               row_times(m[p], [&](std::size_t r) { return name(from, r, c); }));
    for (std::size_t p = 0; p < m.size(); ++p)
        for (std::size_t q = 0; q < m.size(); ++q)
            out += fmt::format("float {} = {};\n", name(to, p, q),
                               row_times(m[q], [&](auto c) { return name(to, p, c) + "_"; }));
    return out;
}

class Winograd {
  public:
    Winograd(Work& w, Step& s, const ConvGeometry& g, const Features& f, std::int64_t rows,
             std::int64_t columns, std::int64_t from, std::int64_t to)
        : w_(w), s_(s), g_(g), f_(f), tiles_h_(ceil_div(rows, 2)), tiles_w_(ceil_div(columns, 2)) {
        const std::int64_t image = tiles_h_ * tiles_w_ * 16 * 4 * (from + to);
        const std::int64_t fit = std::clamp<std::int64_t>(f.tile_bytes / image, 1, g.n);
        images_ = even_part(g.n, fit);
    }

    // Calls f(first image, images) for one part of the batch after the other.
    void each(const std::function<void(std::int64_t, std::int64_t)>& f) const {
        for (std::int64_t n = 0; n < g_.n; n += images_)
            f(n, std::min(images_, g_.n - n));
    }
    std::int64_t tiles(std::int64_t images) const { return images * tiles_h_ * tiles_w_; }

    // A place in scratch memory.
    std::int64_t reserve(std::int64_t floats) { return scratch_.reserve(floats * 4); }
    std::int64_t most_tiles() const { return tiles(images_); }

    // An image of a map and those behind it.
    static Arg from_image(const plan::Operand& o, std::int64_t image) {
        Arg a = operand_arg(o);
        a.value += image * o.strides[0] * static_cast<std::int64_t>(size_of(o.dtype));
        return a;
    }

    // [16][tile][channel] of a map, whose tiles of `size` x `size` pixels begin 2 apart, `pad`
    // before its first one.
    void transform_map(const char* title, const plan::Operand& o, std::int64_t first,
                       std::int64_t images, const Matrix& m, std::int64_t pad, std::int64_t to) {
        const std::int64_t channels = o.shape[1], all = tiles(images) * channels;
        const std::size_t size = m[0].size();
        std::string body = fmt::format("PTR p = ADDRESS(1);\nPTR to = ADDRESS(2);\n");
        for (std::size_t r = 0; r < size; ++r)
            body += fmt::format(
                "int h{0} = ty * 2 + {1};\nbool hok{0} = h{0} >= 0 && h{0} < {2};\n"
                "int w{0} = tx * 2 + {1};\nbool wok{0} = w{0} >= 0 && w{0} < {3};\n",
                r, static_cast<std::int64_t>(r) - pad, o.shape[2], o.shape[3]);
        for (std::size_t r = 0; r < size; ++r)
            for (std::size_t c = 0; c < size; ++c)
                body += fmt::format(
                    "int at{0}{1} = {2};\nfloat x{0}{1} = 0.0f;\n"
                    "if (hok{0} && wok{1}) x{0}{1} = LD_F32(p, at{0}{1});\n",
                    r, c, map_index(o, "img", "ch", fmt::format("h{}", r), fmt::format("w{}", c)));
        body += sandwich(m, 'x', 'y');
        for (std::size_t k = 0; k < 16; ++k)
            body += fmt::format("ST_F32(to, {} + i, {});\n", static_cast<std::int64_t>(k) * all,
                                name('y', k / 4, k % 4));
        add_elements(w_, s_, title, "", places(images, channels) + body, all,
                     {from_image(o, first), scratch_arg(to)});
    }

    // The same of windows: [16][n][c], or [16][c][n] of windows turned around. `co` and `ci` name
    // the weight's channels.
    void transform_weights(const plan::Operand& weight, bool forward, std::int64_t to) {
        const std::int64_t all = g_.co * g_.ci;
        std::string body = cut("i", {{"co", g_.co}, {"ci", g_.ci}}) +
                           "PTR p = ADDRESS(1);\nPTR to = ADDRESS(2);\n";
        for (int r = 0; r < 3; ++r)
            for (int c = 0; c < 3; ++c)
                body += fmt::format(
                    "float x{}{} = LD_F32(p, {});\n", r, c,
                    strided_index(weight, {"co", "ci", std::to_string(forward ? r : 2 - r),
                                           std::to_string(forward ? c : 2 - c)}));
        body += sandwich(kG, 'x', 'y');
        for (std::size_t k = 0; k < 16; ++k)
            body += fmt::format("ST_F32(to, {} + i, {});\n", static_cast<std::int64_t>(k) * all,
                                name('y', k / 4, k % 4));
        add_elements(w_, s_, "winograd_weights", "", body, all,
                     {operand_arg(weight), scratch_arg(to)});
    }

    // [16][tile][channel] back to a map, with the launch's epilogue.
    void finish_map(const plan::HeavyLaunch& l, std::int64_t first, std::int64_t images,
                    std::int64_t from) {
        const plan::Operand& y = l.output;
        const std::int64_t channels = y.shape[1], all = tiles(images) * channels;
        const std::vector<std::string> at{"img", "ch", "h", "w"};
        std::string body = "PTR p = ADDRESS(1);\n";
        for (std::size_t k = 0; k < 16; ++k)
            body += fmt::format("float {} = LD_F32(p, {} + i);\n", name('x', k / 4, k % 4),
                                static_cast<std::int64_t>(k) * all);
        body += sandwich(kAt, 'x', 'y');
        for (std::size_t r = 0; r < 2; ++r)
            for (std::size_t c = 0; c < 2; ++c)
                body += fmt::format(
                    "store_at(ADDRESS(2), ADDRESS(3), ADDRESS(4), img, ch, ty * 2 + {}, tx * 2 + "
                    "{}, {});\n",
                    r, c, name('y', r, c));
        const std::string store = fmt::format(
            "void store_at(PTR c, PTR bias, PTR residual, int img, int ch, int h, int w, float x) "
            "{{\nif (h >= {} || w >= {}) return;\n{}}}\n",
            y.shape[2], y.shape[3],
            epilogue(l, bias_value(l, "ch"), residual_index(l, at), strided_index(y, at)));
        Gemm args;
        set_epilogue_args(args, l);
        if (l.epilogue.residual >= 0)
            args.residual =
                from_image(l.operands[static_cast<std::size_t>(l.epilogue.residual)], first);
        add_elements(w_, s_, "winograd_output", store, places(images, channels) + body, all,
                     {scratch_arg(from), from_image(y, first), args.bias, args.residual});
    }

    // The gradient of the windows from [16][co][ci].
    void finish_weights(const plan::Operand& dw, std::int64_t from) {
        const std::int64_t all = g_.co * g_.ci;
        std::string body = cut("i", {{"co", g_.co}, {"ci", g_.ci}}) + "PTR p = ADDRESS(1);\n";
        for (std::size_t k = 0; k < 16; ++k)
            body += fmt::format("float {} = LD_F32(p, {} + i);\n", name('x', k / 4, k % 4),
                                static_cast<std::int64_t>(k) * all);
        body += sandwich(transposed(kG), 'x', 'y');
        for (std::size_t r = 0; r < 3; ++r)
            for (std::size_t c = 0; c < 3; ++c)
                body += fmt::format(
                    "ST_F32(ADDRESS(2), {}, {});\n",
                    strided_index(dw, {"co", "ci", std::to_string(r), std::to_string(c)}),
                    name('y', r, c));
        add_elements(w_, s_, "winograd_grad_weight", "", body, all,
                     {scratch_arg(from), operand_arg(dw)});
    }

    // 16 products of matrices that lie in scratch memory, rows of a, b and c behind one another.
    void product(const char* title, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t a,
                 bool a_along_k, std::int64_t b, bool b_along_k, std::int64_t c, bool add) {
        Gemm gemm;
        gemm.name = title;
        gemm.batches = 16;
        gemm.m = m, gemm.n = n, gemm.k = k;
        gemm.a_along_k = a_along_k, gemm.b_along_k = b_along_k;
        gemm.a_quads = (a_along_k ? k : m) % 4 == 0;
        gemm.b_quads = (b_along_k ? k : n) % 4 == 0;
        const auto index = [](const char* row, std::int64_t rows, const char* column,
                              std::int64_t columns) {
            return fmt::format("(b * {} + {}) * {} + {}", rows, row, columns, column);
        };
        for (const Width width : widths(gemm.a_quads, false, false))
            gemm.functions +=
                load_a_head(width) +
                load_if_ok(DType::Float32,
                           a_along_k ? index("m", m, "k", k) : index("k", k, "m", m), width) +
                "}\n";
        for (const Width width : widths(gemm.b_quads, false, false))
            gemm.functions +=
                load_b_head(width) +
                load_if_ok(DType::Float32,
                           b_along_k ? index("n", n, "k", k) : index("k", k, "n", n), width) +
                "}\n";
        gemm.functions += fmt::format(
            "{}void store_c(PTR c, float bias, PTR residual, int b, int m, int n, float x) {{\n"
            "int at = {};\nST_F32(c, at, {});\n}}\n",
            kNoBias, index("m", m, "n", n), add ? "x + LD_F32(c, at)" : "x");
        gemm.a = scratch_arg(a), gemm.b = scratch_arg(b), gemm.c = scratch_arg(c);
        gemm.scratch_from = scratch_.end();
        write_gemm(w_, s_, gemm, f_);
    }

  private:
    std::string places(std::int64_t images, std::int64_t channels) const {
        return cut("i", {{"img", images}, {"ty", tiles_h_}, {"tx", tiles_w_}, {"ch", channels}});
    }
    Work& w_;
    Step& s_;
    const ConvGeometry& g_;
    const Features& f_;
    const std::int64_t tiles_h_, tiles_w_;
    std::int64_t images_ = 1;
    ScratchPlaces scratch_{w_};
};

// Whether it is a convolution for this, over maps of which one has the tiles' places; `wanted`:
// whatever its size.
bool suits(const plan::HeavyLaunch& l, const ConvGeometry& g, const Features& f,
           const plan::Operand& map, const plan::Operand& tiled, bool wanted) {
    if (g.kh != 3 || g.kw != 3 || g.groups != 1) return false;
    for (int d = 0; d < 2; ++d)
        if (g.stride[d] != 1 || g.dilation[d] != 1 || g.pad[d] != g.pad[0]) return false;
    for (const plan::Operand& o : l.operands)
        if (o.dtype != DType::Float32) return false;
    // Threads side by side have channels.
    if (l.output.dtype != DType::Float32 || map.strides[1] != 1 || tiled.strides[1] != 1)
        return false;
    const std::int64_t tiles = g.n * ceil_div(tiled.shape[2], 2) * ceil_div(tiled.shape[3], 2);
    if (tiles * 16 * std::max(g.ci, g.co) >= (std::int64_t{1} << 31)) return false;
    if (wanted) return true;
    if (tiles < f.winograd_tiles) return false;
    // Products shrink by ci co, transforms cost ci + co.
    return g.ci * g.co >= f.winograd_channels * (g.ci + g.co);
}

}  // namespace

bool write_conv_winograd(Work& w, Step& s, const plan::HeavyLaunch& l, const ConvGeometry& g,
                         bool forward, const Features& f) {
    const plan::Operand &from = l.operands[0], &weight = l.operands[1], &to = l.output;
    if (!suits(l, g, f, from, to, s.choice.algorithm == Algorithm::Winograd)) return false;
    const std::int64_t c = from.shape[1], n = to.shape[1];
    // The gradient of the input is a convolution of the result's with windows turned around.
    const std::int64_t pad = forward ? g.pad[0] : 2 - g.pad[0];
    Winograd x(w, s, g, f, to.shape[2], to.shape[3], c, n);
    const std::int64_t windows = x.reserve(16 * c * n), tiles = x.reserve(16 * x.most_tiles() * c),
                       sums = x.reserve(16 * x.most_tiles() * n);
    x.transform_weights(weight, forward, windows);
    x.each([&](std::int64_t first, std::int64_t images) {
        x.transform_map("winograd_input", from, first, images, kBt, pad, tiles);
        x.product("winograd_product", x.tiles(images), n, c, tiles, true, windows, forward, sums,
                  false);
        x.finish_map(l, first, images, sums);
    });
    return true;
}

bool write_grad_weight_winograd(Work& w, Step& s, const plan::HeavyLaunch& l, const ConvGeometry& g,
                                const Features& f) {
    const plan::Operand &from = l.operands[0], &dy = l.operands[1];
    if (!suits(l, g, f, from, dy, s.choice.algorithm == Algorithm::Winograd)) return false;
    Winograd x(w, s, g, f, g.oh, g.ow, g.ci, g.co);
    const std::int64_t tiles = x.reserve(16 * x.most_tiles() * g.ci),
                       slopes = x.reserve(16 * x.most_tiles() * g.co),
                       sums = x.reserve(16 * g.ci * g.co);
    x.each([&](std::int64_t first, std::int64_t images) {
        x.transform_map("winograd_input", from, first, images, kBt, g.pad[0], tiles);
        x.transform_map("winograd_slopes", dy, first, images, transposed(kAt), 0, slopes);
        x.product("winograd_grad_product", g.co, g.ci, x.tiles(images), slopes, false, tiles, false,
                  sums, first > 0);
    });
    x.finish_weights(l.output, sums);
    return true;
}

}  // namespace pippin::gpu
