#include "backends/gpu/attention.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "backends/gpu/expression.h"
#include "backends/gpu/gemm.h"
#include "pippin/error.h"

namespace pippin::gpu {

namespace {

constexpr std::array<char, 4> kPart{'x', 'y', 'z', 'w'};
constexpr int kHigh = 8;  // threads along rows

// A tile of scores: kHigh by `wide` threads, each with quads of 4 rows and 4 columns, and with
// `out_quads` quads of each of its rows of the result.
struct Tile {
    int wide = 8;
    int row_quads = 2, column_quads = 2, out_quads = 2;
    int depth = 16;      // of one step of the products that make scores
    int out_depth = 16;  // columns of scores in one step of the product with the result's side
    int threads() const { return kHigh * wide; }
    int rows() const { return kHigh * 4 * row_quads; }
    int columns() const { return wide * 4 * column_quads; }
    int out_width() const { return wide * 4 * out_quads; }
    int row_stride() const { return rows() / 4 + 1; }  // quads, one to spare: no conflicts
    int column_stride() const { return columns() / 4 + 1; }
    int stage() const {
        return std::max(depth * (row_stride() + column_stride()), out_depth * out_width() / 4);
    }
    int shared_bytes(int tiles) const {
        return 16 * (tiles * columns() * row_stride() + stage()) + 4 * rows() * (wide + 1);
    }
};

class PassWriter {
  public:
    PassWriter(Work& w, Step& s, const AttentionShape& a, AttentionPass pass, const Arg& result,
               DType result_dtype, const Features& f)
        : w_(w), s_(s), a_(a), pass_(pass), result_(result), result_dtype_(result_dtype), f_(f) {
        by_keys_ = pass == AttentionPass::GradKey || pass == AttentionPass::GradValue;
        online_ = pass == AttentionPass::Forward || pass == AttentionPass::Statistics;
        slopes_ = pass != AttentionPass::Forward && pass != AttentionPass::GradValue;
        drops_ = a.has_dropout;
        row_extent_ = by_keys_ ? a.s : a.l;
        column_extent_ = by_keys_ ? a.l : a.s;
        switch (pass) {
            case AttentionPass::Forward:
                out_side_ = {'v', &a_.v};
                break;
            case AttentionPass::GradQuery:
                out_side_ = {'k', &a_.k};
                break;
            case AttentionPass::GradKey:
                out_side_ = {'q', &a_.q};
                break;
            case AttentionPass::GradValue:
                out_side_ = {'g', &a_.dy};
                break;
            case AttentionPass::Statistics:
                break;
        }
        width_ = out_side_.operand ? out_side_.operand->shape[3] : 0;
    }

    void run() {
        choose();
        KernelSource k;
        static constexpr std::array<const char*, 5> kNames{
            "attention", "attention_statistics", "attention_grad_query", "attention_grad_key",
            "attention_grad_value"};
        k.name = kNames[static_cast<std::size_t>(pass_)];
        k.threads = t_.threads();
        const int scores = t_.columns() * t_.row_stride();
        k.shared = {{"F4", "scores", scores}, {"F4", "stage", t_.stage()}};
        if (slopes_) k.shared.push_back({"F4", "slopes", scores});
        if (online_) k.shared.push_back({"float", "exchange", t_.rows() * (t_.wide + 1)});
        if (k.shared_bytes() > f_.shared_bytes) throw Error("it takes too much shared memory");
        k.functions = score_functions(a_);
        const std::int64_t blocks = ceil_div(row_extent_, t_.rows());
        const std::int64_t parts = width_ > 0 ? ceil_div(width_, t_.out_width()) : std::int64_t{1};
        write_body(k.body, blocks, parts);
        Dispatch d;
        d.groups = a_.heads() * blocks * parts;
        const auto address = [](const plan::Operand& o, bool there) {
            return there ? operand_arg(o) : value_arg(0);
        };
        d.args = {value_arg(d.groups),
                  operand_arg(a_.q),
                  operand_arg(a_.k),
                  operand_arg(a_.v),
                  address(a_.dy, pass_ != AttentionPass::Forward),
                  address(a_.mask, a_.has_mask),
                  address(a_.seed, a_.has_dropout),
                  pass_ == AttentionPass::Forward ? value_arg(0) : scratch_arg(0),
                  result_};
        d.kernel = w_.add(std::move(k));
        s_.dispatches.push_back(std::move(d));
    }

