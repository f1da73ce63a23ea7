// gather, scatter, scatter_add, index_select and index_add. Each element of the result is one
// thread's, which adds in the order of the source; indices that are out of range are reported and
// not followed.
#include <algorithm>

#include <fmt/format.h>

#include "backends/gpu/expression.h"
#include "backends/gpu/gemm.h"
#include "backends/gpu/heavy.h"
#include "backends/gpu/sort.h"
#include "graph/ops/records_order.h"
#include "pippin/error.h"

namespace pippin::gpu {

namespace {

namespace ops = graph::ops;

void check_sizes(const plan::Operand& o) {
    if (o.dtype == DType::Float64) throw Error("there is no gpu kernel for float64");
    std::int64_t reach = 0;
    for (int d = 0; d < o.shape.rank(); ++d)
        reach += std::max<std::int64_t>(o.shape[d] - 1, 0) *
                 std::abs(o.strides[static_cast<std::size_t>(d)]);
    if (reach >= (std::int64_t{1} << 31) - 4096) throw Error("it is too large for 32-bit indices");
}

// int c0..: the coordinates of element i of a shape, in row-major order.
std::string coordinates(const Shape& shape) {
    std::string out;
    std::int64_t below = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
        out +=
            fmt::format("int c{} = i / {} % {};\n", d, below, std::max<std::int64_t>(shape[d], 1));
        below *= std::max<std::int64_t>(shape[d], 1);
    }
    return out;
}
std::vector<std::string> names(const Shape& shape) {
    std::vector<std::string> c;
    for (int d = 0; d < shape.rank(); ++d)
        c.push_back(fmt::format("c{}", d));
    return c;
}

class IndexWriter {
  public:
    IndexWriter(Work& w, Step& s, const plan::HeavyLaunch& l) : w_(w), s_(s), l_(l) {
        for (const auto& o : l.operands)
            check_sizes(o);
        check_sizes(l.output);
    }

    // y[.., j, ..] = x[.., index[.., j, ..], ..], or index[j] alone
    void gather(bool whole_index) {
        const plan::Operand &x = l_.operands[0], &index = l_.operands[1], &y = l_.output;
        const int dim = ops::dim_attr(l_.attrs);
        auto at = names(y.shape);
        std::string body = element(y.shape.numel()) + coordinates(y.shape);
        body += read_index(index, whole_index ? at : std::vector<std::string>{at_dim(at, dim)},
                           x.shape[dim]);
        auto from = at;
        if (!from.empty()) from[static_cast<std::size_t>(dim)] = "int(j)";
        body += fmt::format("{};\n", store(y.dtype, "ADDRESS(3)", strided_index(y, at),
                                           load(x.dtype, "ADDRESS(1)", strided_index(x, from))));
        finish(l_.op->name, body + "}\n}\n", y.shape.numel(), {x, index, y});
    }

    // y[.., e, ..] = the sum of src[.., l, ..] where index[.., l, ..] (or index[l]) is e
    void scatter(bool whole_index) {
        const plan::Operand &index = l_.operands[0], &src = l_.operands[1], &y = l_.output;
        const int dim = ops::dim_attr(l_.attrs);
        check_all(index, y.shape[dim]);
        const auto k = static_cast<std::size_t>(dim);
        auto at = names(y.shape);
        const DType reg = register_type(y.dtype);
        if (reg == DType::Bool) throw Error("there is no gpu kernel for bool");
        std::string body = element(y.shape.numel()) + coordinates(y.shape);
        auto from = at;
        from[k] = "l";
        // Where src is shorter than y, the rest of it gets nothing.
        std::string inside;
        for (int d = 0; d < y.shape.rank(); ++d)
            if (d != dim && src.shape[d] < y.shape[d])
                inside += fmt::format(" && c{} < {}", d, src.shape[d]);
        body += fmt::format("{} sum = {};\n", type_name(reg), constant(reg, 0, 0));
        if (!inside.empty()) body += "if (true" + inside + ")\n";
        body += fmt::format(
            "ROLL for (int l = 0; l < {}; l++)\nif (int({}) == c{}) sum = sum + {};\n",
            src.shape[dim],
            load(index.dtype, "ADDRESS(1)",
                 strided_index(index, whole_index ? from : std::vector<std::string>{"l"})),
            dim, load(src.dtype, "ADDRESS(2)", strided_index(src, from)));
        if (src.shape[dim] > kLongest) throw Error("too many indices for one thread");
        body += store(y.dtype, "ADDRESS(3)", strided_index(y, at), "sum") + ";\n";
        finish(l_.op->name, body + "}\n", y.shape.numel(), {index, src, y});
    }

