// cumsum: sums of blocks of a line, then sums up to each block, then elements; short lines in one
// go. Floats are added up in two floats, which are as good as the processor's doubles (Knuth's
// two-sum); integers wrap.
#include <fmt/format.h>

#include "backends/gpu/expression.h"
#include "backends/gpu/gemm.h"
#include "backends/gpu/heavy.h"
#include "backends/gpu/lines.h"
#include "graph/ops/records_order.h"
#include "pippin/error.h"

namespace pippin::gpu {

namespace {

namespace ops = graph::ops;

class ScanWriter {
  public:
    ScanWriter(Work& w, Step& s, const plan::HeavyLaunch& l)
        : w_(w),
          s_(s),
          x_(l.operands[0]),
          y_(l.output),
          lines_(x_.shape, ops::dim_attr(l.attrs)),
          reverse_(ops::reverse_attr(l.attrs)),
          reg_(register_type(y_.dtype)) {
        if (reg_ == DType::Bool) throw Error("there is no gpu kernel for bool");
    }

    void run() {
        if (x_.shape.numel() == 0) return;
        blocks_ = (lines_.n + kBlock - 1) / kBlock;
        const std::int64_t parts = lines_.count() * blocks_;
        if (blocks_ > 60000) throw Error("a line is too long");
        if (blocks_ > 1) w_.scratch_bytes = std::max(w_.scratch_bytes, parts * 8);
        if (blocks_ > 1) {
            add("cumsum_blocks", start(false) + loop("") + keep("i"), parts);
            add("cumsum_parts",
                fmt::format("{}ROLL for (int p = 0; p < {}; p++) {{\nint at = i * {} + p;\n",
                            zero("sum") + zero("next"), blocks_, blocks_) +
                    read("next", "at") + keep("at") + plus("next") + "}\n",
                lines_.count());
        }
        add("cumsum", start(blocks_ > 1) + loop(elements_store()), parts);
    }

  private:
    static constexpr std::int64_t kBlock = 512;

    bool real() const { return reg_ == DType::Float32; }
    std::string zero(const std::string& name) const {
        if (real()) return fmt::format("float {0} = 0.0f;\nfloat {0}_rest = 0.0f;\n", name);
        return fmt::format("{} {} = {};\n", type_name(reg_), name, constant(reg_, 0, 0));
    }
    std::string plus(const std::string& name) const {
        if (!real()) return fmt::format("sum = sum + {};\n", name);
        // What is not finite has no rest: inf - inf would be NaN.
        return fmt::format(
            "{{\nfloat v = {0};\nEXACT float s = sum + v;\nEXACT float b = s - sum;\n"
            "EXACT float lost = (sum - (s - b)) + (v - b);\n"
            "sum_rest = is_finite(s) ? sum_rest + lost + {0}_rest : 0.0f;\nsum = s;\n}}\n",
            name);
    }
    std::string keep(const std::string& at) const {
        if (real())
            return fmt::format(
                "ST_F32(parts, 2 * ({0}), sum);\nST_F32(parts, 2 * ({0}) + 1, sum_rest);\n", at);
        if (reg_ == DType::Int64) return fmt::format("ST_I64(parts, {}, sum);\n", at);
        return fmt::format("ST_I32(parts, 2 * ({}), sum);\n", at);
    }
    std::string read(const std::string& name, const std::string& at) const {
        if (real())
            return fmt::format(
                "{0} = LD_F32(parts, 2 * ({1}));\n{0}_rest = LD_F32(parts, 2 * ({1}) + 1);\n", name,
                at);
        if (reg_ == DType::Int64) return fmt::format("{} = LD_I64(parts, {});\n", name, at);
        return fmt::format("{} = LD_I32(parts, 2 * ({}));\n", name, at);
    }
    // Thread i is for block i % blocks_ of line i / blocks_.
    std::string start(bool from_parts) const {
        std::string o = zero("sum");
        if (from_parts) o += read("sum", "i");
        return o + fmt::format(
                       "int line = i / {0};\nint begin = i % {0} * {1};\nint end = begin + {1};\n"
                       "if (end > {2}) end = {2};\nint first = {3};\n",
                       blocks_, kBlock, lines_.n, lines_.first("line"));
    }
    std::string loop(const std::string& each) const {
        const std::string j = reverse_ ? fmt::format("({} - j)", lines_.n - 1) : "j";
        std::string o = "ROLL for (int j = begin; j < end; j++) {\n";
        o += fmt::format("int at = first + {} * {};\n{} next = {};\n", j, lines_.inner,
                         type_name(reg_), load(x_.dtype, "x", "at"));
        if (real()) o += "float next_rest = 0.0f;\n";
        return o + plus("next") + each + "}\n";
    }
    std::string elements_store() const {
        return store(y_.dtype, "y", "at", real() ? "(sum + sum_rest)" : "sum") + ";\n";
    }
    void add(const char* name, const std::string& body, std::int64_t count) {
        add_elements(w_, s_, name, "",
                     "PTR x = ADDRESS(1);\nPTR y = ADDRESS(2);\nPTR parts = ADDRESS(3);\n" + body,
                     count, {operand_arg(x_), operand_arg(y_), scratch_arg(0)});
    }

    Work& w_;
    Step& s_;
    const plan::Operand &x_, &y_;
    Lines lines_;
    bool reverse_;
    DType reg_;
    std::int64_t blocks_ = 1;
};

}  // namespace

void write_cumsum(Work& w, Step& s, const plan::HeavyLaunch& l, const Features&) {
    check_dense(l);
    ScanWriter(w, s, l).run();
}

}  // namespace pippin::gpu
