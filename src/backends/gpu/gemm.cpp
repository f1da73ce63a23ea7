#include "backends/gpu/gemm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "backends/gpu/expression.h"
#include "backends/gpu/gemm_matrix.h"
#include "pippin/error.h"

namespace pippin::gpu {

namespace {

constexpr std::array<char, 4> kPart{'x', 'y', 'z', 'w'};

// A group computes a tile of C: threads in a rectangle, each with quads of 4 rows and 4 columns.
// Tiles of A and B lie in shared memory as quads along m and n, twice: one is read while the next
// is filled.
struct Tile {
    int rows = 16, columns = 16;   // threads along m and n
    int m_quads = 1, n_quads = 1;  // of a thread
    int depth = 16;                // k of one step
    int slices = 1;                // parts of a step's k, each with threads of its own
    int threads() const { return rows * columns * slices; }
    int bm() const { return rows * 4 * m_quads; }
    int bn() const { return columns * 4 * n_quads; }
    // Quads of a row: one to spare, so that columns lie in different banks, but in slices, whose
    // rows are turned (quad_at).
    int stride(int extent) const { return extent / 4 + (slices == 1); }
    int shared_bytes() const { return 2 * 16 * depth * (stride(bm()) + stride(bn())); }
};

// Numbers of the tiles; the tuner knows all of them, the rule below those with names.
// Few threads with many sums each did best on an H200 (8192^3: 39.7 TFLOP/s, where squares of 16
// had 38); smaller files of registers want the middle one.
constexpr int kLarge = 0, kMedium = 1, kSoftware = 2;
// For few rows or columns (small images, few channels), the one that wastes least.
constexpr int kSmall[] = {3, 4, 5, 6, 7};
constexpr Tile kTiles[] = {
    {8, 8, 4, 2, 8},
    {8, 8, 2, 2, 16},
    {8, 8, 1, 1, 8},
    {8, 8, 1, 1, 32},
    {32, 2, 1, 1, 16},
    {16, 4, 1, 1, 16},
    {4, 16, 1, 1, 16},
    {4, 8, 1, 1, 32},
    {8, 8, 2, 4, 8},
    {16, 8, 2, 4, 8},
    {8, 8, 2, 1, 16},
    {8, 8, 1, 2, 16},
    {16, 16, 1, 1, 16},
    // Few tiles, and a sum that is not short: threads that share a tile's sum make up for them, and
    // steps are long, since each takes a load's latency.
    {4, 4, 1, 1, 128, 16},
    {4, 4, 1, 1, 64, 16},
    {8, 8, 1, 1, 64, 4},
    {16, 4, 1, 1, 64, 4},
    {4, 16, 1, 1, 64, 4},
    {8, 8, 1, 1, 32, 4},
    {16, 4, 1, 1, 32, 4},
    {4, 16, 1, 1, 32, 4}};
constexpr int kTiny[] = {13, 14};  // for hardly any work
constexpr std::int64_t kTinyWork = std::int64_t{8} << 20;
constexpr int kSliced[][2] = {{3, 15}, {3, 18}, {5, 16},
                              {5, 19}, {6, 17}, {6, 20}};  // of small ones
constexpr std::int64_t kShortSum = 32, kUnsplitSum = 640;

const Tile& tile_at(int number) { return kTiles[number]; }

// The sizes of a numbered tile, of either kind.
struct Extent {
    int bm, bn, depth;
    bool matrix;
};
Extent extent_of(int number) {
    if (number < kFirstMatrixTile) {
        const Tile& t = tile_at(number);
        return {t.bm(), t.bn(), t.depth, false};
    }
    const MatrixTile& t = matrix_tiles()[static_cast<std::size_t>(number - kFirstMatrixTile)];
    return {t.bm(), t.bn(), t.depth, true};
}

std::int64_t tiles_of(const Gemm& g, int number) {
    const Extent e = extent_of(number);
    return ceil_div(g.m, e.bm) * ceil_div(g.n, e.bn) * g.batches;
}

bool is_usable(int number, bool matrix, const Features& f);

// The largest tile that still gives the device enough groups and wastes little.
int choose(const Gemm& g, const Features& f) {
    const std::int64_t enough = f.parallel_groups / 2;
    const auto wasted = [&](int t) { return waste(g, tile_at(t).bm(), tile_at(t).bn()); };
    const auto fits = [&](int t) {
        // A long sum can be split to make up for few tiles.
        const std::int64_t splits = std::clamp<std::int64_t>(g.k / 512, 1, 64);
        return wasted(t) < 1.4 && tiles_of(g, t) * splits >= enough;
    };
    // Large ones only with a split sum: where it is short, smaller ones without are better.
    const bool splits =
        g.k <= 2048 && tiles_of(g, kLarge) < enough && tiles_of(g, kMedium) >= enough;
    if (f.large_tiles && fits(kLarge) && !splits) return kLarge;
    if (!f.small_tiles && fits(kMedium)) return kMedium;
    if (f.small_tiles) return kSoftware;
    // Most of its time is steps' latency.
    if (g.k > kShortSum && g.m * g.n * g.k * g.batches < kTinyWork)
        for (const int t : kTiny)
            if (is_usable(t, false, f) && (g.k > 64 || t == kTiny[1])) return t;
    const int small = *std::ranges::min_element(kSmall, {}, wasted);
    // Slices do without a second launch that sums up; where that is needed all the same, more and
    // smaller groups are faster.
    if (g.k > kShortSum && g.k <= kUnsplitSum && tiles_of(g, small) * 4 >= f.parallel_groups)
        for (const auto& [plain, t] : kSliced)
            if (plain == small && is_usable(t, false, f)) return t;
    return small;
}

// Whether there is such a tile, and the device can have it.
bool is_usable(int number, bool matrix, const Features& f) {
    if (matrix) {
        const auto k = static_cast<std::size_t>(number - kFirstMatrixTile);
        return number >= kFirstMatrixTile && k < matrix_tiles().size() &&
               matrix_tiles()[k].shared_bytes() <= f.shared_bytes;
    }
    if (number < 0 || number >= static_cast<int>(std::size(kTiles))) return false;
    const Tile& t = tile_at(number);
    const int sums = t.m_quads * t.n_quads;
    return t.shared_bytes() <= f.shared_bytes && (sums < 8 || f.large_tiles) &&
           (sums * t.slices == 1 || !f.small_tiles);
}

// Into how many parts the sum over k is cut, so that a few times as many groups are there as run at
// once (small tiles need few registers: more of them do). Parts are written and read once more, so
// they are not to be short. Found on an H200 with the networks' weight gradients and b = 1.
std::int64_t splits_for(const Gemm& g, const Features& f, int tile) {
    const auto [bm, bn, depth, matrix] = extent_of(tile);
    const std::int64_t tiles = tiles_of(g, tile);
    if (tiles >= f.parallel_groups || g.k < 256) return 1;
    // All of them run at once, two on each of a device's cores.
    if (!matrix && tile_at(tile).slices > 1)
        return std::clamp<std::int64_t>(std::min(f.parallel_groups / 2 / tiles, g.k / 256), 1, 512);
    const int area = bm * bn;
    if (!matrix && area == 64 * 64 && tiles * 2 >= f.parallel_groups && g.k <= 2048) return 1;
    const std::int64_t wanted = f.parallel_groups * (matrix ? 1 : area >= 64 * 64 ? 2 : 4);
    const std::int64_t shortest = matrix             ? 256
                                  : area >= 128 * 64 ? 512
                                  : area >= 64 * 64  ? 256
                                                     : 128;
    return std::clamp<std::int64_t>(std::min(ceil_div(wanted, tiles), g.k / shortest), 1, 512);
}

// The form by our rules, but for what a wish has to say that can be done.
ProductForm form_of(const Gemm& g, const ProductForm& wish, const Features& f) {
    const bool matrix = on_matrix_units(g, f);
    ProductForm form = wish;
    if (!is_usable(form.tile, matrix, f))
        form = {matrix ? choose_matrix_tile(g, f) : choose(g, f), 0};
    if (form.splits < 1) form.splits = splits_for(g, f, form.tile);
    return form;
}

class GemmWriter {
  public:
    GemmWriter(Work& w, Step& s, const Gemm& g, const Features& f) : w_(w), s_(s), g_(g), f_(f) {}

