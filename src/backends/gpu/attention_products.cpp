// Attention as products of matrices: two or five of them at the speed of large products, and one
// kernel of rows between. Scores lie in scratch memory of a bounded size, so that the batch goes
// in parts; sequences whose scores do not fit have attention_pass.cpp.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "backends/gpu/attention.h"
#include "backends/gpu/expression.h"
#include "backends/gpu/gemm.h"

namespace pippin::gpu {

namespace {

constexpr int kTeam = 32;  // threads of a row

// A matrix for each head (b) of a part; neighbours in a row are neighbours in memory if `dense`.
struct Matrix {
    Arg at;
    DType dtype = DType::Float32;
    bool dense = true, quads = false, octets = false;
    std::function<std::string(const char* row, const char* column)> index;
};

class Products {
  public:
    Products(Work& w, Step& s, const plan::HeavyLaunch& l, const AttentionShape& a,
             const Features& f, bool gradient)
        : w_(w), s_(s), l_(l), a_(a), f_(f), gradient_(gradient), stride_(ceil_div(a.s, 8) * 8) {
        halves_ = f.matrices && a.q.dtype == DType::Float16;
        const std::int64_t scores = a.h * a.l * stride_;
        const std::int64_t each = scores * (halves_ ? 6 : 4) * (gradient ? 2 : 1);
        parts_ = std::min(f.tile_bytes / std::max<std::int64_t>(each, 1), a.b);
        if (parts_ > 0) parts_ = even_part(a.b, parts_);
    }
    bool fits() const {
        return parts_ > 0 && parts_ * a_.h * a_.l * stride_ < (std::int64_t{1} << 31) - 4096;
    }

    void run() {
        const std::int64_t all = parts_ * a_.h * a_.l * stride_;
        scores_at_ = scratch_.reserve(all * 4);
        if (gradient_) slopes_at_ = scratch_.reserve(all * 4);
        weights_at_ = halves_ ? scratch_.reserve(all * 2) : scores_at_;
        inner_at_ = !gradient_ ? 0 : halves_ ? scratch_.reserve(all * 2) : slopes_at_;
        for (first_ = 0; first_ < a_.b; first_ += parts_) {
            heads_ = std::min(parts_, a_.b - first_) * a_.h;
            part();
        }
    }

  private:
    Matrix operand(const plan::Operand& o) const {
        Matrix m;
        m.at = operand_arg(o);
        m.at.value += first_ * o.strides[0] * static_cast<std::int64_t>(size_of(o.dtype));
        m.dtype = o.dtype;
        m.dense = o.strides[3] == 1 || o.shape[3] == 1;
        m.quads = has_quads(o, 3), m.octets = has_octets(o, 3);
        m.index = [this, o](const char* row, const char* column) {
            return fmt::format("(b / {0}) * {1} + (b % {0}) * {2} + ({3}) * {4} + ({5}) * {6}",
                               a_.h, o.strides[0], o.strides[1], row, o.strides[2], column,
                               o.strides[3]);
        };
        return m;
    }
    // Rows of queries, columns of keys; behind the last key are zeros.
    Matrix scratch(std::int64_t at, DType dtype) const {
        Matrix m;
        m.at = scratch_arg(at);
        m.dtype = dtype;
        m.quads = dtype == DType::Float32, m.octets = !m.quads;
        m.index = [this](const char* row, const char* column) {
            return fmt::format("(b * {} + {}) * {} + {}", a_.l, row, stride_, column);
        };
        return m;
    }
    // A part of the result: [B, rows, H, width], `at` elements from its beginning.
    Matrix result(std::int64_t at, std::int64_t rows, std::int64_t width) const {
        const auto size = static_cast<std::int64_t>(size_of(l_.output.dtype));
        Matrix m;
        m.at = operand_arg(l_.output);
        m.at.value += (at + first_ * rows * a_.h * width) * size;
        m.dtype = l_.output.dtype;
        m.quads = m.dtype == DType::Float32 && width % 4 == 0 && m.at.value % 16 == 0;
        m.octets = m.dtype == DType::Float16 && width % 8 == 0 && m.at.value % 16 == 0;
        m.index = [this, rows, width](const char* row, const char* column) {
            return fmt::format("((b / {0} * {1} + {2}) * {0} + b % {0}) * {3} + {4}", a_.h, rows,
                               row, width, column);
        };
        return m;
    }