    // y = x, then y[.., index[.., l, ..], ..] = src[.., l, ..]: the last of several for one place
    void put() {
        const plan::Operand &x = l_.operands[0], &index = l_.operands[1], &src = l_.operands[2],
                            &y = l_.output;
        const int dim = ops::dim_attr(l_.attrs);
        const auto k = static_cast<std::size_t>(dim);
        check_all(index, y.shape[dim]);
        const auto at = names(y.shape);
        finish("scatter_copy",
               element(y.shape.numel()) + coordinates(y.shape) +
                   store(y.dtype, "ADDRESS(3)", strided_index(y, at),
                         load(x.dtype, "ADDRESS(1)", strided_index(x, at))) +
                   ";\n}\n",
               y.shape.numel(), {x, index, y});
        // A thread has a line, so that its order decides.
        if (src.shape[dim] > kLongest) throw Error("too many indices for one thread");
        Shape lines = index.shape;
        lines[dim] = std::min<std::int64_t>(lines[dim], 1);
        auto from = at, to = at;
        from[k] = "l", to[k] = "int(e)";
        finish("scatter",
               element(lines.numel()) + coordinates(lines) +
                   fmt::format("ROLL for (int l = 0; l < {}; l++) {{\n{} e = {};\n"
                               "if (e >= {}(0) && e < {}({}))\n{};\n}}\n}}\n",
                               index.shape[dim], type_name(index.dtype),
                               load(index.dtype, "ADDRESS(1)", strided_index(index, from)),
                               type_name(index.dtype), type_name(index.dtype), y.shape[dim],
                               store(y.dtype, "ADDRESS(3)", strided_index(y, to),
                                     load(src.dtype, "ADDRESS(2)", strided_index(src, from)))),
               lines.numel(), {index, src, y});
    }

    // The same for an index of one dim, sorted first: each element looks up the run of its own
    // index, whose members are in the order of the source.
    void scatter_sorted() {
        const plan::Operand &index = l_.operands[0], &src = l_.operands[1], &y = l_.output;
        const int dim = ops::dim_attr(l_.attrs);
        check_all(index, y.shape[dim]);
        if (y.shape.numel() == 0) return;
        const SortedIndices sorted = write_sorted_indices(w_, s_, index);
        const DType reg = register_type(y.dtype);
        if (reg == DType::Bool) throw Error("there is no gpu kernel for bool");
        const auto at = names(y.shape);
        auto from = at;
        from[static_cast<std::size_t>(dim)] = "l";
        std::string body = element(y.shape.numel()) + coordinates(y.shape);
        body += fmt::format(
            "PTR indices = ADDRESS(4);\nPTR positions = ADDRESS(5);\n"
            "uint own = uint(c{0});\nint begin = 0;\nint end = {1};\n"
            "ROLL while (begin < end) {{\nint middle = (begin + end) / 2;\n"
            "if (LD_U32(indices, middle) < own) begin = middle + 1;\nelse end = middle;\n}}\n"
            "{2} sum = {3};\n"
            "ROLL for (int k = begin; k < {1}; k++) {{\n"
            "if (LD_U32(indices, k) != own) break;\nint l = int(LD_U32(positions, k));\n"
            "sum = sum + {4};\n}}\n{5};\n}}\n",
            dim, index.shape.numel(), type_name(reg), constant(reg, 0, 0),
            load(src.dtype, "ADDRESS(2)", strided_index(src, from)),
            store(y.dtype, "ADDRESS(3)", strided_index(y, at), "sum"));
        KernelSource k;
        k.name = "index_add";
        k.body = std::move(body);
        Dispatch d;
        d.groups = (y.shape.numel() + k.threads - 1) / k.threads;
        d.args = {value_arg(d.groups),
                  value_arg(0),
                  operand_arg(src),
                  operand_arg(y),
                  scratch_arg(sorted.indices),
                  scratch_arg(sorted.positions)};
        d.kernel = w_.add(std::move(k));
        s_.dispatches.push_back(std::move(d));
    }