    void run() {
        const ProductShape shape{g_.batches, g_.m, g_.n, g_.k};
        const ProductForm form = form_of(g_, s_.choice.form_of(shape), f_);
        s_.taken.add(shape, form, on_matrix_units(g_, f_));
        const auto [bm, bn, depth, matrix] = extent_of(form.tile);
        if (!matrix) t_ = tile_at(form.tile);
        splits_ = form.splits;
        const std::int64_t steps = std::max<std::int64_t>(ceil_div(g_.k, depth), 1);
        splits_ = std::max(splits_, ceil_div(steps * (depth + 2), f_.max_loop));
        length_ = ceil_div(steps, splits_) * depth;
        splits_ = std::max<std::int64_t>(ceil_div(g_.k, length_), 1);
        if (splits_ > 1)
            w_.scratch_bytes = std::max(w_.scratch_bytes,
                                        g_.scratch_from + splits_ * g_.batches * g_.m * g_.n * 4);
        dispatch(
            matrix ? matrix_product(
                         g_, matrix_tiles()[static_cast<std::size_t>(form.tile - kFirstMatrixTile)],
                         splits_, length_)
                   : product(),
            tiles_of(g_, form.tile) * splits_);
        if (splits_ > 1) sum_up();
    }

  private:
    int a_stride() const { return t_.stride(t_.bm()); }
    int b_stride() const { return t_.stride(t_.bn()); }

