#include "backends/gpu/gemm_matrix.h"

#include <algorithm>

#include <fmt/format.h>

namespace pippin::gpu {

namespace {

// Tiles lie in shared memory as memory has them: rows along k, or along m (n), so that nothing is
// transposed on the way. A row has one octet to spare, which keeps its banks apart.
struct Operand {
    char name;
    bool along_k, octets;
    std::int64_t extent;  // of m or n
    int tile, depth;
    const char* first;

    int rows() const { return along_k ? tile : depth; }
    int row_octets() const { return (along_k ? depth : tile) / 8; }
    int stride() const { return row_octets() + 1; }
    int size() const { return rows() * stride(); }
    int passes(int threads) const { return rows() * row_octets() / threads; }
};

class Writer {
  public:
    Writer(const Gemm& g, const MatrixTile& t, std::int64_t splits, std::int64_t length)
        : g_(g),
          t_(t),
          splits_(splits),
          length_(length),
          a_{'a', g.a_along_k, g.a_octets, g.m, t.bm(), t.depth, "m_first"},
          b_{'b', g.b_along_k, g.b_octets, g.n, t.bn(), t.depth, "n_first"} {}

    KernelSource kernel() const {
        KernelSource k;
        k.name = g_.name + "_f16";
        k.threads = t_.threads();
        // The results pass through the same memory, a strip of 16 rows of each subgroup at a time.
        const int both = a_.size() + b_.size();
        k.shared = {{"U4", "tiles", std::max(2 * both, t_.warps_m * t_.warps_n * strip())}};
        k.functions = g_.functions;
        std::string& o = k.body;
        o += locate_tile(g_, t_.bm(), t_.bn(), splits_, length_);
        o += fmt::format("int wm = int(WARP) / {0} * {1};\nint wn = int(WARP) % {0} * {2};\n",
                         t_.warps_n, t_.wm, t_.wn);
        for (int i = 0; i < t_.wm / 16; ++i)
            for (int j = 0; j < t_.wn / 16; ++j)
                o += fmt::format("MAT_C c{0}_{1};\nMAT_ZERO(c{0}_{1});\n", i, j);
        for (const Operand& s : {a_, b_})
            for (int p = 0; p < s.passes(t_.threads()); ++p)
                o += fmt::format("U4 {}{}_next = MAKE_U4(0u, 0u, 0u, 0u);\n", s.name, p);
        o += "int side = 0;\nint k0 = k_begin;\n" + fetch(a_) + fetch(b_) + put(a_) + put(b_) +
             "BARRIER();\n";
        o += fmt::format("ROLL for (int k1 = k_begin; k1 < k_end; k1 += {0}) {{\nk0 = k1 + {0};\n",
                         t_.depth);
        // The next tile is on its way while this one is worked on.
        o += "if (k0 < k_end) {\n" + fetch(a_) + fetch(b_) + "}\n" + multiply();
        o += "side = 1 - side;\nif (k0 < k_end) {\n" + put(a_) + put(b_) + "}\nBARRIER();\n}\n";
        return finish(std::move(k));
    }

  private:
    int strip_stride() const { return t_.wn / 4 + 1; }
    int strip() const { return 16 * strip_stride(); }
    int base(const Operand& s) const { return s.name == 'a' ? 0 : 2 * a_.size(); }

    // Where an octet of a pass is: its row, and its first element in the row.
    std::string row(const Operand& s, int p) const {
        return fmt::format("(int(LANE) + {}) / {}", p * t_.threads(), s.row_octets());
    }
    std::string column(const Operand& s, int p) const {
        // The same expression in all passes where it is the same number: computed once.
        if (p * t_.threads() % s.row_octets() == 0)
            return fmt::format("int(LANE) % {} * 8", s.row_octets());
        return fmt::format("(int(LANE) + {}) % {} * 8", p * t_.threads(), s.row_octets());
    }