    // c = a b, either of them turned around.
    void product(const char* name, std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a,
                 bool turn_a, const Matrix& b, bool turn_b, const Matrix& c) {
        if (m == 0 || n == 0) return;
        Gemm g;
        g.name = name;
        g.batches = heads_;
        g.m = m, g.n = n, g.k = k;
        g.a_along_k = turn_a != a.dense, g.b_along_k = turn_b == b.dense;
        g.halves = halves_ && a.dtype == DType::Float16 && b.dtype == DType::Float16;
        g.a_quads = a.quads, g.b_quads = b.quads;
        g.a_octets = g.halves && a.octets, g.b_octets = g.halves && b.octets;
        for (const Width width : widths(g.a_quads, g.halves, g.a_octets))
            g.functions +=
                load_a_head(width) +
                load_if_ok(a.dtype, turn_a ? a.index("k", "m") : a.index("m", "k"), width) + "}\n";
        for (const Width width : widths(g.b_quads, g.halves, g.b_octets))
            g.functions +=
                load_b_head(width) +
                load_if_ok(b.dtype, turn_b ? b.index("n", "k") : b.index("k", "n"), width) + "}\n";
        const std::string to = c.index("m", "n");
        g.functions +=
            std::string(kNoBias) +
            "void store_c(PTR c, float bias, PTR residual, int b, int m, int n, float x) {\n" +
            store(c.dtype, "c", to, "x") + ";\n}\n";
        g.c_quads = c.quads;
        if (g.c_quads)
            g.functions +=
                "void store_c4(PTR c, F4 bias, PTR residual, int b, int m, int n, F4 x) {\n" +
                fmt::format("ST_F4(c, ({}) / 4, x);\n}}\n", to);
        g.c_octets = g.halves && c.octets;
        if (g.c_octets)
            g.functions +=
                "void store_c8(PTR c, F4 bias_x, F4 bias_y, PTR residual, int b, int m, int n, F4 "
                "x, F4 y) {\n" +
                epilogue8(l_, "", to) + "}\n";
        g.a = a.at, g.b = b.at, g.c = c.at;
        g.scratch_from = scratch_.end();
        write_gemm(w_, s_, g, f_);
    }

    void part() {
        const Matrix q = operand(a_.q), k = operand(a_.k), v = operand(a_.v);
        product("attention_scores", a_.l, a_.s, a_.e, q, false, k, true,
                scratch(scores_at_, DType::Float32));
        const DType kept = halves_ ? DType::Float16 : DType::Float32;
        const Matrix weights = scratch(weights_at_, kept);
        if (!gradient_) {
            rows();
            return product("attention_result", a_.l, a_.ev, a_.s, weights, false, v, false,
                           result(0, a_.l, a_.ev));
        }
        const Matrix dy = operand(a_.dy), slopes = scratch(inner_at_, kept);
        product("attention_slopes", a_.l, a_.s, a_.ev, dy, false, v, true,
                scratch(slopes_at_, DType::Float32));
        rows();
        const std::int64_t after_q = a_.heads() * a_.l * a_.e,
                           after_k = after_q + a_.heads() * a_.s * a_.e;
        product("attention_grad_query", a_.l, a_.e, a_.s, slopes, false, k, false,
                result(0, a_.l, a_.e));
        product("attention_grad_key", a_.s, a_.e, a_.l, slopes, true, q, false,
                result(after_q, a_.s, a_.e));
        product("attention_grad_value", a_.s, a_.ev, a_.l, weights, true, dy, false,
                result(after_k, a_.s, a_.ev));
    }

    // Every thread of a row's team gets the row's maximum or sum, taken in the same order.
    std::string across(const char* name, bool maximum) const {
        return fmt::format(
            "BARRIER();\nexchange[int(LANE)] = {0};\nBARRIER();\n{0} = exchange[team * {1}];\n"
            "{2} for (int t = 1; t < {1}; t++) {{\nfloat o = exchange[team * {1} + t];\n{3}\n}}\n",
            name, kTeam, f_.small_tiles ? "ROLL" : "UNROLL",
            maximum ? fmt::format("if (o > {0}) {0} = o;", name)
                    : fmt::format("{0} = {0} + o;", name));
    }
    std::string over_columns(const std::string& body) const {
        return fmt::format(
            "if (ok) {{\nROLL for (int j = lane * 4; j < {}; j += {}) {{\n"
            "F4 x = LD_F4(scores, (row * {} + j) / 4);\n{}}}\n}}\n",
            stride_, 4 * kTeam, stride_, body);
    }
    std::string put(const char* to, const char* names) const {
        const std::string at = fmt::format("row * {} + j", stride_);
        if (!halves_)
            return fmt::format("ST_F4({0}, ({1}) / 4, MAKE_F4({2}0, {2}1, {2}2, {2}3));\n", to, at,
                               names);
        return fmt::format(
            "ST_U32({0}, ({1}) / 2, pack_f16({2}0, {2}1));\n"
            "ST_U32({0}, ({1}) / 2 + 1, pack_f16({2}2, {2}3));\n",
            to, at, names);
    }