    struct Side {
        char name;
        bool along_k, quads;
        std::int64_t extent;
        int tile, stride;
        const char* first;
    };
    Side side_of(bool a) const {
        if (a) return {'a', g_.a_along_k, g_.a_quads, g_.m, t_.bm(), a_stride(), "m_first"};
        return {'b', g_.b_along_k, g_.b_quads, g_.n, t_.bn(), b_stride(), "n_first"};
    }
    // A thread's quads: along m or n at one k, but along k where memory has them so.
    struct Place {
        std::string k, q;  // first k of it, first m or n of it, in the tile
    };
    Place place(const Side& s, int pass) const {
        const std::string i = fmt::format("(int(LANE) + {})", pass * t_.threads());
        const int quads = s.tile / 4;
        // The same expression in all passes where it is the same number: computed once.
        const auto rest = [&](int of) {
            return pass * t_.threads() % of == 0 ? fmt::format("int(LANE) % {}", of)
                                                 : fmt::format("{} % {}", i, of);
        };
        if (s.along_k && s.quads)
            return {rest(t_.depth / 4) + " * 4", fmt::format("{} / {}", i, t_.depth / 4)};
        if (s.along_k) return {rest(t_.depth), fmt::format("{} / {} * 4", i, t_.depth)};
        return {fmt::format("{} / {}", i, quads), rest(quads) + " * 4"};
    }

    // Where quad q4 of row k is. In slices, whose steps are long, rows are turned: threads that put
    // down quads along k would meet in one bank.
    std::string quad_at(const Side& s, const std::string& k, const std::string& q4) const {
        const std::string row =
            fmt::format("side * {} + ({}) * {}", s.stride * t_.depth, k, s.stride);
        if (t_.slices == 1) return fmt::format("{} + {}", row, q4);
        return fmt::format("{} + (({}) ^ ((({}) / 4) & {}))", row, q4, k, turn_mask(s));
    }
    static int turn_mask(const Side& s) { return std::min(8, s.tile / 4) - 1; }

    // Statements that fetch this thread's quads of the tiles from k0 on into registers.
    std::string fetch(bool a) const {
        const Side s = side_of(a);
        const int all = s.tile / 4 * t_.depth;
        std::string out;
        for (int pass = 0; pass * t_.threads() < all; ++pass) {
            const Place at = place(s, pass);
            const bool part = (pass + 1) * t_.threads() > all;
            out += fmt::format("{{\nint k = k0 + {};\nint q = {} + {};\n", at.k, s.first, at.q);
            const auto test = [&](int c) {
                std::string t = ends_with_steps(g_, t_.depth) ? "" : "k < k_end";
                if (s.extent % s.tile != 0)
                    t += fmt::format("{}q + {} < {}", t.empty() ? "" : " && ", c, s.extent);
                return t.empty() ? "true" : t;
            };
            const auto call = [&](const char* suffix, int c) {
                const std::string q = c ? fmt::format("q + {}", c) : "q";
                return a ? fmt::format("load_a{}(pa, b, {}, k, {})", suffix, q, test(c))
                         : fmt::format("load_b{}(pb, b, k, {}, {})", suffix, q, test(c));
            };
            if (part) out += fmt::format("if (int(LANE) + {} < {}) {{\n", pass * t_.threads(), all);
            if (s.quads) {
                // Extents are whole quads, so that one test is enough.
                out += fmt::format("{}{}_next = {};\n", s.name, pass, call("4", 0));
            } else {
                out += fmt::format("{}{}_next = MAKE_F4({}, {}, {}, {});\n", s.name, pass,
                                   call("", 0), call("", 1), call("", 2), call("", 3));
            }
            out += part ? "}\n}\n" : "}\n";
        }
        return out;
    }
    std::string put(bool a) const {
        const Side s = side_of(a);
        const int all = s.tile / 4 * t_.depth;
        std::string out;
        for (int pass = 0; pass * t_.threads() < all; ++pass) {
            const Place at = place(s, pass);
            out += (pass + 1) * t_.threads() > all
                       ? fmt::format("if (int(LANE) + {} < {}) {{\n", pass * t_.threads(), all)
                       : "{\n";
            if (s.along_k && s.quads) {
                out += fmt::format("int k = {};\nint q = {};\n", at.k, at.q);
                out += fmt::format("int first = {};\n", quad_at(s, "k", "q / 4"));
                for (int c = 0; c < 4; ++c)
                    out +=
                        fmt::format("SET_PART(tile_{0}[first + {1}], q % 4, {0}{2}_next.{3});\n",
                                    s.name, c * s.stride, pass, kPart[static_cast<std::size_t>(c)]);
            } else {
                out += fmt::format("tile_{0}[{1}] = {0}{2}_next;\n", s.name,
                                   quad_at(s, at.k, fmt::format("({}) / 4", at.q)), pass);
            }
            out += "}\n";
        }
        return out;
    }
    std::string registers(bool a) const {
        const int all = (a ? t_.bm() : t_.bn()) / 4 * t_.depth;
        std::string out;
        for (int pass = 0; pass * t_.threads() < all; ++pass)
            out += fmt::format("F4 {}{}_next = MAKE_F4(0.0f, 0.0f, 0.0f, 0.0f);\n", a ? 'a' : 'b',
                               pass);
        return out;
    }