  private:
    struct Named {
        char name = 0;  // its address is p<name>, its head's first element base_<name>
        const plan::Operand* operand = nullptr;
    };
    // What the product that makes a tile reads, rows and columns.
    Named side(bool rows, bool slopes) const {
        const Named query = slopes ? Named{'g', &a_.dy} : Named{'q', &a_.q};
        const Named key = slopes ? Named{'v', &a_.v} : Named{'k', &a_.k};
        return rows == by_keys_ ? key : query;
    }

    void choose() {
        const int tiles = slopes_ ? 2 : 1;
        if (f_.small_tiles) {
            t_ = {8, 1, 1, 1, 8, 8};
            t_.out_quads = width_ > 32 ? 2 : 1;
        } else {
            // At most 64 sums of the result a thread.
            t_.wide = width_ > 64 ? 16 : 8;
            t_.row_quads = width_ > 128 ? 1 : 2;
            t_.column_quads = t_.wide == 16 || slopes_ ? 1 : 2;
            t_.out_quads =
                static_cast<int>(std::clamp<std::int64_t>(ceil_div(width_, 4 * t_.wide), 1, 4));
            if (a_.heads() * ceil_div(row_extent_, t_.rows()) < f_.parallel_groups / 2)
                t_.row_quads = 1;
        }
        if (width_ == 0) t_.out_quads = 0;
        if (t_.shared_bytes(tiles) > f_.shared_bytes) t_.row_quads = 1;
        while (t_.shared_bytes(tiles) > f_.shared_bytes && t_.out_depth > 4)
            t_.out_depth /= 2;
        // Software stops a thread after so many iterations.
        const std::int64_t each =
            t_.column_quads * 8 + 2 * t_.wide + 2 +
            (ceil_div(a_.e, t_.depth) + ceil_div(a_.ev, t_.depth)) * (t_.depth + 1) +
            t_.columns() / t_.out_depth * (t_.out_depth + 1) +
            (drops_ ? 80 * 4 * t_.column_quads : 0);
        if (f_.small_tiles && ceil_div(column_extent_, t_.columns()) * each > f_.max_loop)
            throw Error("there are too many keys for software");
    }

    // --- from memory to the stage ---