  private:
    static constexpr std::int64_t kLongest = 60000;

    static std::string at_dim(const std::vector<std::string>& at, int dim) {
        return at.empty() ? "0" : at[static_cast<std::size_t>(dim)];
    }
    static std::string element(std::int64_t count) {
        return fmt::format("int i = int(GROUP * THREADS + LANE);\nif (i < {}) {{\n", count);
    }

    std::int64_t add_check(std::int64_t extent) {
        w_.checks.push_back({l_.op->name, 0, extent});
        return static_cast<std::int64_t>(w_.checks.size()) - 1;
    }
    // Opens a block for a good index j; a bad one is reported. j has the index' own type: Mesa 22.3
    // compares 64-bit values that came from 32-bit ones wrongly.
    std::string read_index(const plan::Operand& index, const std::vector<std::string>& at,
                           std::int64_t extent) {
        check_ = add_check(extent);
        return fmt::format(
            "{0} j = {1};\n"
            "if (j < {0}(0) || j >= {0}({2})) {{\n"
            "{3}}} else {{\n",
            type_name(index.dtype), load(index.dtype, "ADDRESS(2)", strided_index(index, at)),
            extent, report_index("ADDRESS(4)", "ARG(5)", "I64(j)"));
    }

    // Looks at every index once, before sums that ask for equality alone.
    void check_all(const plan::Operand& index, std::int64_t extent) {
        const std::int64_t n = index.shape.numel();
        if (n == 0) return;
        std::string body = element(n) + coordinates(index.shape) +
                           read_index(index, names(index.shape), extent) + "}\n}\n";
        finish("check_index", body, n, {index, index, index});
    }

    void finish(const char* name, std::string body, std::int64_t count,
                const std::vector<plan::Operand>& operands) {
        if (count == 0) return;
        KernelSource k;
        k.name = name;
        k.body = std::move(body);
        Dispatch d;
        d.groups = (count + k.threads - 1) / k.threads;
        d.args = {value_arg(d.groups)};
        for (const auto& o : operands)
            d.args.push_back(operand_arg(o));
        d.args.push_back(error_arg());
        d.args.push_back(value_arg(check_));
        d.kernel = w_.add(std::move(k));
        s_.dispatches.push_back(std::move(d));
    }

    Work& w_;
    Step& s_;
    const plan::HeavyLaunch& l_;
    std::int64_t check_ = 0;
};

}  // namespace

void write_index(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f) {
    IndexWriter writer(w, s, l);
    if (l.op == &ops::kGather) return writer.gather(true);
    if (l.op == &ops::kIndexSelect) return writer.gather(false);
    if (l.op == &ops::kScatter) return writer.put();
    // Many indices at every element would be a product of the two extents.
    const std::int64_t n = l.operands[0].shape.numel();
    const bool dense = l.operands[0].shape.rank() == 1 && l.operands[0].strides[0] == 1;
    if (l.op == &ops::kIndexAdd && dense && n > 64 && (!f.small_tiles || n < f.max_loop))
        return writer.scatter_sorted();
    writer.scatter(l.op == &ops::kScatterAdd);
}

}  // namespace pippin::gpu