    static std::string sum(int i, int j) { return fmt::format("c{}_{}", i, j); }

    KernelSource product() {
        KernelSource k;
        k.name = g_.name;
        k.threads = t_.threads();
        // Sums of slices go through the same memory, half of the rows each.
        const int sums = t_.slices > 1 ? 2 * t_.threads() : 0;
        k.shared = {{"F4", "tile_a", std::max(2 * t_.depth * a_stride(), sums)},
                    {"F4", "tile_b", std::max(2 * t_.depth * b_stride(), sums)}};
        k.functions = g_.functions;
        std::string& o = k.body;
        o += locate_tile(g_, t_.bm(), t_.bn(), splits_, length_);
        o += fmt::format("int tx = int(LANE) % {0};\nint ty = int(LANE) / {0} % {1};\n", t_.columns,
                         t_.rows);
        if (t_.slices > 1) o += fmt::format("int slice = int(LANE) / {};\n", t_.rows * t_.columns);
        const int rows = 4 * t_.m_quads, columns = 4 * t_.n_quads;
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j)
                o += fmt::format("float {} = 0.0f;\n", sum(i, j));
        o += registers(true) + registers(false);
        o += "int side = 0;\nint k0 = k_begin;\n" + fetch(true) + fetch(false) + put(true) +
             put(false) + "BARRIER();\n";
        o += fmt::format("ROLL for (int k1 = k_begin; k1 < k_end; k1 += {}) {{\n", t_.depth);
        // The next tile is on its way while this one is worked on.
        o += fmt::format("k0 = k1 + {};\nif (k0 < k_end) {{\n", t_.depth) + fetch(true) +
             fetch(false) + "}\n";
        if (t_.slices > 1) {
            // Four at a time: with more, compilers take registers for all of them.
            const int turns = t_.depth / t_.slices / 4;
            o += fmt::format(
                "ROLL for (int i = 0; i < {0}; i++) {{\nint turn = slice * {0} + i;\n"
                "int row_a = side * {1} + turn * {2} + (ty ^ (turn & {3}));\n"
                "int row_b = side * {4} + turn * {5} + (tx ^ (turn & {6}));\n",
                turns, a_stride() * t_.depth, 4 * a_stride(), turn_mask(side_of(true)),
                b_stride() * t_.depth, 4 * b_stride(), turn_mask(side_of(false)));
            o += fmt::format(
                "UNROLL for (int kk = 0; kk < 4; kk++) {{\n"
                "F4 a0 = tile_a[row_a + kk * {}];\nF4 b0 = tile_b[row_b + kk * {}];\n",
                a_stride(), b_stride());
        } else {
            o += fmt::format("{} for (int kk = 0; kk < {}; kk++) {{\n",
                             f_.small_tiles ? "ROLL" : "UNROLL", t_.depth);
            for (int q = 0; q < t_.m_quads; ++q)
                o += fmt::format("F4 a{} = tile_a[{}];\n", q,
                                 quad_at(side_of(true), "kk", fmt::format("ty + {}", q * t_.rows)));
            for (int q = 0; q < t_.n_quads; ++q)
                o += fmt::format(
                    "F4 b{} = tile_b[{}];\n", q,
                    quad_at(side_of(false), "kk", fmt::format("tx + {}", q * t_.columns)));
        }
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j)
                o += fmt::format("{0} = FMA(a{1}.{2}, b{3}.{4}, {0});\n", sum(i, j), i / 4,
                                 kPart[static_cast<std::size_t>(i % 4)], j / 4,
                                 kPart[static_cast<std::size_t>(j % 4)]);
        if (t_.slices > 1) o += "}\n";
        o += "}\nside = 1 - side;\nif (k0 < k_end) {\n" + put(true) + put(false) +
             "}\nBARRIER();\n}\n";
        if (splits_ == 1) {
            // Once, before any store: the device cannot know that stores leave the bias alone.
            o += "PTR bias = ADDRESS(4);\nPTR residual = ADDRESS(5);\n";
            for (int j = 0; j < columns; ++j) {
                const std::string n =
                    fmt::format("n_first + {} + 4 * tx + {}", j / 4 * t_.columns * 4, j % 4);
                o += fmt::format("float bias{} = 0.0f;\n", j);
                if (g_.n % t_.bn() != 0) o += fmt::format("if ({} < {}) ", n, g_.n);
                o += fmt::format("bias{} = bias_at(bias, b, {});\n", j, n);
            }
        }
        if (t_.slices > 1) {
            o += sum_slices() + store_row(0, columns, "m_first + 4 * ty + slice") + "}\n";
        } else {
            for (int i = 0; i < rows; ++i)
                o += store_row(
                    i, columns,
                    fmt::format("m_first + {} + 4 * ty + {}", i / 4 * t_.rows * 4, i % 4));
        }
        return k;
    }