    // From scores to weights; in the gradient also from the slopes of weights to those of scores.
    void rows() {
        const std::int64_t all = heads_ * a_.l;
        if (all == 0) return;
        KernelSource k;
        k.name = gradient_ ? "attention_rows_grad" : "attention_rows";
        k.functions = score_functions(a_);
        k.shared = {{"float", "exchange", k.threads}};
        const int teams = k.threads / kTeam;
        std::string& o = k.body;
        o += fmt::format(
            "PTR scores = ADDRESS(1);\nPTR weights = ADDRESS(2);\nPTR slopes = ADDRESS(3);\n"
            "PTR inner = ADDRESS(4);\nPTR mask = ADDRESS(5);\n"
            "int lane = int(LANE) % {0};\nint team = int(LANE) / {0};\n"
            "int row = int(GROUP) * {1} + team;\nbool ok = row < {2};\n"
            "int i = row % {3};\nint head = row / {3} + int(ARG(7));\n"
            "int b = head / {4};\nint h = head % {4};\nint mask_base = 0;\n",
            kTeam, teams, all, a_.l, a_.h);
        for (int d = 0; a_.has_mask && d < 2; ++d)
            if (a_.mask.shape[d] != 1)
                o += fmt::format("mask_base = mask_base + {} * {};\n", d ? "h" : "b",
                                 a_.mask.strides[static_cast<std::size_t>(d)]);
        if (a_.has_dropout)
            o += fmt::format(
                "I64 key = LD_I64(ADDRESS(6), 0);\nI64 stream = LD_I64(ADDRESS(6), {});\n",
                a_.seed.strides[0]);
        const auto each = [](const char* text) {
            std::string out;
            for (int c = 0; c < 4; ++c)
                out += fmt::format(fmt::runtime(text), c, "xyzw"[c]);
            return out;
        };
        // Adjusted scores take the place of the products, for the next two times.
        o += "float m = AS_FLOAT(0xff800000u);\n";
        o += over_columns(
            each("float x{0} = adjusted(mask, mask_base, i, j + {0}, x.{1});\n"
                 "if (x{0} > m) m = x{0};\n") +
            fmt::format("ST_F4(scores, (row * {} + j) / 4, MAKE_F4(x0, x1, x2, x3));\n", stride_));
        o += across("m", true);
        const std::string exponents =
            each("float e{0} = AS_UINT(x.{1}) == 0xff800000u ? 0.0f : m_exp(x.{1} - m);\n");
        std::string kept, slopes;
        if (a_.has_dropout) kept = "F4 f = kept(key, stream, head, i, j);\n";
        const char* times = a_.has_dropout ? " * f.{1}" : "";
        if (gradient_)
            slopes =
                fmt::format("F4 s = LD_F4(slopes, (row * {} + j) / 4);\n", stride_) + kept +
                each(fmt::format("float d{{0}} = j + {{0}} < {} ? s.{{1}}{} : 0.0f;\n", a_.s, times)
                         .c_str());
        o += "float l = 0.0f;\nfloat d = 0.0f;\n";
        o += over_columns(exponents + slopes + each("l = l + e{0};\n") +
                          (gradient_ ? each("d = FMA(e{0}, d{0}, d);\n") : ""));
        o += across("l", false);
        if (gradient_) o += across("d", false);
        // A row that sees no key is zeros.
        o += "float f_l = l == 0.0f ? 0.0f : 1.0f / l;\nd = d * f_l;\n";
        std::string last = exponents + (gradient_ ? slopes : kept);
        last += each("float p{0} = e{0} * f_l;\n");
        if (gradient_)
            last += each(fmt::format("float q{{0}} = p{{0}} * (d{{0}} - d) * {};\n",
                                     constant(DType::Float32, a_.attrs.scale, 0))
                             .c_str());
        last += each(fmt::format("float w{{0}} = p{{0}}{};\n", times).c_str());
        last += put("weights", "w") + (gradient_ ? put("inner", "q") : "");
        o += over_columns(last);
        Dispatch d;
        d.groups = ceil_div(all, teams);
        d.args = {value_arg(d.groups),
                  scratch_arg(scores_at_),
                  scratch_arg(weights_at_),
                  scratch_arg(slopes_at_),
                  scratch_arg(inner_at_),
                  a_.has_mask ? operand_arg(a_.mask) : value_arg(0),
                  a_.has_dropout ? operand_arg(a_.seed) : value_arg(0),
                  value_arg(first_ * a_.h)};
        d.kernel = w_.add(std::move(k));
        s_.dispatches.push_back(std::move(d));
    }

    Work& w_;
    Step& s_;
    const plan::HeavyLaunch& l_;
    const AttentionShape& a_;
    const Features& f_;
    const bool gradient_;
    const std::int64_t stride_;  // of a row of scores
    bool halves_ = false;        // weights are kept for matrix units
    std::int64_t parts_ = 0, first_ = 0, heads_ = 0;
    std::int64_t scores_at_ = 0, slopes_at_ = 0, weights_at_ = 0, inner_at_ = 0;
    ScratchPlaces scratch_{w_};
};

}  // namespace

bool write_attention_products(Work& w, Step& s, const plan::HeavyLaunch& l, const AttentionShape& a,
                              const Features& f) {
    if (a.l == 0 || a.s == 0 || a.heads() == 0 || a.e == 0 || a.ev == 0) return false;
    Products p(w, s, l, a, f, l.operands.size() > 3u + a.has_mask + a.has_dropout);
    if (!p.fits()) return false;
    p.run();
    return true;
}

}  // namespace pippin::gpu
