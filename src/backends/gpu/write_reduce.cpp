// Programs that reduce. For each kept point some threads go over the reduced points in steps, each
// with a state of its own; a tree over shared memory makes one state of those. Rows have their
// threads side by side along the row; columns have the kept points side by side, so that both read
// memory in one run. Where kept points are few and reduced ones many, several groups share the work
// of one point (chunks): their states go to scratch memory and a second kernel merges them.
#include <algorithm>
#include <bit>
#include <map>

#include <fmt/format.h>

#include "backends/gpu/program_writer.h"
#include "backends/gpu/reduction_state.h"
#include "pippin/error.h"

namespace pippin::gpu {

using plan::Form;
using plan::Instr;
using plan::Opcode;
using plan::Program;

namespace {

constexpr int kThreads = 256;

std::int64_t power_above(std::int64_t n) {
    return static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

// How threads and groups share the points.
struct Tiling {
    std::int64_t kept = 1, reduced = 1;  // points
    int kept_threads = 1, reduced_threads = 1;
    bool kept_adjacent = false;  // neighbouring threads have neighbouring kept points
    std::int64_t chunks = 1;     // groups along the reduced points
    std::int64_t chunk_length() const { return (reduced + chunks - 1) / chunks; }
    std::int64_t kept_groups() const { return (kept + kept_threads - 1) / kept_threads; }
};

bool has_effect(Opcode op) { return op == Opcode::Store || op == Opcode::CheckIndex; }

// What must be known of a program before it is written.
struct Anatomy {
    bool rows = false;
    int kept_begin = 0, kept_end = 0, reduced_begin = 0, reduced_end = 0;
    int stages = 1, last_full = 0;  // the last stage whose full values are stored or checked
    std::vector<std::int32_t> reductions;
    bool only_first_stage_is_full = true;

    explicit Anatomy(const Program& p) {
        rows = p.form == Form::RowReduce;
        kept_begin = rows ? 0 : p.split, kept_end = rows ? p.split : p.rank;
        reduced_begin = rows ? p.split : 0, reduced_end = rows ? p.rank : p.split;
        for (std::size_t n = 0; n < p.body.size(); ++n) {
            const Instr& i = p.body[n];
            stages = std::max(stages, i.stage + 1);
            if (plan::is_reduction(i.op)) reductions.push_back(static_cast<std::int32_t>(n));
            if (i.kept) continue;
            if (i.stage > 0 && i.op != Opcode::Const && i.op != Opcode::Scalar)
                only_first_stage_is_full = false;
            if (i.op == Opcode::Store) last_full = std::max<int>(last_full, i.stage);
        }
    }
};

class ReduceWriter : public ProgramWriter {
  public:
    ReduceWriter(Work& w, const plan::ProgramLaunch& l, const Anatomy& a, const Tiling& t,
                 std::string name)
        : ProgramWriter(w, l.program, std::move(name)), launch_(l), a_(a), t_(t) {
        kernel.threads = kThreads;
        for (const auto n : a_.reductions) {
            const Instr& i = p_.body[static_cast<std::size_t>(n)];
            states_.emplace_back(i, value_type(i.a), wide_);
        }
    }

    // All of the program in one kernel.
    void whole(Step& step) {
        const std::int64_t steps = (t_.reduced + t_.reduced_threads - 1) / t_.reduced_threads;
        const auto full =
            std::count_if(p_.body.begin(), p_.body.end(), [](const Instr& i) { return !i.kept; });
        resident_ =
            !a_.only_first_stage_is_full && steps <= 8 && t_.reduced > 0 && steps * full <= 160;
        kernel.body = places() + kept_coordinates();
        for (int s = 0; s < a_.stages; ++s) {
            kept_stage(s);
            full_stage(s);
            for (std::size_t r = 0; r < states_.size(); ++r)
                if (stage_of(r) == s) tree(r);
        }
        kept_stores();
        finish(step, t_.kept_groups() * t_.chunks);
    }

    // The first stage, whose states go to scratch memory.
    void partial(Step& step, std::int64_t scratch) {
        kernel.body = places() + kept_coordinates();
        kept_stage(0);
        full_stage(0);
        std::string stores;
        for (std::size_t r = 0; r < states_.size(); ++r) {
            tree(r);
            for (std::size_t c = 0; c < states_[r].parts.size(); ++c) {
                stores +=
                    store_part(states_[r].parts[c].type, address(scratch_arg(scratch)), part(r, c));
                scratch += part_bytes(states_[r].parts[c].type) * t_.kept * t_.chunks;
            }
        }
        kernel.body += fmt::format(
            "if (kept_ok && r_local == 0u) {{\n{0} at = {0}(chunk) * {0}({1}) + j;\n{2}}}\n",
            index_type(), t_.kept, stores);
        finish(step, t_.kept_groups() * t_.chunks);
    }

    // Merges the states of `chunks` chunks and does all that is kept.
    void merge(Step& step, std::int64_t scratch, std::int64_t chunks) {
        kernel.body = places() + kept_coordinates();
        kernel.body += states();
        std::string loads;
        for (std::size_t r = 0; r < states_.size(); ++r) {
            std::vector<std::string> next;
            for (std::size_t c = 0; c < states_[r].parts.size(); ++c) {
                next.push_back(fmt::format("n{}_{}", r, c));
                const std::string& type = states_[r].parts[c].type;
                loads += fmt::format("{} {} = {};\n", type, next.back(),
                                     load_part(type, address(scratch_arg(scratch))));
                scratch += part_bytes(type) * t_.kept * chunks;
            }
            loads += states_[r].merge(part_names(r), next);
        }
        kernel.body += fmt::format(
            "ROLL for (int y = int(r_local); y < {1}; y += {2}) {{\n"
            "{0} at = {0}(y) * {0}({3}) + j;\n{4}}}\n",
            index_type(), chunks, t_.reduced_threads, t_.kept, loads);
        for (std::size_t r = 0; r < states_.size(); ++r)
            tree(r);
        for (int s = 0; s < a_.stages; ++s)
            kept_stage(s);
        kept_stores();
        finish(step, t_.kept_groups());
    }

    std::int64_t scratch_bytes() const {
        std::int64_t bytes = 0;
        for (const auto& s : states_)
            for (const auto& p : s.parts)
                bytes += part_bytes(p.type) * t_.kept * t_.chunks;
        return bytes;
    }

    std::string pointer(std::int32_t access) override {
        const auto& a = p_.accesses[static_cast<std::size_t>(access)];
        return address(slot_arg(launch_.segments[0].slots[static_cast<std::size_t>(access)],
                                first_element(a) * static_cast<std::int64_t>(size_of(a.dtype))));
    }

  private:
    static std::int64_t part_bytes(const std::string& type) { return type == "I64" ? 8 : 4; }
    static const char* part_memory(const std::string& type) {
        return type == "I64" ? "I64" : type == "int" ? "I32" : "F32";
    }
    static std::string store_part(const std::string& type, const std::string& p,
                                  const std::string& x) {
        return fmt::format("ST_{}({}, at, {});\n", part_memory(type), p, x);
    }
    static std::string load_part(const std::string& type, const std::string& p) {
        return fmt::format("LD_{}({}, at)", part_memory(type), p);
    }

    int stage_of(std::size_t r) const {
        return p_.body[static_cast<std::size_t>(a_.reductions[r])].stage;
    }
    std::string part(std::size_t r, std::size_t c) const { return fmt::format("t{}_{}", r, c); }
    std::vector<std::string> part_names(std::size_t r) const {
        std::vector<std::string> names;
        for (std::size_t c = 0; c < states_[r].parts.size(); ++c)
            names.push_back(part(r, c));
        return names;
    }

    // j: the kept point; r_local: which of its threads this is.
    std::string places() const {
        const std::string kept_groups = std::to_string(t_.kept_groups());
        std::string out;
        const char* kept_first = "uint k_local = LANE % {0}u;\nuint r_local = LANE / {0}u;\n";
        const char* reduced_first = "uint k_local = LANE / {1}u;\nuint r_local = LANE % {1}u;\n";
        out += fmt::format(fmt::runtime(t_.kept_adjacent ? kept_first : reduced_first),
                           t_.kept_threads, t_.reduced_threads);
        if (t_.chunks > 1)
            out += fmt::format("uint kept_group = GROUP % {0}u;\nuint chunk = GROUP / {0}u;\n",
                               kept_groups);
        else
            out += "uint kept_group = GROUP;\nuint chunk = 0u;\n";
        out += fmt::format(
            "{0} j = {0}(kept_group) * {0}({1}) + {0}(k_local);\n"
            "bool kept_ok = j < {0}({2});\n"
            "if (!kept_ok) j = {0}({2}) - {0}(1);\n",
            index_type(), t_.kept_threads, index_constant(t_.kept));
        return out;
    }
    std::string kept_coordinates() {
        std::string out = coordinates("j", a_.kept_begin, a_.kept_end, "k");
        kept_.suffix = "";
        kept_.index.clear();
        for (std::size_t a = 0; a < p_.accesses.size(); ++a) {
            std::string text = offset(p_.accesses[a], a_.kept_begin, a_.kept_end, "k");
            if (const std::int64_t back = shift(p_.accesses[a]); back > 0)
                text += " + " + index_constant(back);
            if (text == "0") {
                kept_.index.push_back("0");
                continue;
            }
            out += fmt::format("{0} ko{1} = {2};\n", index_type(), a, text);
            kept_.index.push_back(fmt::format("ko{}", a));
        }
        return out;
    }

    void kept_stage(int s) {
        for (std::size_t n = 0; n < p_.body.size(); ++n) {
            const Instr& i = p_.body[n];
            if (i.kept && i.stage == s && i.op != Opcode::Store)
                kernel.body += statement(static_cast<std::int32_t>(n), kept_);
        }
    }

    // Behind all reads of kept values: a store may be into the memory of one.
    void kept_stores() {
        std::string stores;
        for (std::size_t n = 0; n < p_.body.size(); ++n)
            if (p_.body[n].kept && p_.body[n].op == Opcode::Store)
                stores += statement(static_cast<std::int32_t>(n), kept_);
        if (stores.empty()) return;
        if (t_.reduced_threads > 1) kernel.body += "BARRIER();\n";
        kernel.body += fmt::format("if (kept_ok && r_local == 0u) {{\n{}}}\n", stores);
    }

    std::string states() const {
        std::string out;
        for (std::size_t r = 0; r < states_.size(); ++r)
            for (std::size_t c = 0; c < states_[r].parts.size(); ++c)
                out += fmt::format("{} {} = {};\n", states_[r].parts[c].type, part(r, c),
                                   states_[r].parts[c].initial);
        return out;
    }

    // The instructions that full effects and reductions of stage s need, in order.
    std::vector<std::int32_t> wanted(int s) const {
        std::vector<char> needed(p_.body.size(), 0);
        for (std::size_t n = 0; n < p_.body.size(); ++n) {
            const Instr& i = p_.body[n];
            if (i.kept) continue;
            if (i.op == Opcode::Store)
                needed[n] = s == a_.last_full;
            else if (i.op == Opcode::CheckIndex || plan::is_reduction(i.op))
                needed[n] = i.stage == s;
        }
        for (std::size_t n = p_.body.size(); n-- > 0;) {
            if (!needed[n]) continue;
            for (const auto operand : {p_.body[n].a, p_.body[n].b, p_.body[n].c})
                if (operand >= 0) needed[static_cast<std::size_t>(operand)] = 1;
        }
        std::vector<std::int32_t> out;
        for (std::size_t n = 0; n < p_.body.size(); ++n) {
            const Instr& i = p_.body[n];
            // Reductions of earlier stages have their values; kept values are there.
            if (needed[n] && !i.kept && !(plan::is_reduction(i.op) && i.stage < s))
                out.push_back(static_cast<std::int32_t>(n));
        }
        return out;
    }

    void full_stage(int s) {
        std::vector<std::int32_t> order = wanted(s);
        bool any = false;
        for (const auto n : order) {
            const Instr& i = p_.body[static_cast<std::size_t>(n)];
            any = any || has_effect(i.op) || plan::is_reduction(i.op);
        }
        if (!any) return;
        std::vector<std::size_t> reductions;
        for (std::size_t r = 0; r < states_.size(); ++r)
            if (stage_of(r) == s) reductions.push_back(r);
        std::string& out = kernel.body;
        for (const auto r : reductions)
            for (std::size_t c = 0; c < states_[r].parts.size(); ++c)
                out += fmt::format("{} {} = {};\n", states_[r].parts[c].type, part(r, c),
                                   states_[r].parts[c].initial);

        const std::int64_t steps =
            (t_.chunk_length() + t_.reduced_threads - 1) / t_.reduced_threads;
        if (resident_) return resident_stage(order, reductions);
        const std::int64_t copies = order.size() > 30 ? 1 : steps >= 16 ? 4 : steps >= 4 ? 2 : 1;
        const bool blocks = steps > 64 * copies;
        const std::string type = index_type();
        const std::string begin = t_.chunks > 1 ? fmt::format("{0}(chunk) * {0}({1})", type,
                                                              index_constant(t_.chunk_length()))
                                                : type + "(0)";
        out += fmt::format("{0} begin_{1} = {2};\n{0} end_{1} = begin_{1} + {0}({3});\n", type, s,
                           begin, index_constant(t_.chunk_length()));
        out += fmt::format("if (end_{0} > {1}({2})) end_{0} = {1}({2});\n", s, type,
                           index_constant(t_.reduced));
        if (blocks) {
            out += fmt::format("int turn_{} = 0;\n", s);
            for (const auto r : reductions)
                if (states_[r].in_blocks()) out += fmt::format("float sum{} = 0.0f;\n", r);
        }
        out += fmt::format(
            "ROLL for ({0} x = begin_{1} + {0}(r_local); x < end_{1}; x += {0}({2})) {{\n", type, s,
            t_.reduced_threads * copies);
        std::vector<Point> points;
        for (std::int64_t k = 0; k < copies; ++k) {
            out += fmt::format("{0} x_{1} = x + {0}({2});\nbool in_{1} = x_{1} < end_{3};\n", type,
                               k, k * t_.reduced_threads, s);
            if (k > 0) out += fmt::format("if (!in_{0}) x_{0} = x;\n", k);
            points.push_back(full_point(
                k, k > 0 ? fmt::format("(kept_ok && in_{})", k) : std::string("kept_ok"), out));
        }
        for (const auto n : order) {
            const Instr& i = p_.body[static_cast<std::size_t>(n)];
            if (plan::is_reduction(i.op)) continue;
            for (const Point& at : points)
                out += statement(n, at);
        }
        for (const auto r : reductions)
            accumulate(r, points, false);
        if (blocks) {
            out += fmt::format("turn_{0} = turn_{0} + 1;\nif ((turn_{0} & 15) == 0) {{\n", s);
            for (const auto r : reductions)
                if (states_[r].in_blocks())
                    out += fmt::format("sum{0} = sum{0} + {1};\n{1} = 0.0f;\n", r, part(r, 0));
            out += "}\n";
        }
        out += "}\n";
        if (blocks)
            for (const auto r : reductions)
                if (states_[r].in_blocks())
                    out += fmt::format("{1} = sum{0} + {1};\n", r, part(r, 0));
    }

    // A short row stays in registers from stage to stage: what is computed once is not again.
    void resident_stage(const std::vector<std::int32_t>& order,
                        const std::vector<std::size_t>& reductions) {
        std::string& out = kernel.body;
        if (row_.empty()) {
            const std::int64_t copies = (t_.reduced + t_.reduced_threads - 1) / t_.reduced_threads;
            for (std::int64_t k = 0; k < copies; ++k) {
                out += fmt::format(
                    "{0} x_{1} = {0}(r_local) + {0}({2});\nbool in_{1} = x_{1} < {0}({3});\n"
                    "if (!in_{1}) x_{1} = {0}(0);\n",
                    index_type(), k, k * t_.reduced_threads, t_.reduced);
                row_.push_back(full_point(k, fmt::format("(kept_ok && in_{})", k), out));
            }
            done_.assign(p_.body.size(), 0);
        }
        for (const auto n : order) {
            const Instr& i = p_.body[static_cast<std::size_t>(n)];
            if (plan::is_reduction(i.op) || done_[static_cast<std::size_t>(n)]) continue;
            done_[static_cast<std::size_t>(n)] = 1;
            for (const Point& at : row_)
                out += statement(n, at);
        }
        for (const auto r : reductions)
            accumulate(r, row_, true);
    }

    // Where memory is at reduced point x_<k>.
    Point full_point(std::int64_t k, std::string ok, std::string& out) {
        Point at;
        at.suffix = fmt::format("_{}", k);
        at.ok = std::move(ok);
        const std::string prefix = fmt::format("r{}_", k);
        out += coordinates(fmt::format("x_{}", k), a_.reduced_begin, a_.reduced_end, prefix);
        for (std::size_t a = 0; a < p_.accesses.size(); ++a) {
            std::string o = offset(p_.accesses[a], a_.reduced_begin, a_.reduced_end, prefix);
            const std::string& base = kept_.index[a];
            at.index.push_back(o == "0"      ? base
                               : base == "0" ? "(" + o + ")"
                                             : fmt::format("({} + {})", base, o));
        }
        return at;
    }

    // `all`: the first point may be behind the end, too.
    void accumulate(std::size_t r, const std::vector<Point>& points, bool all) {
        const ReductionState& st = states_[r];
        const Instr& i = p_.body[static_cast<std::size_t>(a_.reductions[r])];
        std::string& out = kernel.body;
        std::vector<std::string> values;
        for (std::size_t k = 0; k < points.size(); ++k) {
            const std::string x =
                convert(value(i.a, points[k]), value_type(i.a), st.operand_type());
            if (i.op == Opcode::ReduceSum || i.op == Opcode::ReduceProd) {
                // What is behind the end counts as nothing.
                values.push_back(k == 0 && !all
                                     ? x
                                     : fmt::format("(in_{} ? {} : {})", k, x, st.parts[0].initial));
                continue;
            }
            const std::string add = st.add(part_names(r), x, fmt::format("x_{}", k));
            out += k == 0 && !all ? add : fmt::format("if (in_{}) {{ {}}}\n", k, add);
        }
        if (values.empty()) return;
        // pairs first
        while (values.size() > 1) {
            std::vector<std::string> next;
            for (std::size_t k = 0; k + 1 < values.size(); k += 2)
                next.push_back(st.combine(values[k], values[k + 1]));
            if (values.size() % 2) next.push_back(values.back());
            values = std::move(next);
        }
        out += st.add(part_names(r), values[0], "0");
    }

    // One state of all threads' of a kept point, known to all of them.
    void tree(std::size_t r) {
        const ReductionState& st = states_[r];
        const std::int32_t n = a_.reductions[r];
        std::string& out = kernel.body;
        const auto names = part_names(r);
        if (t_.reduced_threads > 1) {
            std::vector<std::string> mine, other, first;
            std::map<std::string, int> used;
            const int stride = t_.kept_adjacent ? t_.kept_threads : 1;
            for (const auto& p : st.parts) {
                const std::string name = fmt::format("shared_{}_{}", p.type, used[p.type]++);
                share(p.type, name);
                mine.push_back(name + "[LANE]");
                other.push_back(name + "[LANE + step]");
                first.push_back(fmt::format(
                    "{}[{}]", name,
                    t_.kept_adjacent ? "k_local"
                                     : fmt::format("k_local * {}u", t_.reduced_threads)));
            }
            out += "BARRIER();\n";
            for (std::size_t c = 0; c < mine.size(); ++c)
                out += fmt::format("{} = {};\n", mine[c], names[c]);
            out += "BARRIER();\n";
            for (int h = t_.reduced_threads / 2; h >= 1; h /= 2) {
                out += fmt::format("if (r_local < {}u) {{\nuint step = {}u;\n", h, h * stride);
                std::vector<std::string> fetched;
                for (std::size_t c = 0; c < mine.size(); ++c) {
                    fetched.push_back(fmt::format("f{}", c));
                    out += fmt::format("{} f{} = {};\n", st.parts[c].type, c, other[c]);
                }
                out += st.merge(names, fetched);
                for (std::size_t c = 0; c < mine.size(); ++c)
                    out += fmt::format("{} = {};\n", mine[c], names[c]);
                out += "}\nBARRIER();\n";
            }
            for (std::size_t c = 0; c < mine.size(); ++c)
                out += fmt::format("{} = {};\n", names[c], first[c]);
        }
        out += fmt::format("{} v{} = {};\n", type_name(value_type(n)), n, st.result(names));
    }

    void share(const std::string& type, const std::string& name) {
        for (const auto& s : kernel.shared)
            if (s.name == name) return;
        kernel.shared.push_back({type, name, kThreads});
    }

    const plan::ProgramLaunch& launch_;
    const Anatomy& a_;
    Tiling t_;
    std::vector<ReductionState> states_;
    Point kept_;
    bool resident_ = false;
    std::vector<Point> row_;  // of a resident row
    std::vector<char> done_;  // its instructions
};

// Elements that caches hold: parts of a line that other groups read once more cost little.
constexpr std::int64_t kSmall = std::int64_t{1} << 20;

Tiling choose(const Program& p, const Anatomy& a, const Features& f) {
    Tiling t;
    t.kept = a.rows ? p.outer() : p.inner();
    t.reduced = a.rows ? p.inner() : p.outer();
    if (a.rows) {
        t.reduced_threads =
            static_cast<int>(std::min<std::int64_t>(kThreads, power_above((t.reduced + 3) / 4)));
        t.kept_threads = kThreads / t.reduced_threads;
    } else {
        t.kept_adjacent = true;
        t.kept_threads = static_cast<int>(std::min<std::int64_t>(32, power_above(t.kept)));
        // Short columns of many points: fewer threads a column, so that none idles.
        while (t.kept_threads < kThreads && kThreads / t.kept_threads > power_above(t.reduced) &&
               t.kept > t.kept_threads)
            t.kept_threads *= 2;
        // Few columns: fewer of them a group, so that more threads share one.
        while (t.kept_threads > 4 && t.kept_groups() * 2 <= f.parallel_groups &&
               t.reduced > kThreads / t.kept_threads * 4 && t.kept * t.reduced < kSmall)
            t.kept_threads /= 2;
        t.reduced_threads = kThreads / t.kept_threads;
    }
    // More groups for one point's work, where it is long and groups are few.
    const std::int64_t groups = t.kept_groups();
    const std::int64_t least = 4 * t.reduced_threads;  // points of a chunk
    if (a.only_first_stage_is_full && groups < f.parallel_groups * 2 && t.reduced >= 4 * least) {
        t.chunks =
            std::min({f.parallel_groups * 4 / groups, t.reduced / least, std::int64_t{1024}});
        t.chunks = std::max<std::int64_t>(t.chunks, 1);
    }
    const std::int64_t steps = (t.chunk_length() + t.reduced_threads - 1) / t.reduced_threads;
    if (steps * a.stages > f.max_loop) throw Error("its rows are too long for one group");
    return t;
}

}  // namespace

void write_reduce(Work& w, Step& s, const plan::ProgramLaunch& l, const Features& f) {
    check_types(l.program, f);
    if (l.segments.size() != 1) throw Error("a batch of reductions");
    const Anatomy a(l.program);
    Tiling t = choose(l.program, a, f);
    if (t.kept == 0) return;
    if (t.chunks == 1) {
        ReduceWriter(w, l, a, t, a.rows ? "rows" : "columns").whole(s);
        return;
    }
    // Chunks must not be empty: their states would count.
    t.chunks = (t.reduced + t.chunk_length() - 1) / t.chunk_length();
    ReduceWriter first(w, l, a, t, a.rows ? "row_chunks" : "column_chunks");
    w.scratch_bytes = std::max(w.scratch_bytes, first.scratch_bytes());
    first.partial(s, 0);
    Tiling last;
    last.kept = t.kept;
    last.reduced = t.chunks;
    last.kept_adjacent = true;
    last.kept_threads = static_cast<int>(std::min<std::int64_t>(32, power_above(t.kept)));
    while (last.kept_threads > 4 && t.chunks > kThreads / last.kept_threads * 4)
        last.kept_threads /= 2;
    last.reduced_threads = kThreads / last.kept_threads;
    ReduceWriter(w, l, a, last, "merge_chunks").merge(s, 0, t.chunks);
}

}  // namespace pippin::gpu