    // Each of four slices ends up with a row of all slices' sums, added in order. Opens a block.
    std::string sum_slices() const {
        std::string o;
        for (int i = 0; i < 4; ++i)
            o += fmt::format("tile_{}[{} + int(LANE)] = MAKE_F4({}, {}, {}, {});\n",
                             i < 2 ? 'a' : 'b', i % 2 * t_.threads(), sum(i, 0), sum(i, 1),
                             sum(i, 2), sum(i, 3));
        o += "BARRIER();\nif (slice < 4) {\n";
        for (int j = 0; j < 4; ++j)
            o += fmt::format("{} = 0.0f;\n", sum(0, j));
        o += fmt::format(
            "UNROLL for (int s = 0; s < {}; s++) {{\n"
            "int at = (slice & 1) * {} + s * {} + int(LANE) % {};\nF4 x = tile_a[at];\n"
            "if (slice > 1) x = tile_b[at];\n",
            t_.slices, t_.threads(), t_.rows * t_.columns, t_.rows * t_.columns);
        for (int j = 0; j < 4; ++j)
            o += fmt::format("{0} = {0} + x.{1};\n", sum(0, j), kPart[static_cast<std::size_t>(j)]);
        return o + "}\n";
    }

    // Sums sum(i, 0), ..., of row m of C, where they belong.
    std::string store_row(int i, int columns, const std::string& m) const {
        std::string o = fmt::format("{{\nint m = {};\n", m);
        if (g_.m % t_.bm() != 0) o += fmt::format("if (m < {}) {{\n", g_.m);
        for (int j = 0; j < columns; j += splits_ == 1 && g_.c_quads ? 4 : 1) {
            o += fmt::format("{{\nint n = n_first + {} + 4 * tx + {};\n", j / 4 * t_.columns * 4,
                             j % 4);
            if (g_.n % t_.bn() != 0) o += fmt::format("if (n < {}) ", g_.n);
            if (splits_ > 1)
                o += fmt::format("ST_F32(pc, ((part * {0} + b) * {1} + m) * {2} + n, {3});\n",
                                 g_.batches, g_.m, g_.n, sum(i, j));
            else if (g_.c_quads)
                o += fmt::format(
                    "store_c4(pc, MAKE_F4(bias{}, bias{}, bias{}, bias{}), residual, b, m, n, "
                    "MAKE_F4({}, {}, {}, {}));\n",
                    j, j + 1, j + 2, j + 3, sum(i, j), sum(i, j + 1), sum(i, j + 2), sum(i, j + 3));
            else
                o += fmt::format("store_c(pc, bias{}, residual, b, m, n, {});\n", j, sum(i, j));
            o += "}\n";
        }
        return o + (g_.m % t_.bm() != 0 ? "}\n}\n" : "}\n");
    }

    void dispatch(KernelSource k, std::int64_t groups) {
        Dispatch d;
        d.groups = groups;
        d.args = {value_arg(groups), g_.a, g_.b, splits_ > 1 ? scratch_arg(g_.scratch_from) : g_.c};
        if (splits_ == 1) d.args.insert(d.args.end(), {g_.bias, g_.residual});
        d.kernel = w_.add(std::move(k));
        s_.dispatches.push_back(std::move(d));
    }