    // Statements that fetch this thread's octets of the tiles from k0 on into registers.
    std::string fetch(const Operand& s) const {
        std::string out;
        for (int p = 0; p < s.passes(t_.threads()); ++p) {
            out += fmt::format("{{\nint k = k0 + {};\nint q = {} + {};\n",
                               s.along_k ? column(s, p) : row(s, p), s.first,
                               s.along_k ? row(s, p) : column(s, p));
            const auto element = [&](int c) { return c ? fmt::format(" + {}", c) : ""; };
            const auto test = [&](int c) {
                std::string t;
                if (!ends_with_steps(g_, t_.depth))
                    t = fmt::format("k{} < k_end", s.along_k ? element(c) : "");
                if (s.extent % s.tile != 0)
                    t += fmt::format("{}q{} < {}", t.empty() ? "" : " && ",
                                     s.along_k ? "" : element(c), s.extent);
                return t.empty() ? "true" : t;
            };
            const auto call = [&](const char* suffix, int c) {
                const std::string k = "k" + (s.along_k ? element(c) : ""),
                                  q = "q" + (s.along_k ? "" : element(c));
                return s.name == 'a'
                           ? fmt::format("load_a{}(pa, b, {}, {}, {})", suffix, q, k, test(c))
                           : fmt::format("load_b{}(pb, b, {}, {}, {})", suffix, k, q, test(c));
            };
            // Extents are whole octets, so that one test is enough for all eight.
            if (s.octets)
                out += fmt::format("{}{}_next = {};\n}}\n", s.name, p, call("8", 0));
            else
                out += fmt::format(
                    "{}{}_next = MAKE_U4({} | ({} << 16), {} | ({} << 16), {} | ({} << 16), "
                    "{} | ({} << 16));\n}}\n",
                    s.name, p, call("1", 0), call("1", 1), call("1", 2), call("1", 3), call("1", 4),
                    call("1", 5), call("1", 6), call("1", 7));
        }
        return out;
    }
    std::string put(const Operand& s) const {
        std::string out;
        for (int p = 0; p < s.passes(t_.threads()); ++p)
            out += fmt::format("tiles[{} + side * {} + {} * {} + {} / 8] = {}{}_next;\n", base(s),
                               s.size(), row(s, p), s.stride(), column(s, p), s.name, p);
        return out;
    }
    // Loads part `i` of 16 of a subgroup's rows (columns) at depth kk.
    std::string load(const Operand& s, int i, int kk) const {
        const std::string from = fmt::format("({} + {})", s.name == 'a' ? "wm" : "wn", 16 * i);
        const std::string at = s.along_k ? fmt::format("{} * {} + {}", from, s.stride(), kk * 2)
                                         : fmt::format("{} + {} / 8", kk * 16 * s.stride(), from);
        // A is m x k, B is k x n: each is by columns where the other would be by rows.
        const bool columns = s.name == 'a' ? !s.along_k : s.along_k;
        return fmt::format("MAT_LOAD({}{}, tiles, {} + side * {} + {}, {}, {});\n", s.name, i,
                           base(s), s.size(), at, s.stride(), columns);
    }
    std::string multiply() const {
        std::string out;
        for (int kk = 0; kk < t_.depth / 16; ++kk) {
            out += "{\n";
            for (int j = 0; j < t_.wn / 16; ++j)
                out += fmt::format("MAT_H b{};\n", j) + load(b_, j, kk);
            for (int i = 0; i < t_.wm / 16; ++i) {
                out += fmt::format("MAT_H a{};\n", i) + load(a_, i, kk);
                for (int j = 0; j < t_.wn / 16; ++j)
                    out += fmt::format("MAT_MUL(a{0}, b{1}, c{0}_{1});\n", i, j);
            }
            out += "}\n";
        }
        return out;
    }

