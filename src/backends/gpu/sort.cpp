// argsort, and with it sort and top-k. Elements become unsigned keys of the same order, NaN the
// largest, and positions decide among equals, so that the order is stable whatever sorts. Blocks of
// a line are sorted in shared memory (Batcher 1968); runs then merge two by two, each element
// finding its place by a search in the other run.
#include <algorithm>

#include <fmt/format.h>

#include "backends/gpu/expression.h"
#include "backends/gpu/gemm.h"
#include "backends/gpu/heavy.h"
#include "backends/gpu/lines.h"
#include "backends/gpu/sort.h"
#include "graph/ops/records_order.h"
#include "pippin/error.h"

namespace pippin::gpu {

namespace {

namespace ops = graph::ops;

class SortWriter {
  public:
    SortWriter(Work& w, Step& s, const plan::HeavyLaunch& l)
        : w_(w),
          s_(s),
          x_(l.operands[0]),
          y_(&l.output),
          lines_(x_.shape, ops::dim_attr(l.attrs)),
          count_(ops::count_attr(l.attrs)),
          descending_(ops::descending_attr(l.attrs)),
          wide_(x_.dtype == DType::Int64) {}
    // Of indices, whose keys and positions stay in scratch.
    SortWriter(Work& w, Step& s, const plan::Operand& index)
        : w_(w), s_(s), x_(index), lines_(x_.shape, 0), count_(lines_.n) {}

    void run() {
        if (lines_.count() == 0 || count_ == 0) return;
        while (block_ < kBlock && block_ < lines_.n)
            block_ *= 2;
        blocks_ = ceil_div(lines_.n, block_);
        all_ = lines_.count() * lines_.n;
        if (all_ * 3 >= (std::int64_t{1} << 31)) throw Error("it is too large for 32-bit indices");
        if (keeps()) w_.scratch_bytes = std::max(w_.scratch_bytes, 2 * bytes());
        sort_blocks();
        for (std::int64_t width = block_; width < lines_.n; width *= 2, side_ = 1 - side_)
            merge(width, side_);
    }
    SortedIndices sorted() const {
        return {side_ * bytes(), side_ * bytes() + 4 * all_, 2 * bytes()};
    }

  private:
    static constexpr std::int64_t kBlock = 2048;  // 24 KiB of wide keys and positions

    bool keeps() const { return blocks_ > 1 || !y_; }  // something in scratch
    // Scratch: keys, the lower halves of wide ones, positions; twice.
    std::int64_t bytes() const { return all_ * 4 * (wide_ ? 3 : 2); }
    std::string low(const std::string& i) const { return fmt::format("{} + {}", all_, i); }
    std::string position(const std::string& i) const {
        return fmt::format("{} + {}", all_ * (wide_ ? 2 : 1), i);
    }

    // uint high, low: the key of the element at `at`.
    std::string key(const std::string& at) const {
        const std::string x = load(x_.dtype, "x", at);
        std::string o;
        if (!y_) return fmt::format("high = uint({});\n", x);
        switch (register_type(x_.dtype)) {
            case DType::Bool:
                o = fmt::format("high = {} ? 1u : 0u;\n", x);
                break;
            case DType::Int32:
                o = fmt::format("high = uint({}) ^ 0x80000000u;\n", x);
                break;
            case DType::Int64:
                o = fmt::format(
                    "I64 v = {};\nhigh = uint(v >> 32) ^ 0x80000000u;\nlow = uint(v);\n", x);
                break;
            default:
                o = fmt::format(
                    "float v = {};\nuint u = AS_UINT(v);\nif (u == 0x80000000u) u = 0u;\n"
                    "high = is_nan(v) ? 0xffffffffu : (u >> 31) != 0u ? ~u : (u | 0x80000000u);\n",
                    x);
        }
        if (descending_) o += wide_ ? "high = ~high;\nlow = ~low;\n" : "high = ~high;\n";
        return o;
    }
    // Whether a comes before b, each the suffix of three variables.
    std::string before(const std::string& a, const std::string& b) const {
        std::string o = fmt::format("high{0} < high{1} || (high{0} == high{1} && (", a, b);
        if (wide_) o += fmt::format("low{0} < low{1} || (low{0} == low{1} && ", a, b);
        o += fmt::format("at{0} < at{1}", a, b);
        return o + (wide_ ? ")))" : "))");
    }
    std::string result(const std::string& line, const std::string& rank) const {
        return fmt::format("{} + ({}) * {}", lines_.first(line, count_), rank, lines_.inner);
    }