    // Adds the parts of split sums, in order; several threads for an element where there are many
    // parts of few elements.
    void sum_up() {
        KernelSource k;
        k.name = g_.name + "_sum";
        k.functions = g_.functions;
        const std::int64_t all = g_.batches * g_.m * g_.n;
        if (splits_ * all >= (std::int64_t{1} << 31))
            throw Error("it is too large for 32-bit indices");
        int team = 1;
        while (team < 32 && team * 8 < splits_ && all * team < 64 * f_.parallel_groups)
            team *= 2;
        const int elements = k.threads / team;
        k.body = fmt::format(
            "PTR parts = ADDRESS(1);\n"
            "int i = int(GROUP) * {0} + int(LANE) % {0};\nint first = int(LANE) / {0};\n"
            "float x = 0.0f;\n"
            "if (i < {1}) {{\n"
            "ROLL for (int p = first; p < {2}; p += {3}) x = x + LD_F32(parts, p * {1} + i);\n}}\n",
            elements, all, splits_, team);
        if (team > 1) {
            k.shared = {{"float", "sums", k.threads}};
            k.body += "sums[int(LANE)] = x;\nBARRIER();\n";
            k.body += fmt::format(
                "if (first == 0) {{\nUNROLL for (int t = 1; t < {}; t++) x = x + sums[int(LANE) + "
                "t "
                "* {}];\n}}\n",
                team, elements);
        }
        k.body += fmt::format(
            "if (first == 0 && i < {0}) {{\n"
            "int n = i % {1};\nint m = i / {1} % {2};\nint b = i / {3};\n"
            "store_c(ADDRESS(2), bias_at(ADDRESS(3), b, n), ADDRESS(4), b, m, n, x);\n}}\n",
            all, g_.n, g_.m, g_.m * g_.n);
        Dispatch d;
        d.groups = ceil_div(all, elements);
        d.args = {value_arg(d.groups), scratch_arg(g_.scratch_from), g_.c, g_.bias, g_.residual};
        d.kernel = w_.add(std::move(k));
        s_.dispatches.push_back(std::move(d));
    }

    Work& w_;
    Step& s_;
    const Gemm& g_;
    const Features& f_;
    Tile t_;
    std::int64_t splits_ = 1, length_ = 0;
};

}  // namespace

double waste(const Gemm& g, int bm, int bn) {
    return static_cast<double>(ceil_div(g.m, bm) * bm * ceil_div(g.n, bn) * bn) /
           static_cast<double>(std::max<std::int64_t>(g.m * g.n, 1));
}

std::string locate_tile(const Gemm& g, int bm, int bn, std::int64_t splits, std::int64_t length) {
    std::string o = fmt::format(
        "PTR pa = ADDRESS(1);\nPTR pb = ADDRESS(2);\nPTR pc = ADDRESS(3);\n"
        "int group = int(GROUP);\n"
        "int n_first = group % {0} * {1};\ngroup = group / {0};\n"
        "int m_first = group % {2} * {3};\ngroup = group / {2};\n",
        ceil_div(g.n, bn), bn, ceil_div(g.m, bm), bm);
    if (splits > 1)
        o += fmt::format(
            "int part = group % {0};\nint b = group / {0};\nint k_begin = part * {1};\n"
            "int k_end = k_begin + {1};\nif (k_end > {2}) k_end = {2};\n",
            splits, length, g.k);
    else
        o += fmt::format("int b = group;\nint k_begin = 0;\nint k_end = {};\n", g.k);
    if (!g.k_end.empty())
        o += fmt::format("{{\n{}int end = {};\nif (k_end > end) k_end = end;\n}}\n", g.k_end_needs,
                         g.k_end);
    return o;
}

bool ends_with_steps(const Gemm& g, int depth) {
    return g.k > 0 && g.k % depth == 0 && g.k_end.empty();
}

std::vector<ProductForm> other_forms(const ProductShape& shape, bool matrices,
                                     const ProductForm& first, const Features& f) {
    constexpr std::size_t kMostTiles = 3;
    constexpr double kHopeless = 3;
    Gemm g;
    g.batches = shape.batches, g.m = shape.m, g.n = shape.n, g.k = shape.k;
    // How unlikely a tile is: much larger or smaller than the rule's, more of it outside of C, or
    // so narrow that much is read for each product.
    const auto doubt = [&](int tile) {
        const Extent e = extent_of(tile), own = extent_of(first.tile);
        const double area = std::log2(double(e.bm) * e.bn) - std::log2(double(own.bm) * own.bn);
        const double narrow = std::log2(double(e.bm + e.bn) / 2 / std::sqrt(double(e.bm) * e.bn));
        return std::abs(area) + 4 * std::log2(waste(g, e.bm, e.bn)) + 6 * narrow;
    };
    const int begin = matrices ? kFirstMatrixTile : 0;
    const int count = static_cast<int>(matrices ? matrix_tiles().size() : std::size(kTiles));
    std::vector<std::pair<double, int>> tiles;
    for (int t = begin; t < begin + count; ++t)
        if (t != first.tile && is_usable(t, matrices, f)) tiles.emplace_back(doubt(t), t);
    std::ranges::sort(tiles);
    std::erase_if(tiles, [&](const auto& t) { return t.first > doubt(first.tile) + kHopeless; });
    if (tiles.size() > kMostTiles) tiles.resize(kMostTiles);
    std::vector<ProductForm> forms;
    for (const auto& [doubts, t] : tiles)
        forms.push_back({t, splits_for(g, f, t)});
    // Parts shorter than a few steps do nothing but cost memory.
    const auto add = [&](std::int64_t splits) {
        if (splits <= 1024 && g.k / splits >= 64 && splits != first.splits)
            forms.push_back({first.tile, splits});
    };
    add(first.splits * 2);
    if (first.splits > 1) add(first.splits / 2);
    return forms;
}