    // Eight results of a row: x and y, at m and n.
    std::string store() const {
        if (splits_ > 1) {
            const std::string to =
                fmt::format("((part * {0} + b) * {1} + m) * {2} + n", g_.batches, g_.m, g_.n);
            if (g_.n % 8 == 0)
                return fmt::format("ST_F4(pc, ({0}) / 4, x);\nST_F4(pc, ({0}) / 4 + 1, y);\n", to);
            return each(fmt::format("ST_F32(pc, {} + {{0}}, {{1}});\n", to));
        }
        if (g_.c_octets) return "store_c8(pc, bias_x, bias_y, residual, b, m, n, x, y);\n";
        return each("store_c(pc, bias_{1}, residual, b, m, n + {0}, {1});\n");
    }
    std::string each(const std::string& statement) const {
        std::string out;
        for (int c = 0; c < 8; ++c) {
            if (g_.n % 8 != 0) out += fmt::format("if (n + {} < {}) ", c, g_.n);
            out += fmt::format(fmt::runtime(statement), c,
                               fmt::format("{}.{}", c < 4 ? 'x' : 'y', "xyzw"[c % 4]));
        }
        return out;
    }
    KernelSource finish(KernelSource k) const {
        std::string& o = k.body;
        const int octets = t_.wn / 8;  // a divisor of 32: a thread's octet is the same in all rows
        if (splits_ == 1) {
            o += fmt::format(
                "PTR bias = ADDRESS(4);\nPTR residual = ADDRESS(5);\n"
                "int n_bias = n_first + wn + int(WARP_LANE) % {} * 8;\n"
                "F4 bias_x = MAKE_F4(0.0f, 0.0f, 0.0f, 0.0f);\nF4 bias_y = bias_x;\n",
                octets);
            for (int c = 0; c < 8; ++c) {
                if (g_.n % t_.bn() != 0) o += fmt::format("if (n_bias + {} < {}) ", c, g_.n);
                o += fmt::format("SET_PART(bias_{}, {}, bias_at(bias, b, n_bias + {}));\n",
                                 c < 4 ? 'x' : 'y', c % 4, c);
            }
        }
        std::string test;
        if (g_.m % t_.bm() != 0) test = fmt::format("m < {}", g_.m);
        if (g_.n % t_.bn() != 0) test += fmt::format("{}n < {}", test.empty() ? "" : " && ", g_.n);
        o += fmt::format("int strip = int(WARP) * {};\n", strip());
        for (int i = 0; i < t_.wm / 16; ++i) {
            if (i > 0) o += "BARRIER();\n";
            for (int j = 0; j < t_.wn / 16; ++j)
                o += fmt::format("MAT_STORE(c{}_{}, tiles, strip + {}, {});\n", i, j, 4 * j,
                                 strip_stride());
            o += "BARRIER();\n";
            o += fmt::format(
                "ROLL for (int e = int(WARP_LANE); e < {0}; e += 32) {{\n"
                "int row = e / {1};\nint octet = e % {1};\n"
                "int m = m_first + wm + {2} + row;\nint n = n_first + wn + octet * 8;\n"
                "U4 u = tiles[strip + row * {3} + octet * 2];\n"
                "U4 v = tiles[strip + row * {3} + octet * 2 + 1];\n"
                "F4 x = MAKE_F4(AS_FLOAT(u.x), AS_FLOAT(u.y), AS_FLOAT(u.z), AS_FLOAT(u.w));\n"
                "F4 y = MAKE_F4(AS_FLOAT(v.x), AS_FLOAT(v.y), AS_FLOAT(v.z), AS_FLOAT(v.w));\n",
                16 * octets, octets, 16 * i, strip_stride());
            o += test.empty() ? store() : fmt::format("if ({}) {{\n{}}}\n", test, store());
            o += "}\n";
        }
        return k;
    }

    const Gemm& g_;
    const MatrixTile& t_;
    std::int64_t splits_, length_;
    Operand a_, b_;
};

}  // namespace

namespace {

// The rule's own come first: with less shared memory they are half as deep.
constexpr MatrixTile kTiles[] = {{2, 2, 64, 64, 32}, {2, 2, 64, 32, 32}, {2, 2, 32, 32, 32},
                                 {2, 2, 64, 64, 16}, {2, 2, 64, 32, 16}, {2, 2, 32, 32, 16},
                                 {2, 2, 32, 64, 32}, {4, 2, 32, 64, 32}, {2, 4, 64, 32, 32},
                                 {2, 2, 32, 64, 16}};

}  // namespace

std::span<const MatrixTile> matrix_tiles() { return kTiles; }

int MatrixTile::shared_bytes() const {
    const auto rows = [&](int tile) {
        return std::max(tile * (depth / 8 + 1), depth * (tile / 8 + 1));
    };
    return 16 * std::max(2 * (rows(bm()) + rows(bn())), warps_m * warps_n * 16 * (wn / 4 + 1));
}

bool on_matrix_units(const Gemm& g, const Features& f) { return f.matrices && g.halves; }

int choose_matrix_tile(const Gemm& g, const Features& f) {
    const int first = f.shared_bytes >= 40960 ? 0 : 3;
    const std::int64_t splits = std::clamp<std::int64_t>(g.k / 512, 1, 64);
    for (int k = first; k < first + 3; ++k) {
        const MatrixTile& t = kTiles[k];
        const std::int64_t groups = ceil_div(g.m, t.bm()) * ceil_div(g.n, t.bn()) * g.batches;
        if (waste(g, t.bm(), t.bn()) < 1.4 && groups * splits >= f.parallel_groups / 2)
            return kFirstMatrixTile + k;
    }
    return kFirstMatrixTile + first + 2;
}

KernelSource matrix_product(const Gemm& g, const MatrixTile& t, std::int64_t splits,
                            std::int64_t length) {
    return Writer(g, t, splits, length).kernel();
}

}  // namespace pippin::gpu
