#include "backends/gpu/gemm.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "backends/gpu/expression.h"
#include "pippin/error.h"

namespace pippin::gpu {

namespace {

// A group computes a tile of C: threads in a square, each with quads of 4 rows and 4 columns.
// Tiles of A and B lie in shared memory as quads along m and n, twice: one is read while the next
// is filled.
struct Tile {
    int side = 16;                 // threads along each dim of the square
    int m_quads = 1, n_quads = 1;  // of a thread
    int depth = 16;                // k of one step
    int threads() const { return side * side; }
    int bm() const { return side * 4 * m_quads; }
    int bn() const { return side * 4 * n_quads; }
};

constexpr Tile kLarge{16, 2, 2, 8}, kMedium{16, 1, 1, 16}, kSmall{8, 1, 1, 8};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t tiles_of(const Gemm& g, const Tile& t) {
    return ceil_div(g.m, t.bm()) * ceil_div(g.n, t.bn()) * g.batches;
}

// The largest tile that still gives the device enough groups and wastes little.
Tile choose(const Gemm& g, const Features& f) {
    const std::int64_t enough = f.parallel_groups / 2;
    const auto waste = [&](const Tile& t) {
        return static_cast<double>(ceil_div(g.m, t.bm()) * t.bm() * ceil_div(g.n, t.bn()) *
                                   t.bn()) /
               static_cast<double>(g.m * g.n);
    };
    const auto fits = [&](const Tile& t) {
        // A long sum can be split to make up for few tiles.
        const std::int64_t splits = std::clamp<std::int64_t>(g.k / 512, 1, 64);
        return waste(t) < 1.4 && tiles_of(g, t) * splits >= enough;
    };
    if (!f.small_tiles && fits(kLarge)) return kLarge;
    if (fits(kMedium)) return kMedium;
    return kSmall;
}

class GemmWriter {
  public:
    GemmWriter(Work& w, Step& s, const Gemm& g, const Features& f) : w_(w), s_(s), g_(g), f_(f) {}

    void run() {
        t_ = choose(g_, f_);
        const std::int64_t tiles = tiles_of(g_, t_);
        splits_ = 1;
        if (tiles < f_.parallel_groups && g_.k >= 512)
            splits_ = std::clamp<std::int64_t>(
                std::min(ceil_div(2 * f_.parallel_groups, tiles), g_.k / 256), 1, 128);
        const std::int64_t steps = std::max<std::int64_t>(ceil_div(g_.k, t_.depth), 1);
        splits_ = std::max(splits_, ceil_div(steps * (t_.depth + 2), f_.max_loop));
        length_ = ceil_div(steps, splits_) * t_.depth;
        splits_ = std::max<std::int64_t>(ceil_div(g_.k, length_), 1);
        if (splits_ > 1)
            w_.scratch_bytes = std::max(w_.scratch_bytes,
                                        g_.scratch_from + splits_ * g_.batches * g_.m * g_.n * 4);
        product(tiles * splits_);
        if (splits_ > 1) sum_up();
    }

  private:
    int a_stride() const { return t_.bm() / 4 + 1; }  // quads of a row, one to spare: no conflicts
    int b_stride() const { return t_.bn() / 4 + 1; }