    struct Source {
        Named from;
        std::string first;  // row of its first element
        std::int64_t extent;
        int rows, stride, offset;  // of its place in the stage
        int quads(int depth) const { return rows / 4 * depth; }
    };
    Source source(bool rows, bool slopes) const {
        Source s{side(rows, slopes),
                 rows ? "row0" : "column0",
                 rows ? row_extent_ : column_extent_,
                 0,
                 0,
                 0};
        s.rows = rows ? t_.rows() : t_.columns();
        s.stride = rows ? t_.row_stride() : t_.column_stride();
        s.offset = rows ? 0 : t_.depth * t_.row_stride();
        return s;
    }
    static std::string element(const Named& n, const std::string& row, const std::string& column) {
        const plan::Operand& o = *n.operand;
        return fmt::format("base_{} + ({}) * {} + ({}) * {}", n.name, row, o.strides[2], column,
                           o.strides[3]);
    }
    // Float32 where quads are put together of single elements.
    static DType kind_of(const Source& s) {
        const plan::Operand& o = *s.from.operand;
        return has_raw_quads(o, 3) ? o.dtype : DType::Float32;
    }
    std::string register_name(const Source& s, int pass) const {
        return fmt::format("{}{}_next", s.offset ? "b" : "a", pass);
    }
    // A thread's quad of a pass: along the width where memory is read so, else along rows.
    struct Place {
        std::string depth, row;
    };
    Place place(const Source& s, int pass) const {
        const std::string i = fmt::format("(int(LANE) + {})", pass * t_.threads());
        if (has_raw_quads(*s.from.operand, 3))
            return {fmt::format("{} % {} * 4", i, t_.depth / 4),
                    fmt::format("{} / {}", i, t_.depth / 4)};
        return {fmt::format("{} % {}", i, t_.depth), fmt::format("{} / {} * 4", i, t_.depth)};
    }
    std::string declare(const Source& s) const {
        std::string out;
        for (int pass = 0; pass * t_.threads() < s.quads(t_.depth); ++pass)
            out += raw_quad(kind_of(s)).declare(register_name(s, pass));
        return out;
    }
    // Statements that fetch this thread's quads of depth k0 on into registers.
    std::string fetch(const Source& s, std::int64_t width) const {
        const int all = s.quads(t_.depth);
        const bool quads = has_raw_quads(*s.from.operand, 3);
        std::string out;
        for (int pass = 0; pass * t_.threads() < all; ++pass) {
            const Place at = place(s, pass);
            const bool part = (pass + 1) * t_.threads() > all;
            const std::string name = register_name(s, pass);
            out += part ? fmt::format("if (int(LANE) + {} < {}) {{\n", pass * t_.threads(), all)
                        : "{\n";
            out += fmt::format("int k = k0 + {};\nint r = {} + {};\n", at.depth, s.first, at.row);
            if (quads) {
                const RawQuad raw = raw_quad(kind_of(s));
                out += fmt::format(
                    "{0} = {1};\nif (k < {2} && r < {3}) {0} = {4}(p{5}, ({6}) / 4);\n", name,
                    raw.zero, width, s.extent, raw.load, s.from.name, element(s.from, "r", "k"));
            } else {
                for (int c = 0; c < 4; ++c)
                    out += fmt::format(
                        "float f{0} = 0.0f;\nif (k < {1} && r + {0} < {2}) f{0} = {3};\n", c, width,
                        s.extent,
                        load(s.from.operand->dtype, fmt::format("p{}", s.from.name),
                             element(s.from, fmt::format("r + {}", c), "k")));
                out += name + " = MAKE_F4(f0, f1, f2, f3);\n";
            }
            out += "}\n";
        }
        return out;
    }
    std::string put(const Source& s) const {
        const int all = s.quads(t_.depth);
        const bool quads = has_raw_quads(*s.from.operand, 3);
        std::string out;
        for (int pass = 0; pass * t_.threads() < all; ++pass) {
            const Place at = place(s, pass);
            const std::string name = register_name(s, pass);
            out += (pass + 1) * t_.threads() > all
                       ? fmt::format("if (int(LANE) + {} < {}) {{\n", pass * t_.threads(), all)
                       : "{\n";
            if (quads) {
                out += fmt::format("int k = {};\nint r = {};\nF4 quad = {};\n", at.depth, at.row,
                                   raw_quad(kind_of(s)).value(name));
                for (int c = 0; c < 4; ++c)
                    out += fmt::format(
                        "SET_PART(stage[{} + (k + {}) * {} + r / 4], r % 4, quad.{});\n", s.offset,
                        c, s.stride, kPart[static_cast<std::size_t>(c)]);
            } else {
                out += fmt::format("stage[{} + ({}) * {} + ({}) / 4] = {};\n", s.offset, at.depth,
                                   s.stride, at.row, name);
            }
            out += "}\n";
        }
        return out;
    }

    const char* loop() const { return f_.small_tiles ? "ROLL" : "UNROLL"; }
    int tile_rows() const { return 4 * t_.row_quads; }        // of a thread
    int tile_columns() const { return 4 * t_.column_quads; }  // of a thread