    void sort_blocks() {
        const std::int64_t segments = lines_.count() * blocks_;
        // Short lines share a group.
        const std::int64_t together = std::max<std::int64_t>(1, 256 / block_);
        const std::int64_t size = together * block_;
        KernelSource k;
        k.name = "sort_blocks";
        k.threads = 128;
        k.shared = {{"uint", "keys", static_cast<int>(size)},
                    {"uint", "places", static_cast<int>(size)}};
        if (wide_) k.shared.push_back({"uint", "lows", static_cast<int>(size)});
        std::string& o = k.body;
        o = "PTR x = ADDRESS(1);\nPTR y = ADDRESS(2);\nPTR to = ADDRESS(3);\n";
        o += fmt::format(
            "int segment0 = int(GROUP) * {2};\n"
            "ROLL for (int e = int(LANE); e < {0}; e += int(THREADS)) {{\n"
            "int segment = segment0 + e / {1};\nint line = segment / {3};\n"
            "int j = segment % {3} * {1} + e % {1};\nuint high = 0xffffffffu;\n"
            "uint low = 0xffffffffu;\n"
            "if (segment < {4} && j < {5}) {{\n",
            size, block_, together, blocks_, segments, lines_.n);
        o += key(fmt::format("{} + j * {}", lines_.first("line"), lines_.inner)) +
             "}\nkeys[e] = high;\nplaces[e] = uint(j);\n" + (wide_ ? "lows[e] = low;\n" : "") +
             "}\nBARRIER();\n";
        // Pairs `apart` from each other, in sequences of `run` that go up and down by turns.
        o += fmt::format(
            "ROLL for (int run = 2; run <= {0}; run = run * 2) {{\n"
            "ROLL for (int apart = run / 2; apart > 0; apart = apart / 2) {{\n"
            "ROLL for (int p = int(LANE); p < {1}; p += int(THREADS)) {{\n"
            "int a = p / apart * apart * 2 + p % apart;\nint b = a + apart;\n"
            "bool up = (a & ({0} - 1) & run) == 0;\n"
            "uint high_a = keys[a];\nuint high_b = keys[b];\n"
            "uint at_a = places[a];\nuint at_b = places[b];\n",
            block_, size / 2);
        if (wide_) o += "uint low_a = lows[a];\nuint low_b = lows[b];\n";
        o += fmt::format("bool less = {};\nif (less != up) {{\n", before("_a", "_b"));
        o += "keys[a] = high_b;\nkeys[b] = high_a;\nplaces[a] = at_b;\nplaces[b] = at_a;\n";
        if (wide_) o += "lows[a] = low_b;\nlows[b] = low_a;\n";
        o += "}\n}\nBARRIER();\n}\n}\n";
        o += fmt::format(
            "ROLL for (int e = int(LANE); e < {0}; e += int(THREADS)) {{\n"
            "int segment = segment0 + e / {1};\nint line = segment / {2};\n"
            "int first = segment % {2} * {1};\nint rank = e % {1};\n"
            "if (segment < {3} && first + rank < {4} && rank < {5}) {{\n",
            size, block_, blocks_, segments, lines_.n, count_);
        if (!keeps()) {
            o += fmt::format("ST_I64(y, {}, I64(places[e]));\n", result("line", "rank"));
        } else {
            o += fmt::format(
                "int i = line * {} + first + rank;\nST_U32(to, i, keys[e]);\n"
                "ST_U32(to, {}, places[e]);\n",
                lines_.n, position("i"));
            if (wide_) o += fmt::format("ST_U32(to, {}, lows[e]);\n", low("i"));
        }
        o += "}\n}\n";
        Dispatch d;
        d.groups = ceil_div(segments, together);
        d.args = {value_arg(d.groups), operand_arg(x_), result_arg(),
                  keeps() ? scratch_arg(0) : value_arg(0)};
        d.kernel = w_.add(std::move(k));
        s_.dispatches.push_back(std::move(d));
    }