    // Statements that fetch this thread's quads of the tiles from k0 on into registers.
    std::string fetch(bool a) const {
        const int quads = (a ? t_.bm() : t_.bn()) / 4, all = quads * t_.depth;
        const bool along_k = a ? g_.a_along_k : g_.b_along_k;
        const char name = a ? 'a' : 'b';
        std::string out;
        for (int pass = 0; pass * t_.threads() < all; ++pass) {
            const std::string i = fmt::format("(int(LANE) + {})", pass * t_.threads());
            const std::string k =
                along_k ? fmt::format("{} % {}", i, t_.depth) : fmt::format("{} / {}", i, quads);
            const std::string q =
                along_k ? fmt::format("{} / {}", i, t_.depth) : fmt::format("{} % {}", i, quads);
            out += fmt::format("{{\nint k = k0 + {};\nint q = {}_first + 4 * ({});\n", k,
                               a ? 'm' : 'n', q);
            std::string values;
            for (int c = 0; c < 4; ++c) {
                const std::string load = a ? fmt::format("load_a(pa, b, q + {}, k)", c)
                                           : fmt::format("load_b(pb, b, k, q + {})", c);
                const std::int64_t extent = a ? g_.m : g_.n;
                std::string test = "k < k_end";
                if (extent % (a ? t_.bm() : t_.bn()) != 0)
                    test += fmt::format(" && q + {} < {}", c, extent);
                out += fmt::format("float f{} = 0.0f;\nif ({}) f{} = {};\n", c, test, c, load);
                values += (c ? ", f" : "f") + std::to_string(c);
            }
            out += fmt::format("{}{}_next = MAKE_F4({});\n}}\n", name, pass, values);
        }
        return out;
    }
    std::string put(bool a) const {
        const int quads = (a ? t_.bm() : t_.bn()) / 4, all = quads * t_.depth;
        const bool along_k = a ? g_.a_along_k : g_.b_along_k;
        const char name = a ? 'a' : 'b';
        std::string out;
        for (int pass = 0; pass * t_.threads() < all; ++pass) {
            const std::string i = fmt::format("(int(LANE) + {})", pass * t_.threads());
            const std::string k =
                along_k ? fmt::format("{} % {}", i, t_.depth) : fmt::format("{} / {}", i, quads);
            const std::string q =
                along_k ? fmt::format("{} / {}", i, t_.depth) : fmt::format("{} % {}", i, quads);
            const std::string guard =
                (pass + 1) * t_.threads() > all ? fmt::format("if ({} < {}) ", i, all) : "";
            out += fmt::format("{0}tile_{1}[side * {2} + ({3}) * {4} + {5}] = {1}{6}_next;\n",
                               guard, name, (a ? a_stride() : b_stride()) * t_.depth, k,
                               a ? a_stride() : b_stride(), q, pass);
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

    void product(std::int64_t groups) {
        static constexpr std::array<char, 4> kPart{'x', 'y', 'z', 'w'};
        KernelSource k;
        k.name = g_.name;
        k.threads = t_.threads();
        k.shared = {{"F4", "tile_a", 2 * t_.depth * a_stride()},
                    {"F4", "tile_b", 2 * t_.depth * b_stride()}};
        k.functions = g_.functions;
        const std::int64_t tm = ceil_div(g_.m, t_.bm()), tn = ceil_div(g_.n, t_.bn());
        std::string& o = k.body;
        o += fmt::format(
            "PTR pa = ADDRESS(1);\nPTR pb = ADDRESS(2);\nPTR pc = ADDRESS(3);\n"
            "int group = int(GROUP);\n"
            "int n_first = group % {0} * {1};\ngroup = group / {0};\n"
            "int m_first = group % {2} * {3};\ngroup = group / {2};\n",
            tn, t_.bn(), tm, t_.bm());
        if (splits_ > 1)
            o += fmt::format(
                "int part = group % {0};\nint b = group / {0};\nint k_begin = part * {1};\n"
                "int k_end = k_begin + {1};\nif (k_end > {2}) k_end = {2};\n",
                splits_, length_, g_.k);
        else
            o += fmt::format("int b = group;\nint k_begin = 0;\nint k_end = {};\n", g_.k);
        o += fmt::format("int tx = int(LANE) % {0};\nint ty = int(LANE) / {0};\n", t_.side);
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
        o += fmt::format("{} for (int kk = 0; kk < {}; kk++) {{\n",
                         f_.small_tiles ? "ROLL" : "UNROLL", t_.depth);
        for (int q = 0; q < t_.m_quads; ++q)
            o += fmt::format("F4 a{0} = tile_a[side * {1} + kk * {2} + ty + {3}];\n", q,
                             a_stride() * t_.depth, a_stride(), q * t_.side);
        for (int q = 0; q < t_.n_quads; ++q)
            o += fmt::format("F4 b{0} = tile_b[side * {1} + kk * {2} + tx + {3}];\n", q,
                             b_stride() * t_.depth, b_stride(), q * t_.side);
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j)
                o += fmt::format("{0} = FMA(a{1}.{2}, b{3}.{4}, {0});\n", sum(i, j), i / 4,
                                 kPart[static_cast<std::size_t>(i % 4)], j / 4,
                                 kPart[static_cast<std::size_t>(j % 4)]);
        o += "}\nside = 1 - side;\nif (k0 < k_end) {\n" + put(true) + put(false) +
             "}\nBARRIER();\n}\n";
        if (splits_ == 1) o += "PTR bias = ADDRESS(4);\nPTR residual = ADDRESS(5);\n";
        for (int i = 0; i < rows; ++i) {
            o += fmt::format("{{\nint m = m_first + {} + 4 * ty + {};\n", i / 4 * t_.side * 4,
                             i % 4);
            if (g_.m % t_.bm() != 0) o += fmt::format("if (m < {}) {{\n", g_.m);
            for (int j = 0; j < columns; ++j) {
                o += fmt::format("{{\nint n = n_first + {} + 4 * tx + {};\n", j / 4 * t_.side * 4,
                                 j % 4);
                if (g_.n % t_.bn() != 0) o += fmt::format("if (n < {}) ", g_.n);
                if (splits_ > 1)
                    o += fmt::format("ST_F32(pc, ((part * {0} + b) * {1} + m) * {2} + n, {3});\n",
                                     g_.batches, g_.m, g_.n, sum(i, j));
                else
                    o += fmt::format("store_c(pc, bias, residual, b, m, n, {});\n", sum(i, j));
                o += "}\n";
            }
            o += g_.m % t_.bm() != 0 ? "}\n}\n" : "}\n";
        }
        Dispatch d;
        d.groups = groups;
        d.args = {value_arg(groups), g_.a, g_.b, splits_ > 1 ? scratch_arg(g_.scratch_from) : g_.c};
        if (splits_ == 1) d.args.insert(d.args.end(), {g_.bias, g_.residual});
        d.kernel = w_.add(std::move(k));
        s_.dispatches.push_back(std::move(d));
    }

    // Adds the parts of split sums, in order.
    void sum_up() {
        KernelSource k;
        k.name = g_.name + "_sum";
        k.functions = g_.functions;
        const std::int64_t all = g_.batches * g_.m * g_.n;
        if (splits_ * all >= (std::int64_t{1} << 31))
            throw Error("it is too large for 32-bit indices");
        k.body = fmt::format(
            "PTR parts = ADDRESS(1);\n"
            "int i = int(GROUP * THREADS + LANE);\n"
            "if (i < {0}) {{\n"
            "float x = 0.0f;\n"
            "ROLL for (int p = 0; p < {1}; p++) x = x + LD_F32(parts, p * {0} + i);\n"
            "int n = i % {2};\nint m = i / {2} % {3};\nint b = i / {4};\n"
            "store_c(ADDRESS(2), ADDRESS(3), ADDRESS(4), b, m, n, x);\n}}\n",
            all, splits_, g_.n, g_.m, g_.m * g_.n);
        Dispatch d;
        d.groups = ceil_div(all, k.threads);
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

void write_gemm(Work& w, Step& s, const Gemm& g, const Features& f) {
    constexpr std::int64_t limit = (std::int64_t{1} << 31) - 4096;
    if (g.batches * g.m * g.n == 0) return;
    if (g.m >= limit || g.n >= limit || g.k >= limit || g.batches >= limit)
        throw Error("it is too large for 32-bit indices");
    GemmWriter(w, s, g, f).run();
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

std::string epilogue(const plan::HeavyLaunch& l, const std::string& channel,
                     const std::string& residual_index, const std::string& index) {
    std::string out;
    const plan::Epilogue& e = l.epilogue;
    if (e.bias >= 0) {
        const plan::Operand& o = l.operands[static_cast<std::size_t>(e.bias)];
        std::int64_t step = 0;
        for (int d = 0; d < o.shape.rank(); ++d)
            if (o.shape[d] != 1) step = o.strides[static_cast<std::size_t>(d)];
        out += fmt::format("x = x + {};\n",
                           load(o.dtype, "bias", fmt::format("({}) * {}", channel, step)));
    }
    if (e.residual >= 0) {
        const plan::Operand& o = l.operands[static_cast<std::size_t>(e.residual)];
        out += fmt::format("x = x + {};\n", load(o.dtype, "residual", residual_index));
    }
    switch (e.activation) {
        case plan::Activation::None:
            break;
        case plan::Activation::Relu:
            out += "x = m_relu(x);\n";
            break;
        case plan::Activation::Tanh:
            out += "x = m_tanh(x);\n";
            break;
        case plan::Activation::Gelu:
            out += "x = x * 0.5f * (1.0f + m_erf(x * 0.707106781f));\n";
            break;
    }
    return out + store(l.output.dtype, "c", index, "x") + ";\n";
}

}  // namespace pippin::gpu