    // One tile of products of rows and columns, into the shared array `to`.
    std::string product(bool slopes, const std::string& to) const {
        const std::int64_t width = slopes ? a_.ev : a_.e;
        const Source rows = source(true, slopes), columns = source(false, slopes);
        std::string o = "{\n";
        for (int r = 0; r < tile_rows(); ++r)
            for (int c = 0; c < tile_columns(); ++c)
                o += fmt::format("float s{}_{} = 0.0f;\n", r, c);
        o += declare(rows) + declare(columns) + "int k0 = 0;\n" + fetch(rows, width) +
             fetch(columns, width);
        if (width == 0) o += "BARRIER();\n";  // others may still read the tile before
        o += fmt::format("ROLL for (int k1 = 0; k1 < {}; k1 += {}) {{\n", width, t_.depth);
        o += "BARRIER();\n" + put(rows) + put(columns) + "BARRIER();\n";
        // The next part is on its way while this one is worked on.
        o += fmt::format("k0 = k1 + {};\nif (k0 < {}) {{\n", t_.depth, width) + fetch(rows, width) +
             fetch(columns, width) + "}\n";
        o += fmt::format("{} for (int kk = 0; kk < {}; kk++) {{\n", loop(), t_.depth);
        for (int i = 0; i < t_.row_quads; ++i)
            o += fmt::format("F4 a{0} = stage[kk * {1} + ty + {2}];\n", i, t_.row_stride(),
                             i * kHigh);
        for (int i = 0; i < t_.column_quads; ++i)
            o += fmt::format("F4 b{0} = stage[{1} + kk * {2} + tx + {3}];\n", i,
                             t_.depth * t_.row_stride(), t_.column_stride(), i * t_.wide);
        for (int r = 0; r < tile_rows(); ++r)
            for (int c = 0; c < tile_columns(); ++c)
                o += fmt::format("s{0}_{1} = FMA(a{2}.{3}, b{4}.{5}, s{0}_{1});\n", r, c, r / 4,
                                 kPart[static_cast<std::size_t>(r % 4)], c / 4,
                                 kPart[static_cast<std::size_t>(c % 4)]);
        o += "}\n}\n";
        for (int c = 0; c < tile_columns(); ++c)
            for (int i = 0; i < t_.row_quads; ++i)
                o += fmt::format(
                    "{0}[({1} + 4 * tx) * {2} + ty + {3}] = MAKE_F4(s{4}_{8}, s{5}_{8}, s{6}_{8}, "
                    "s{7}_{8});\n",
                    to, c / 4 * 4 * t_.wide + c % 4, t_.row_stride(), i * kHigh, 4 * i, 4 * i + 1,
                    4 * i + 2, 4 * i + 3, c);
        return o + "}\n";
    }

    // --- what becomes of this thread's own elements of a tile ---

    // `each(element, r, row, column, value)` gives statements for one element, whose value is in a
    // variable and may be changed; r is the number of the thread's row.
    template <class F>
    std::string over_elements(bool changes, bool dropout, F each) const {
        // Four columns at a time, one where compiling is slow.
        const int step = f_.small_tiles ? 1 : 4;
        std::string o;
        for (int i = 0; i < t_.row_quads; ++i) {
            o += fmt::format(
                "ROLL for (int cq = 0; cq < {0}; cq += {1}) {{\n"
                "int c = cq / 4 * {2} + 4 * tx + cq % 4;\nint r = {3} + 4 * ty;\n",
                tile_columns(), step, 4 * t_.wide, 4 * kHigh * i);
            const auto place = [&](int c) {
                return fmt::format("[(c + {}) * {} + ty + {}]", c, t_.row_stride(), i * kHigh);
            };
            for (int c = 0; c < step; ++c)
                o += fmt::format("F4 x{} = scores{};\n", c, place(c));
            for (int c = 0; slopes_ && dropout && c < step; ++c)
                o += fmt::format("F4 g{} = slopes{};\n", c, place(c));
            for (int n = 0; drops_ && dropout && n < (by_keys_ ? step : 4); ++n)
                o += by_keys_ ? fmt::format(
                                    "F4 u{0} = kept(key, stream, head, column0 + c + {0}, "
                                    "row0 + r);\n",
                                    n)
                              : fmt::format(
                                    "F4 u{0} = kept(key, stream, head, row0 + r + {0}, "
                                    "column0 + c / 4 * 4);\n",
                                    n);
            for (int c = 0; c < step; ++c)
                for (int p = 0; p < 4; ++p) {
                    const char part = kPart[static_cast<std::size_t>(p)];
                    Element e;
                    e.x = fmt::format("x{}.{}", c, part);
                    e.d = fmt::format("g{}.{}", c, part);
                    if (by_keys_)
                        e.kept = fmt::format("u{}.{}", c, part);
                    else if (step == 1)
                        e.kept = fmt::format("one_of(u{0}, u{0}, cq % 4)", p);
                    else
                        e.kept = fmt::format("u{}.{}", p, kPart[static_cast<std::size_t>(c)]);
                    e.row = 4 * i + p;
                    e.i = by_keys_ ? fmt::format("column0 + c + {}", c)
                                   : fmt::format("row0 + r + {}", p);
                    e.j = by_keys_ ? fmt::format("row0 + r + {}", p)
                                   : fmt::format("column0 + c + {}", c);
                    e.column = c;
                    e.first = p == 0;
                    o += each(e);
                }
            for (int c = 0; changes && c < step; ++c)
                o += fmt::format("scores{} = x{};\n", place(c), c);
            o += "}\n";
        }
        return o;
    }
    struct Element {
        std::string x, d, kept, i, j;  // score, slope, factor of dropout; query and key
        int row = 0, column = 0;       // of the thread's
        bool first = false;            // of its column
    };