void write_gemm(Work& w, Step& s, const Gemm& g, const Features& f) {
    constexpr std::int64_t limit = (std::int64_t{1} << 31) - 4096;
    if (g.batches * g.m * g.n == 0) return;
    if (g.m >= limit || g.n >= limit || g.k >= limit || g.batches >= limit)
        throw Error("it is too large for 32-bit indices");
    GemmWriter(w, s, g, f).run();
}

std::vector<Width> widths(bool quads, bool halves, bool octets) {
    std::vector<Width> all{Width::One};
    if (quads) all.push_back(Width::Quad);
    if (halves) all.push_back(octets ? Width::Octet : Width::Half);
    return all;
}

namespace {
std::string head(char which, const char* coordinates, Width w) {
    const char* type = w == Width::One    ? "float"
                       : w == Width::Quad ? "F4"
                       : w == Width::Half ? "uint"
                                          : "U4";
    const char* suffix = w == Width::One    ? ""
                         : w == Width::Quad ? "4"
                         : w == Width::Half ? "1"
                                            : "8";
    return fmt::format("{} load_{}{}(PTR p, int b, {}, bool ok) {{\n", type, which, suffix,
                       coordinates);
}
}  // namespace
std::string load_a_head(Width w) { return head('a', "int m, int k", w); }
std::string load_b_head(Width w) { return head('b', "int k, int n", w); }

std::string load_if_ok(DType dtype, const std::string& index, Width w) {
    const char* zero = w == Width::One    ? "float x = 0.0f"
                       : w == Width::Quad ? "F4 x = MAKE_F4(0.0f, 0.0f, 0.0f, 0.0f)"
                       : w == Width::Half ? "uint x = 0u"
                                          : "U4 x = MAKE_U4(0u, 0u, 0u, 0u)";
    const std::string value = w == Width::One    ? load(dtype, "p", "at")
                              : w == Width::Quad ? "LD_F4(p, at / 4)"
                              : w == Width::Half ? "LD_U16(p, at)"
                                                 : "LD_U4(p, at / 8)";
    return fmt::format("int at = {};\n{};\nif (ok) x = {};\nreturn x;\n", index, zero, value);
}

std::string strided_index(const plan::Operand& o, const std::vector<std::string>& c) {
    std::string out;
    for (int d = 0; d < o.shape.rank(); ++d) {
        const auto k = static_cast<std::size_t>(d);
        if (o.shape[d] == 1 || o.strides[k] == 0) continue;
        out += out.empty() ? "" : " + ";
        out += o.strides[k] == 1 ? "(" + c[k] + ")" : fmt::format("({}) * {}", c[k], o.strides[k]);
    }
    return out.empty() ? "0" : out;
}

Arg operand_arg(const plan::Operand& o) {
    return slot_arg(o.slot, o.offset * static_cast<std::int64_t>(size_of(o.dtype)));
}

void check_operand(const plan::Operand& o) {
    if (o.dtype != DType::Float32 && !is_half(o.dtype))
        throw Error(fmt::format("there is no gpu kernel for {}", name_of(o.dtype)));
    std::int64_t reach = 0;
    for (int d = 0; d < o.shape.rank(); ++d)
        reach += std::max<std::int64_t>(o.shape[d] - 1, 0) *
                 std::abs(o.strides[static_cast<std::size_t>(d)]);
    if (reach >= (std::int64_t{1} << 31) - 4096) throw Error("it is too large for 32-bit indices");
}