    // Runs of `width` become runs of twice that; of each, the first count_ are all that matters.
    void merge(std::int64_t width, int side) {
        const bool last = y_ && 2 * width >= lines_.n;
        const auto read = [&](const std::string& suffix, const std::string& i) {
            std::string o = fmt::format("uint high{0} = LD_U32(from, {1});\n", suffix, i);
            if (wide_) o += fmt::format("uint low{} = LD_U32(from, {});\n", suffix, low(i));
            return o + fmt::format("uint at{} = LD_U32(from, {});\n", suffix, position(i));
        };
        std::string o = fmt::format(
            "PTR from = ADDRESS(1);\nPTR to = ADDRESS(2);\nPTR y = ADDRESS(3);\n"
            "int width = int(ARG(4));\nint line = i / {0};\nint j = i % {0};\n"
            "int own = j % width;\n"
            "if (own < {1}) {{\n"
            "int first = j / (2 * width) * 2 * width;\n"
            "int other = first + (j - own == first ? width : 0);\n"
            "int begin = 0;\nint end = {0} - other;\nif (end > width) end = width;\n"
            "if (end > {1}) end = {1};\n",
            lines_.n, count_);
        o += read("", "i");
        // end < 0 where there is no other run: the search does not begin.
        o += fmt::format(
            "ROLL while (begin < end) {{\nint middle = (begin + end) / 2;\n"
            "int m = line * {} + other + middle;\n",
            lines_.n);
        o += read("_m", "m");
        o += fmt::format("if ({}) begin = middle + 1;\nelse end = middle;\n}}\n", before("_m", ""));
        o += fmt::format("int rank = own + begin;\nif (rank < {}) {{\n", count_);
        if (last) {
            o += fmt::format("ST_I64(y, {}, I64(at));\n", result("line", "rank"));
        } else {
            o += fmt::format(
                "int t = line * {} + first + rank;\nST_U32(to, t, high);\nST_U32(to, {}, at);\n",
                lines_.n, position("t"));
            if (wide_) o += fmt::format("ST_U32(to, {}, low);\n", low("t"));
        }
        o += "}\n}\n";
        add_elements(w_, s_, last ? "sort_merge_last" : "sort_merge", "", o, all_,
                     {scratch_arg(side * bytes()), scratch_arg((1 - side) * bytes()), result_arg(),
                      value_arg(width)});
    }

    Arg result_arg() const { return y_ ? operand_arg(*y_) : value_arg(0); }

    Work& w_;
    Step& s_;
    const plan::Operand& x_;
    const plan::Operand* y_ = nullptr;
    Lines lines_;
    std::int64_t count_;
    bool descending_ = false, wide_ = false;
    std::int64_t block_ = 2, blocks_ = 1, all_ = 0;
    int side_ = 0;  // which half of scratch has the runs so far
};

}  // namespace

void check_dense(const plan::HeavyLaunch& l) {
    const auto check = [](const plan::Operand& o) {
        if (o.dtype == DType::Float64) throw Error("there is no gpu kernel for float64");
        std::int64_t step = 1;
        for (int d = o.shape.rank() - 1; d >= 0; --d) {
            if (o.shape[d] > 1 && o.strides[static_cast<std::size_t>(d)] != step)
                throw Error("its operands must be row-major");
            step *= std::max<std::int64_t>(o.shape[d], 1);
        }
        if (step >= (std::int64_t{1} << 31) - 4096)
            throw Error("it is too large for 32-bit indices");
    };
    for (const auto& o : l.operands)
        check(o);
    check(l.output);
}

void add_elements(Work& w, Step& s, std::string name, const std::string& functions,
                  const std::string& body, std::int64_t count, std::vector<Arg> args) {
    if (count == 0) return;
    KernelSource k;
    k.name = std::move(name);
    k.functions = functions;
    k.body =
        fmt::format("int i = int(GROUP * THREADS + LANE);\nif (i < {}) {{\n{}}}\n", count, body);
    Dispatch d;
    d.groups = ceil_div(count, k.threads);
    d.args = std::move(args);
    d.args.insert(d.args.begin(), value_arg(d.groups));
    d.kernel = w.add(std::move(k));
    s.dispatches.push_back(std::move(d));
}

SortedIndices write_sorted_indices(Work& w, Step& s, const plan::Operand& index) {
    SortWriter writer(w, s, index);
    writer.run();
    return writer.sorted();
}

void write_argsort(Work& w, Step& s, const plan::HeavyLaunch& l, const Features&) {
    check_dense(l);
    SortWriter(w, s, l).run();
}

}  // namespace pippin::gpu