    // The largest (or the sum) of <name><row> over the threads of a row.
    std::string across(const std::string& name, bool most) const {
        std::string o = "BARRIER();\n";
        const auto at = [&](int r) {
            return fmt::format("({} + 4 * ty) * {}", r / 4 * 4 * kHigh + r % 4, t_.wide + 1);
        };
        for (int r = 0; r < tile_rows(); ++r)
            o += fmt::format("exchange[{} + tx] = {}{};\n", at(r), name, r);
        o += "BARRIER();\n";
        for (int r = 0; r < tile_rows(); ++r)
            o += fmt::format("{}{} = exchange[{}];\n", name, r, at(r));
        o += fmt::format("ROLL for (int t = 1; t < {}; t++) {{\n", t_.wide);
        for (int r = 0; r < tile_rows(); ++r)
            o += most
                     ? fmt::format("{0}{1} = max_nan({0}{1}, exchange[{2} + t]);\n", name, r, at(r))
                     : fmt::format("{0}{1} = {0}{1} + exchange[{2} + t];\n", name, r, at(r));
        return o + "}\n";
    }

    // Scores become exponents below the running maximum; what was summed up so far follows it.
    std::string online() const {
        std::string o;
        for (int r = 0; r < tile_rows(); ++r)
            o += fmt::format("float t{} = AS_FLOAT(0xff800000u);\n", r);
        o += over_elements(true, false, [&](const Element& e) {
            return fmt::format(
                "{0} = adjusted(mask, mask_base, {1}, {2}, {0});\nt{3} = max_nan(t{3}, {0});\n",
                e.x, e.i, e.j, e.row);
        });
        o += across("t", true);
        for (int r = 0; r < tile_rows(); ++r) {
            o += fmt::format(
                "t{0} = max_nan(m{0}, t{0});\n"
                "float f{0} = AS_UINT(m{0}) == 0xff800000u ? 0.0f : m_exp(m{0} - t{0});\n"
                "m{0} = t{0};\nl{0} = l{0} * f{0};\n",
                r);
            if (pass_ == AttentionPass::Statistics) o += fmt::format("d{0} = d{0} * f{0};\n", r);
        }
        o += over_elements(pass_ == AttentionPass::Forward, true, [&](const Element& e) {
            std::string x = fmt::format(
                "{0} = AS_UINT({0}) == 0xff800000u ? 0.0f : m_exp({0} - m{1});\n"
                "l{1} = l{1} + {0};\n",
                e.x, e.row);
            const std::string times = drops_ ? " * " + e.kept : "";
            if (pass_ == AttentionPass::Forward)
                return drops_ ? x + fmt::format("{0} = {0}{1};\n", e.x, times) : x;
            return x + fmt::format("d{0} = FMA({1}, {2}{3}, d{0});\n", e.row, e.x, e.d, times);
        });
        return o;
    }

