#include "backends/cpu/program_part.h"

#include <algorithm>

namespace pippin::cpu {
namespace {

using plan::Form;
using plan::Instr;
using plan::Opcode;
using plan::Program;

// Some of a program's dims, merged: strides[access][dim].
struct Group {
    Extents extents;
    std::vector<Extents> strides;
};

// Dims of extent 1 go; neighbours that lie one behind the other in every access become one.
Group merge_dims(Extents extents, std::vector<Extents> strides) {
    Group g;
    g.strides.resize(strides.size());
    for (std::size_t d = 0; d < extents.size(); ++d) {
        if (extents[d] == 1) continue;
        bool joins = !g.extents.empty();
        for (std::size_t a = 0; a < strides.size() && joins; ++a)
            joins = g.strides[a].back() == strides[a][d] * extents[d];
        if (joins)
            g.extents.back() *= extents[d];
        else
            g.extents.push_back(extents[d]);
        for (std::size_t a = 0; a < strides.size(); ++a) {
            if (joins)
                g.strides[a].back() = strides[a][d];
            else
                g.strides[a].push_back(strides[a][d]);
        }
    }
    return g;
}

Group merge_dims(const Program& p, int begin, int end) {
    Extents extents(p.extents.begin() + begin, p.extents.begin() + end);
    std::vector<Extents> strides;
    for (const auto& a : p.accesses)
        strides.emplace_back(a.strides.begin() + begin, a.strides.begin() + end);
    return merge_dims(std::move(extents), std::move(strides));
}

// Takes the last dim off a group as columns.
std::int64_t take_columns(Group& g, std::vector<std::int64_t>& strides) {
    strides.assign(g.strides.size(), 0);
    if (g.extents.empty()) return 1;
    const std::int64_t columns = g.extents.back();
    g.extents.pop_back();
    for (std::size_t a = 0; a < strides.size(); ++a) {
        strides[a] = g.strides[a].back();
        g.strides[a].pop_back();
    }
    return columns;
}

// A long row that some access walks through in large steps, while the steps from row to row are
// small (a transpose): short pieces of many rows reuse the cache lines.
void cut_transposed_rows(Part& part) {
    constexpr std::int64_t kLong = 512;
    if (part.rows.empty() || part.columns <= kLong) return;
    bool across = false;
    for (const View& v : part.views)
        across = across || (v.row.back() == 1 && v.column != 0 && v.column != 1);
    if (!across) return;
    for (const std::int64_t piece : {64, 48, 32, 24, 16}) {
        if (part.columns % piece != 0) continue;
        // The pieces come one after another around the dim of small steps.
        part.rows.insert(part.rows.end() - 1, part.columns / piece);
        for (View& v : part.views)
            v.row.insert(v.row.end() - 1, v.column * piece);
        part.columns = piece;
        return;
    }
}

std::vector<View> make_views(const Program& p, std::size_t reductions, const Group* base,
                             const Group* rows, const std::vector<std::int64_t>& columns) {
    std::vector<View> views;
    for (std::size_t a = 0; a < p.accesses.size(); ++a) {
        View v{p.accesses[a].dtype, p.accesses[a].offset,  {}, {},
               columns[a],          p.accesses[a].alias_of};
        if (base) v.base = base->strides[a];
        if (rows) v.row = rows->strides[a];
        views.push_back(std::move(v));
    }
    // Results of reductions: one value, wherever the base dims stand; the executor moves the
    // pointer.
    for (std::size_t r = 0; r < reductions; ++r) {
        View v;
        if (base) v.base.assign(base->extents.size(), 0);
        if (rows) v.row.assign(rows->extents.size(), 0);
        views.push_back(std::move(v));
    }
    return views;
}

bool has_effect(const Instr& i) { return i.op == Opcode::Store || i.op == Opcode::CheckIndex; }

// Replaces reductions before `stage` by loads of their results.
void load_results(Part& part, const Parts& parts, std::size_t accesses, int stage) {
    for (std::size_t r = 0; r < parts.reductions.size(); ++r) {
        const auto index = static_cast<std::size_t>(parts.reductions[r]);
        Instr& i = part.body[index];
        part.views[accesses + r].dtype = i.type;
        if (i.stage >= stage) continue;
        Instr load;
        load.op = Opcode::Load;
        load.type = i.type;
        load.kept = true;
        load.stage = i.stage;
        load.aux = static_cast<std::int32_t>(accesses + r);
        i = load;
    }
}

constexpr int kAfterAll = 256;
constexpr std::size_t kMostDims = 8;  // of a space's rows

// Kept instructions over the kept dims, once all reductions are done.
void add_finish(Parts& parts, const Program& p, const Group& kept) {
    Part part;
    part.body = p.body;
    bool any = false;
    for (const Instr& i : p.body) {
        part.roots.push_back(i.kept && has_effect(i));
        any = any || part.roots.back();
    }
    if (!any) return;
    Group g = kept;
    for (std::size_t r = 0; r < parts.reductions.size(); ++r) {
        Extents strides(g.extents.size());
        std::int64_t step = 1;
        for (std::size_t d = strides.size(); d-- > 0; step *= g.extents[d])
            strides[d] = step;
        g.strides.push_back(std::move(strides));
    }
    // Only kept accesses count for merging now.
    std::vector<bool> used(g.strides.size(), parts.reductions.empty());
    for (const Instr& i : p.body)
        if (i.kept && i.aux >= 0 &&
            (i.op == Opcode::Load || i.op == Opcode::Store || i.op == Opcode::Iota))
            used[static_cast<std::size_t>(i.aux)] = true;
    for (std::size_t r = 0; r < parts.reductions.size(); ++r)
        used[p.accesses.size() + r] = true;
    for (std::size_t a = 0; a < used.size(); ++a) {
        if (used[a]) continue;
        for (std::size_t d = 0; d < g.extents.size(); ++d)
            g.strides[a][d] = g.strides.back()[d];  // like a result: joins whatever joins
    }
    g = merge_dims(g.extents, g.strides);
    std::vector<std::int64_t> columns;
    part.columns = take_columns(g, columns);
    part.rows = g.extents;
    part.views = make_views(p, parts.reductions.size(), nullptr, &g, columns);
    for (std::size_t r = 0; r < parts.reductions.size(); ++r) {
        View& v = part.views[p.accesses.size() + r];
        v.row = g.strides[p.accesses.size() + r];
        v.column = columns[p.accesses.size() + r];
    }
    load_results(part, parts, p.accesses.size(), kAfterAll);
    parts.finish.push_back(std::move(part));
}

// Long rows: every stage goes over the row again.
void add_row_stages(Parts& parts, const Program& p, const Group& outer, Group inner) {
    std::vector<std::int64_t> columns;
    const std::int64_t extent = take_columns(inner, columns);
    int last_full = 0;
    for (const Instr& i : p.body)
        if (!i.kept && !plan::is_reduction(i.op)) last_full = std::max<int>(last_full, i.stage);
    int stages = 0;
    for (const Instr& i : p.body)
        stages = std::max(stages, i.stage + 1);
    for (int s = 0; s < stages; ++s) {
        Part part;
        part.reduce = Part::Reduce::All;
        part.body = p.body;
        bool any = false;
        for (const Instr& i : p.body) {
            // Stores wait for the last pass: their buffer may be one that is still read.
            const bool wanted = i.op == Opcode::Store ? !i.kept && s == last_full
                                : i.op == Opcode::CheckIndex
                                    ? !i.kept && i.stage == s
                                    : plan::is_reduction(i.op) && i.stage == s;
            part.roots.push_back(wanted);
            any = any || wanted;
        }
        if (!any) continue;
        part.base = outer.extents;
        part.rows = inner.extents;
        part.columns = extent;
        part.views = make_views(p, parts.reductions.size(), &outer, &inner, columns);
        load_results(part, parts, p.accesses.size(), s);
        parts.stages.push_back(std::move(part));
    }
}

}  // namespace

std::int64_t count_of(const Extents& extents) {
    std::int64_t n = 1;
    for (const auto e : extents)
        n *= e;
    return n;
}

Parts split_program(const Program& p) {
    Parts parts;
    for (std::size_t i = 0; i < p.body.size(); ++i)
        if (plan::is_reduction(p.body[i].op))
            parts.reductions.push_back(static_cast<std::int32_t>(i));

    Part part;
    part.body = p.body;
    for (const Instr& i : p.body)
        part.roots.push_back(has_effect(i));
    std::vector<std::int64_t> columns;

    if (p.form == Form::Map) {
        Group g = merge_dims(p, 0, p.rank);
        part.columns = take_columns(g, columns);
        part.rows = g.extents;
        part.views = make_views(p, 0, nullptr, &g, columns);
        if (part.rows.size() < kMostDims) cut_transposed_rows(part);
        parts.stages.push_back(std::move(part));
        return parts;
    }

    Group outer = merge_dims(p, 0, p.split), inner = merge_dims(p, p.split, p.rank);
    if (p.form == Form::RowReduce) {
        parts.kept = count_of(outer.extents);
        const std::int64_t length = count_of(inner.extents);
        if (inner.extents.size() <= 1 && length > 0 && length <= kLongestRow) {
            part.reduce = Part::Reduce::Rows;
            part.columns = take_columns(inner, columns);
            part.rows = outer.extents;
            part.views = make_views(p, 0, nullptr, &outer, columns);
            parts.stages.push_back(std::move(part));
            return parts;
        }
        add_row_stages(parts, p, outer, inner);
        add_finish(parts, p, outer);
        return parts;
    }

    parts.kept = count_of(inner.extents);
    const Group kept = inner;
    part.reduce = Part::Reduce::Columns;
    for (std::size_t i = 0; i < p.body.size(); ++i)
        part.roots[i] =
            !p.body[i].kept && (has_effect(p.body[i]) || plan::is_reduction(p.body[i].op));
    part.columns = take_columns(inner, columns);
    part.base = inner.extents;
    part.rows = outer.extents;
    part.views = make_views(p, parts.reductions.size(), &inner, &outer, columns);
    load_results(part, parts, p.accesses.size(), 0);
    parts.stages.push_back(std::move(part));
    add_finish(parts, p, kept);
    return parts;
}

}  // namespace pippin::cpu