namespace {

// `count` elements along a dim that start at an address divisible by 16 wherever a step leads.
bool side_by_side(const plan::Operand& o, int along, std::int64_t count) {
    if (o.offset % count != 0 || o.shape[along] % count != 0) return false;
    for (int d = 0; d < o.shape.rank(); ++d) {
        const std::int64_t s = o.strides[static_cast<std::size_t>(d)];
        if (d == along ? s != 1 : o.shape[d] != 1 && s % count != 0) return false;
    }
    return true;
}

// Statements that add bias and residual (at an index) to x, then activate it.
std::string finish(const plan::HeavyLaunch& l, const std::string& x, const std::string& bias,
                   const std::string& residual_index) {
    std::string out;
    const plan::Epilogue& e = l.epilogue;
    if (e.bias >= 0) out += fmt::format("{0} = {0} + {1};\n", x, bias);
    if (e.residual >= 0) {
        const plan::Operand& o = l.operands[static_cast<std::size_t>(e.residual)];
        out += fmt::format("{0} = {0} + {1};\n", x, load(o.dtype, "residual", residual_index));
    }
    switch (e.activation) {
        case plan::Activation::None:
            break;
        case plan::Activation::Relu:
            out += fmt::format("{0} = m_relu({0});\n", x);
            break;
        case plan::Activation::Tanh:
            out += fmt::format("{0} = m_tanh({0});\n", x);
            break;
        case plan::Activation::Gelu:
            out += fmt::format("{0} = {0} * 0.5f * (1.0f + m_erf({0} * 0.707106781f));\n", x);
            break;
    }
    return out;
}

}  // namespace

bool has_quads(const plan::Operand& o, int along) {
    return o.dtype == DType::Float32 && side_by_side(o, along, 4);
}
bool has_raw_quads(const plan::Operand& o, int along) {
    return (o.dtype == DType::Float32 || is_half(o.dtype)) && side_by_side(o, along, 4);
}
RawQuad raw_quad(DType dtype) {
    if (dtype == DType::Float32) return {"F4", "MAKE_F4(0.0f, 0.0f, 0.0f, 0.0f)", "LD_F4", ""};
    return {"I64", "I64(0)", "LD_I64", dtype == DType::Float16 ? "quad_f16" : "quad_bf16"};
}
std::string RawQuad::declare(const std::string& name) const {
    return fmt::format("{} {} = {};\n", type, name, zero);
}
std::string RawQuad::value(const std::string& name) const {
    return *unpack ? fmt::format("{}({})", unpack, name) : name;
}
bool has_octets(const plan::Operand& o, int along) {
    return o.dtype == DType::Float16 && side_by_side(o, along, 8);
}

const char* const kNoBias = "float bias_at(PTR bias, int b, int n) { return 0.0f; }\n";

std::string bias_value(const plan::HeavyLaunch& l, const std::string& channel) {
    if (l.epilogue.bias < 0) return "0.0f";
    const plan::Operand& o = l.operands[static_cast<std::size_t>(l.epilogue.bias)];
    std::int64_t step = 0;
    for (int d = 0; d < o.shape.rank(); ++d)
        if (o.shape[d] != 1) step = o.strides[static_cast<std::size_t>(d)];
    return load(o.dtype, "bias", fmt::format("({}) * {}", channel, step));
}
std::string bias_function(const plan::HeavyLaunch& l, const std::string& channel) {
    if (l.epilogue.bias < 0) return kNoBias;
    return fmt::format("float bias_at(PTR bias, int b, int n) {{ return {}; }}\n",
                       bias_value(l, channel));
}

std::string epilogue4(const plan::HeavyLaunch& l, const std::string& index) {
    std::string out = "float x0 = x.x;\nfloat x1 = x.y;\nfloat x2 = x.z;\nfloat x3 = x.w;\n";
    for (int c = 0; c < 4; ++c)
        out += finish(l, fmt::format("x{}", c),
                      fmt::format("bias.{}", kPart[static_cast<std::size_t>(c)]), "");
    return out + fmt::format("ST_F4(c, ({}) / 4, MAKE_F4(x0, x1, x2, x3));\n", index);
}

std::string epilogue8(const plan::HeavyLaunch& l, const std::string& residual_index,
                      const std::string& index) {
    std::string out;
    const auto part = [](int c) {
        return fmt::format("{}.{}", c < 4 ? 'x' : 'y', kPart[static_cast<std::size_t>(c % 4)]);
    };
    for (int c = 0; c < 8; ++c)
        out += fmt::format("float x{} = {};\n", c, part(c));
    for (int c = 0; c < 8; ++c)
        out += finish(l, fmt::format("x{}", c), "bias_" + part(c),
                      fmt::format("{} + {}", residual_index, c));
    return out + fmt::format(
                     "ST_U4(c, ({}) / 8, MAKE_U4(pack_f16(x0, x1), pack_f16(x2, x3), "
                     "pack_f16(x4, x5), pack_f16(x6, x7)));\n",
                     index);
}

std::string epilogue(const plan::HeavyLaunch& l, const std::string& bias,
                     const std::string& residual_index, const std::string& index) {
    return finish(l, "x", bias, residual_index) + store(l.output.dtype, "c", index, "x") + ";\n";
}

}  // namespace pippin::gpu