    // Scores become what the result's side is multiplied with, given the rows' statistics.
    std::string weights() const {
        return over_elements(true, true, [&](const Element& e) {
            std::string x;
            std::string n = std::to_string(e.row);
            if (by_keys_) {
                n = fmt::format("_c{}", e.column);
                if (e.first) x = read_statistics(n, e.i);
            }
            x += fmt::format(
                "{0} = adjusted(mask, mask_base, {1}, {2}, {0});\n"
                "{0} = AS_UINT({0}) == 0xff800000u ? 0.0f : m_exp({0} - m{3}) * l{3};\n",
                e.x, e.i, e.j, n);
            const std::string times = drops_ ? " * " + e.kept : "";
            if (slopes_)
                return x + fmt::format("{0} = {0} * ({1}{2} - d{3}) * {4};\n", e.x, e.d, times, n,
                                       constant(DType::Float32, a_.attrs.scale, 0));
            return drops_ ? x + fmt::format("{0} = {0}{1};\n", e.x, times) : x;
        });
    }
    // m<n>, l<n>, d<n> of query i.
    std::string read_statistics(const std::string& n, const std::string& i) const {
        return fmt::format(
            "float m{0} = 0.0f;\nfloat l{0} = 0.0f;\nfloat d{0} = 0.0f;\n"
            "if ({1} < {2}) {{\nint at = (head * {2} + {1}) * 3;\nm{0} = LD_F32(stats, at);\n"
            "l{0} = LD_F32(stats, at + 1);\nd{0} = LD_F32(stats, at + 2);\n}}\n",
            n, i, a_.l);
    }

    // The result's sums of a tile: scores times rows of the other side.
    std::string accumulate() const {
        const int quads = t_.wide * t_.out_quads;
        const int all = t_.out_depth * quads;
        const Named& n = out_side_;
        const bool wide_reads = has_raw_quads(*n.operand, 3);
        const RawQuad raw = raw_quad(wide_reads ? n.operand->dtype : DType::Float32);
        const auto fetch_all = [&] {
            std::string o;
            for (int pass = 0; pass * t_.threads() < all; ++pass) {
                const bool part = (pass + 1) * t_.threads() > all;
                o += part ? fmt::format("if (int(LANE) + {} < {}) {{\n", pass * t_.threads(), all)
                          : "{\n";
                o += fmt::format(
                    "int i = int(LANE) + {0};\nint r = column0 + k0 + i / {1};\n"
                    "int v = out0 + i % {1} * 4;\n",
                    pass * t_.threads(), quads);
                if (wide_reads)
                    o += fmt::format(
                        "v{0}_next = {1};\nif (r < {2} && v < {3}) v{0}_next = {4}(p{5}, ({6}) / "
                        "4);\n",
                        pass, raw.zero, column_extent_, width_, raw.load, n.name,
                        element(n, "r", "v"));
                else {
                    for (int c = 0; c < 4; ++c)
                        o += fmt::format(
                            "float f{0} = 0.0f;\nif (r < {1} && v + {0} < {2}) f{0} = {3};\n", c,
                            column_extent_, width_,
                            load(n.operand->dtype, fmt::format("p{}", n.name),
                                 element(n, "r", fmt::format("v + {}", c))));
                    o += fmt::format("v{}_next = MAKE_F4(f0, f1, f2, f3);\n", pass);
                }
                o += "}\n";
            }
            return o;
        };
        std::string o = "{\n";
        for (int pass = 0; pass * t_.threads() < all; ++pass)
            o += raw.declare(fmt::format("v{}_next", pass));
        o += "int k0 = 0;\n" + fetch_all();
        o += fmt::format("ROLL for (int k1 = 0; k1 < {}; k1 += {}) {{\nBARRIER();\n", t_.columns(),
                         t_.out_depth);
        for (int pass = 0; pass * t_.threads() < all; ++pass) {
            if ((pass + 1) * t_.threads() > all)
                o += fmt::format("if (int(LANE) + {} < {}) ", pass * t_.threads(), all);
            o += fmt::format("stage[int(LANE) + {}] = {};\n", pass * t_.threads(),
                             raw.value(fmt::format("v{}_next", pass)));
        }
        o += fmt::format("BARRIER();\nk0 = k1 + {};\nif (k0 < {}) {{\n", t_.out_depth,
                         t_.columns()) +
             fetch_all() + "}\n";
        o += fmt::format("{} for (int kk = 0; kk < {}; kk++) {{\n", loop(), t_.out_depth);
        for (int i = 0; i < t_.row_quads; ++i)
            o += fmt::format("F4 a{0} = scores[(k1 + kk) * {1} + ty + {2}];\n", i, t_.row_stride(),
                             i * kHigh);
        for (int i = 0; i < t_.out_quads; ++i)
            o += fmt::format("F4 b{0} = stage[kk * {1} + tx + {2}];\n", i, quads, i * t_.wide);
        for (int r = 0; r < tile_rows(); ++r)
            for (int v = 0; v < 4 * t_.out_quads; ++v)
                o += fmt::format("y{0}_{1} = FMA(a{2}.{3}, b{4}.{5}, y{0}_{1});\n", r, v, r / 4,
                                 kPart[static_cast<std::size_t>(r % 4)], v / 4,
                                 kPart[static_cast<std::size_t>(v % 4)]);
        return o + "}\n}\n}\n";
    }

    // --- the whole ---

    void write_body(std::string& o, std::int64_t blocks, std::int64_t parts) const {
        o += "PTR pq = ADDRESS(1);\nPTR pk = ADDRESS(2);\nPTR pv = ADDRESS(3);\n";
        if (pass_ != AttentionPass::Forward) o += "PTR pg = ADDRESS(4);\nPTR stats = ADDRESS(7);\n";
        o += "PTR mask = ADDRESS(5);\nint group = int(GROUP);\n";
        o += fmt::format(
            "int out0 = group % {0} * {1};\ngroup = group / {0};\nint row0 = group % {2} * {3};\n"
            "int head = group / {2};\nint b = head / {4};\nint h = head % {4};\n",
            parts, t_.out_width(), blocks, t_.rows(), a_.h);
        const auto base = [&](const std::string& name, const plan::Operand& x) {
            std::string at = "0";
            for (int d = 0; d < 2; ++d)
                if (x.shape[d] != 1 && x.strides[static_cast<std::size_t>(d)] != 0)
                    at += fmt::format(" + {} * {}", d ? "h" : "b",
                                      x.strides[static_cast<std::size_t>(d)]);
            o += fmt::format("int {} = {};\n", name, at);
        };
        base("base_q", a_.q), base("base_k", a_.k), base("base_v", a_.v);
        if (pass_ != AttentionPass::Forward) base("base_g", a_.dy);
        if (a_.has_mask)
            base("mask_base", a_.mask);
        else
            o += "int mask_base = 0;\n";
        if (drops_)
            o += fmt::format(
                "I64 key = LD_I64(ADDRESS(6), 0);\nI64 stream = LD_I64(ADDRESS(6), {});\n",
                a_.seed.strides[0]);
        o += fmt::format("int tx = int(LANE) % {0};\nint ty = int(LANE) / {0};\n", t_.wide);
        for (int r = 0; r < tile_rows(); ++r) {
            if (online_) {
                o += fmt::format("float m{0} = AS_FLOAT(0xff800000u);\nfloat l{0} = 0.0f;\n", r);
                if (pass_ == AttentionPass::Statistics) o += fmt::format("float d{} = 0.0f;\n", r);
            } else if (!by_keys_) {
                o += read_statistics(std::to_string(r), fmt::format("(row0 + {} + 4 * ty)",
                                                                    r / 4 * 4 * kHigh + r % 4));
            }
            for (int v = 0; v < 4 * t_.out_quads; ++v)
                o += fmt::format("float y{}_{} = 0.0f;\n", r, v);
        }
        o += fmt::format("int first = 0;\nint last = {};\n", column_extent_);
        if (a_.attrs.causal)
            o += by_keys_ ? fmt::format("first = row0 / {0} * {0};\n", t_.columns())
                          : fmt::format("if (last > row0 + {0}) last = row0 + {0};\n", t_.rows());
        o += fmt::format("ROLL for (int column0 = first; column0 < last; column0 += {}) {{\n",
                         t_.columns());
        o += product(false, "scores");
        if (slopes_) o += product(true, "slopes");
        o += online_ ? online() : weights();
        if (pass_ == AttentionPass::Forward)
            for (int r = 0; r < tile_rows(); ++r)
                for (int v = 0; v < 4 * t_.out_quads; ++v)
                    o += fmt::format("y{0}_{1} = y{0}_{1} * f{0};\n", r, v);
        if (t_.out_quads) o += accumulate();
        o += "}\n";
        if (online_) o += across("l", false);
        if (pass_ == AttentionPass::Statistics) return finish_statistics(o);
        finish(o);
    }

    void finish_statistics(std::string& o) const {
        o += across("d", false) + "if (tx == 0) {\n";
        for (int r = 0; r < tile_rows(); ++r)
            o += fmt::format(
                "{{\nint i = row0 + {0} + 4 * ty;\nif (i < {1}) {{\nint at = (head * {1} + i) * "
                "3;\n"
                "bool dead = AS_UINT(m{2}) == 0xff800000u;\n"
                "ST_F32(stats, at, m{2});\nST_F32(stats, at + 1, dead ? 0.0f : 1.0f / l{2});\n"
                "ST_F32(stats, at + 2, dead ? 0.0f : d{2} / l{2});\n}}\n}}\n",
                r / 4 * 4 * kHigh + r % 4, a_.l, r);
        o += "}\n";
    }

    void finish(std::string& o) const {
        const bool quads =
            result_dtype_ == DType::Float32 && width_ % 4 == 0 && result_.value % 16 == 0;
        o += "PTR y = ADDRESS(8);\n";
        for (int r = 0; r < tile_rows(); ++r) {
            o += fmt::format("{{\nint n = row0 + {} + 4 * ty;\nif (n < {}) {{\n",
                             r / 4 * 4 * kHigh + r % 4, row_extent_);
            if (pass_ == AttentionPass::Forward)
                o += fmt::format("float f = AS_UINT(m{0}) == 0xff800000u ? 0.0f : 1.0f / l{0};\n",
                                 r);
            o += fmt::format("int at = ((b * {} + n) * {} + h) * {};\n", row_extent_, a_.h, width_);
            for (int i = 0; i < t_.out_quads; ++i) {
                o += fmt::format("{{\nint v = out0 + {} + 4 * tx;\n", i * 4 * t_.wide);
                std::array<std::string, 4> x;
                for (int c = 0; c < 4; ++c)
                    x[static_cast<std::size_t>(c)] = fmt::format(
                        "y{}_{}{}", r, 4 * i + c, pass_ == AttentionPass::Forward ? " * f" : "");
                if (quads)
                    o += fmt::format(
                        "if (v < {}) ST_F4(y, (at + v) / 4, MAKE_F4({}, {}, {}, {}));\n", width_,
                        x[0], x[1], x[2], x[3]);
                else
                    for (int c = 0; c < 4; ++c)
                        o += fmt::format("if (v + {0} < {1}) {2};\n", c, width_,
                                         store(result_dtype_, "y", fmt::format("at + v + {}", c),
                                               x[static_cast<std::size_t>(c)]));
                o += "}\n";
            }
            o += "}\n}\n";
        }
    }

    Work& w_;
    Step& s_;
    const AttentionShape& a_;
    AttentionPass pass_;
    Arg result_;
    DType result_dtype_;
    const Features& f_;
    bool by_keys_, online_, slopes_, drops_;  // rows are keys; statistics made here; dp is needed
    std::int64_t row_extent_, column_extent_, width_;
    Named out_side_;
    Tile t_;
};

}  // namespace

void write_attention_pass(Work& w, Step& s, const AttentionShape& a, AttentionPass pass,
                          const Arg& result, DType result_dtype, const Features& f) {
    constexpr std::int64_t limit = (std::int64_t{1} << 31) - 4096;
    if (a.heads() * std::max(a.l, a.s) * std::max({a.e, a.ev, std::int64_t{3}}) >= limit)
        throw Error("it is too large for 32-bit indices");
    PassWriter(w, s, a, pass, result, result_dtype, f).run();
}

}  // namespace pippin::gpu
