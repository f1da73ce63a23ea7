// Fusion: which nodes share a program. Nodes are taken users first; each joins the programs that
// use it, is computed again in several where that is cheap, or starts a program of its own.
#include <algorithm>

#include "graph/ops/records.h"
#include "plan/lowering.h"

namespace pippin::plan {

using graph::Kind;
using graph::Node;
namespace ops = graph::ops;

namespace {

constexpr std::size_t kMaxMembers = 96;  ///< keeps programs within what kernels can take
constexpr int kMaxRecompute = 4;         ///< longest chain that is computed in several programs

bool is_region_op(const Node& n) { return n.op == &ops::kPad || n.op == &ops::kConcat; }

// Cheaper to compute again than to store and load.
bool is_cheap(const Node& n) {
    if (n.op->kind != Kind::Elementwise || n.op == &ops::kCheckIndex || n.op == &kCopy)
        return false;
    for (auto* op : {&ops::kExp, &ops::kLog, &ops::kTanh, &ops::kSigmoid, &ops::kErf, &ops::kSin,
                     &ops::kCos, &ops::kPow})
        if (n.op == op) return false;
    return true;
}

// A user of a value, and the views between, from the user down.
struct Edge {
    std::int32_t user = -1;
    SmallVec<std::int32_t, 4> views;
};

// How far programs reach, so that a search for one need not go over all that comes after it. Users
// have greater numbers than what they use; only a program with members on both sides of a number,
// of which the first is stored, leads back over it.
class Spans {
  public:
    explicit Spans(std::size_t nodes) : most_(nodes + 1, -1) {}

    // The last member comes first: what is added to a program comes before it.
    void joined(std::int32_t node, std::int32_t cluster, bool stored) {
        const auto c = static_cast<std::size_t>(cluster);
        if (c >= last_.size()) last_.resize(c + 1, -1);
        last_[c] = std::max(last_[c], node);
        if (!stored) return;
        for (auto k = static_cast<std::size_t>(node) + 1; k < most_.size(); k += k & (~k + 1))
            most_[k] = std::max(most_[k], last_[c]);
    }
    // The node behind which nothing leads back to the program.
    std::int32_t no_way_back(std::int32_t cluster) const {
        std::int32_t last = last_[static_cast<std::size_t>(cluster)];
        for (;;) {
            const std::int32_t further = most_up_to(last);
            if (further <= last) return last;
            last = further;
        }
    }

  private:
    // The last member of all programs that store one up to this node.
    std::int32_t most_up_to(std::int32_t node) const {
        std::int32_t out = -1;
        for (auto k = static_cast<std::size_t>(node) + 1; k > 0; k -= k & (~k + 1))
            out = std::max(out, most_[k]);
        return out;
    }

    std::vector<std::int32_t> last_;  // of a program's members
    std::vector<std::int32_t> most_;  // greatest of them, as a Fenwick tree over nodes
};

class Partition {
  public:
    explicit Partition(Lowering& l) : l_(l), stamp_(l.nodes.size(), 0), chain_(l.nodes.size(), 0) {}

    void run() {
        for (auto i = static_cast<std::int32_t>(l_.nodes.size()); i-- > 0;) {
            const Node& n = l_.node(i);
            if (l_[i].unit >= 0 || l_[i].input >= 0) continue;
            if (is_region_op(n)) {
                l_[i].stored = true;
                l_[i].unit = static_cast<std::int32_t>(l_.units.size());
                l_.units.emplace_back().node = i;
                l_.units.back().outputs.push_back(i);
            } else if (is_fusable(n)) {
                place(i);
            }
        }
        merge_siblings();
        make_units();
    }

  private:
    Cluster& cluster(std::int32_t q) { return l_.clusters[static_cast<std::size_t>(q)]; }

    // --- placing one node in a program's space ---

    static Placement nonunit(const Shape& s, int first) {
        Placement p;
        for (int d = 0; d < s.rank(); ++d)
            p.push_back(s[d] == 1 ? std::int8_t{-1} : static_cast<std::int8_t>(first++));
        return p;
    }

    // Where each dim of a view's input runs, given where the view's dims run. Nothing for views
    // that change which points are read.
    std::optional<Placement> under_view(const Node& view, const Shape& in, const Placement& p) {
        Placement out;
        if (view.op == &ops::kPermute) {
            for (int d = 0; d < in.rank(); ++d)
                out.push_back(-1);
            for (std::size_t d = 0; d < p.size(); ++d)
                out[static_cast<std::size_t>(view.attrs.i[d])] = p[d];
            return out;
        }
        if (view.op == &ops::kExpand) {
            for (int d = 0; d < in.rank(); ++d)
                out.push_back(in[d] == 1 ? std::int8_t{-1} : p[static_cast<std::size_t>(d)]);
            return out;
        }
        if (view.op == &ops::kReshape) {
            int o = 0;
            for (int d = 0; d < in.rank(); ++d) {
                if (in[d] == 1) {
                    out.push_back(-1);
                    continue;
                }
                while (o < view.shape.rank() && view.shape[o] == 1)
                    ++o;
                if (o == view.shape.rank() || view.shape[o] != in[d]) return std::nullopt;
                out.push_back(p[static_cast<std::size_t>(o++)]);
            }
            while (o < view.shape.rank() && view.shape[o] == 1)
                ++o;
            if (o < view.shape.rank()) return std::nullopt;
            return out;
        }
        return std::nullopt;
    }

    // The placement of a member's inputs: its own, and for a reduction the reduced dims too.
    Placement input_placement(const Cluster& q, std::size_t member) {
        const Node& n = l_.node(q.members[member]);
        Placement p = q.placements[member];
        if (n.op->kind != Kind::Reduce) return p;
        const Shape& in = l_.node(l_[q.members[member]].in[0]).shape;
        SmallVec<std::int8_t, 8> reduced;
        for (std::size_t d = 0; d < q.dims.size(); ++d)
            if (q.dims[d].reduced && q.dims[d].extent != 1)
                reduced.push_back(static_cast<std::int8_t>(d));
        std::size_t next = 0;
        for (auto d : n.attrs.i)
            if (in[static_cast<int>(d)] != 1) p[static_cast<std::size_t>(d)] = reduced[next++];
        return p;
    }

    enum class Cover { None, Full, Kept, AllButSome };
    // AllButSome: covers every kept dim of a program that reduces nothing, but not all: `missing`
    // is the rest.
    Cover coverage(const Cluster& q, const Placement& p, SmallVec<std::int8_t, 8>* missing) {
        std::array<int, 16> seen{};
        for (auto d : p)
            if (d >= 0 && ++seen[static_cast<std::size_t>(d)] > 1) return Cover::None;
        bool all = true, kept = true, others = false;
        for (std::size_t d = 0; d < q.dims.size(); ++d) {
            if (q.dims[d].extent == 1) continue;
            all &= seen[d] == 1;
            if (q.dims[d].reduced)
                others |= seen[d] == 1;
            else
                kept &= seen[d] == 1;
            if (!seen[d] && missing) missing->push_back(static_cast<std::int8_t>(d));
        }
        if (all && !(q.reduces() && !others && only_unit_reduced(q))) return Cover::Full;
        if (kept && !others && q.reduces()) return Cover::Kept;
        return q.reduces() ? Cover::None : Cover::AllButSome;
    }
    static bool only_unit_reduced(const Cluster& q) {
        for (auto& d : q.dims)
            if (d.reduced && d.extent != 1) return false;
        return true;
    }

    // Whether reductions of `n` can run along `q`'s reduced dims (or `along`, in order).
    bool extents_match(const Node& n, const Shape& in, const Cluster& q,
                       const SmallVec<std::int8_t, 8>& along) {
        std::size_t next = 0;
        for (auto d : n.attrs.i) {
            if (in[static_cast<int>(d)] == 1) continue;
            if (next == along.size() ||
                q.dims[static_cast<std::size_t>(along[next])].extent != in[static_cast<int>(d)])
                return false;
            ++next;
        }
        return next == along.size();
    }

    struct Join {
        std::int32_t cluster = -1;
        Placement placement;
        bool continues = false;  ///< a reduction whose result full members use
    };

    // Whether node i can be computed in q for this edge; fills `join`.
    bool can_join(std::int32_t i, std::int32_t q_id, const Edge& e, Join& join) {
        const Cluster& q = cluster(q_id);
        if (q.members.size() >= kMaxMembers) return false;
        std::size_t member = 0;
        while (q.members[member] != e.user)
            ++member;
        Placement p = input_placement(q, member);
        for (auto v : e.views) {
            auto under = under_view(l_.node(v), l_.node(l_[v].in[0]).shape, p);
            if (!under) return false;
            p = std::move(*under);
        }
        if (join.cluster == q_id && !(join.placement == p)) return false;
        if (const Placement* have = q.placement(i); have && !(*have == p)) return false;
        const Node& n = l_.node(i);
        SmallVec<std::int8_t, 8> missing;
        const Cover cover = coverage(q, p, &missing);
        const bool user_kept = coverage(q, q.placements[member], nullptr) == Cover::Kept;
        const bool user_reduces = l_.node(e.user).op->kind == Kind::Reduce;
        if (user_reduces && only_unit_reduced(q))
            return false;  // full and kept would look the same
        bool continues = false;
        if (n.op->kind == Kind::Elementwise) {
            if (is_argument(i)) {
                if (q.reduces() && !row_form(q) && !user_kept) return false;
            } else if (cover == Cover::Full) {
                if (user_kept && !user_reduces) return false;
            } else if (cover != Cover::Kept) {
                return false;
            } else if (!(user_kept && !user_reduces) && !row_form(q)) {
                return false;  // columns have no kept values before they are reduced
            }
        } else {
            const Shape& in = l_.node(l_[i].in[0]).shape;
            if (cover == Cover::Full && !q.reduces()) {
                // Its users become the kept part of a program over its input.
                if (q.dims.size() + n.attrs.i.size() > 8) return false;
            } else if (cover == Cover::Kept) {
                if (user_reduces) return false;
                SmallVec<std::int8_t, 8> reduced;
                for (std::size_t d = 0; d < q.dims.size(); ++d)
                    if (q.dims[d].reduced && q.dims[d].extent != 1)
                        reduced.push_back(static_cast<std::int8_t>(d));
                if (!extents_match(n, in, q, reduced)) return false;
                continues = !user_kept;
                if (continues && !row_form(q)) return false;
            } else if (cover == Cover::AllButSome && !missing.empty()) {
                if (!extents_match(n, in, q, missing)) return false;
                Cluster trial = q;
                for (auto d : missing)
                    trial.dims[static_cast<std::size_t>(d)].reduced = true;
                if (!row_form(trial)) return false;
                continues = true;
            } else {
                return false;
            }
        }
        join.cluster = q_id;
        join.placement = std::move(p);
        join.continues |= continues;
        return true;
    }

    void add(std::int32_t i, Join j) {
        Cluster& q = cluster(j.cluster);
        if (q.placement(i)) return;
        const Node& n = l_.node(i);
        if (n.op->kind == Kind::Reduce) {
            SmallVec<std::int8_t, 8> missing;
            const Cover cover = coverage(q, j.placement, &missing);
            if (cover == Cover::Full) {
                append_reduced(q, i, j.placement);
            } else if (cover == Cover::AllButSome) {
                for (auto d : missing)
                    q.dims[static_cast<std::size_t>(d)].reduced = true;
            }
            q.rows |= j.continues;
        }
        q.members.push_back(i);
        q.placements.push_back(j.placement);
        l_[i].clusters.push_back(j.cluster);
        spans_.joined(i, j.cluster, l_[i].stored);
    }

    // Turns a program without reductions into the kept part of one over reduction i's input. Dims
    // come in the order of that input, so that the program's space follows its memory.
    void append_reduced(Cluster& q, std::int32_t i, Placement& p) {
        const std::int32_t input = l_[i].in[0];
        const Shape& in = l_.node(input).shape;
        std::vector<Dim> dims;
        std::vector<std::int8_t> moved(q.dims.size(), -1);
        q.channel = -1;
        for (int d = 0; d < in.rank(); ++d) {
            bool reduced = false;
            for (auto r : l_.node(i).attrs.i)
                reduced |= r == d;
            if (in[d] == 1) continue;
            if (d == 1 && in.rank() == 4 && memory_order(input) == Order::ChannelsLast)
                q.channel = static_cast<int>(dims.size());
            if (!reduced)
                moved[static_cast<std::size_t>(p[static_cast<std::size_t>(d)])] =
                    static_cast<std::int8_t>(dims.size());
            dims.push_back({in[d], reduced});
        }
        bool any = false;
        for (auto& d : dims)
            any |= d.reduced;
        if (!any) dims.push_back({1, true});
        for (auto& placement : q.placements)
            for (auto& d : placement)
                if (d >= 0) d = moved[static_cast<std::size_t>(d)];
        p = remapped(p, moved);
        q.dims = std::move(dims);
        q.channels_last = q.channel >= 0;
    }
    static Placement remapped(Placement p, const std::vector<std::int8_t>& moved) {
        for (auto& d : p)
            if (d >= 0) d = moved[static_cast<std::size_t>(d)];
        return p;
    }

    // The order in which a node's values lie, or would lie.
    Order memory_order(std::int32_t n) const { return l_[n].order; }

    std::int32_t new_cluster(std::int32_t i) {
        const Node& n = l_.node(i);
        const auto id = static_cast<std::int32_t>(l_.clusters.size());
        Cluster q;
        const bool reduce = n.op->kind == Kind::Reduce;
        const std::int32_t shaped = i;
        const Shape& s = l_.node(shaped).shape;
        for (int d = 0; d < s.rank(); ++d)
            if (s[d] != 1) {
                if (d == 1 && s.rank() == 4 && memory_order(shaped) == Order::ChannelsLast)
                    q.channel = static_cast<int>(q.dims.size());
                q.dims.push_back({s[d], false});
            }
        q.channels_last = q.channel >= 0;
        Join j;
        j.cluster = id;
        j.placement = nonunit(s, 0);
        l_.clusters.push_back(std::move(q));
        if (reduce) {
            Cluster& c = cluster(id);
            append_reduced(c, i, j.placement);
        }
        Cluster& c = cluster(id);
        c.members.push_back(i);
        c.placements.push_back(j.placement);
        l_[i].clusters.push_back(id);
        spans_.joined(i, id, l_[i].stored);
        return id;
    }

    // --- users and reachability ---

    void collect(std::int32_t n, SmallVec<std::int32_t, 4> views, std::vector<Edge>& out) {
        for (auto u : l_[n].users) {
            if (is_strided_view(l_.node(u)) && l_[u].input < 0) {
                SmallVec<std::int32_t, 4> deeper{u};
                for (auto v : views)
                    deeper.push_back(v);
                collect(u, std::move(deeper), out);
            } else {
                out.push_back({u, views});
            }
        }
    }

    // Whether running any of the units of `from` must come before program `q`.
    bool reaches(const std::vector<std::int32_t>& from, std::int32_t q) {
        ++now_;
        std::vector<std::int32_t> work = from;
        cluster_seen_.resize(l_.clusters.size(), 0);
        const std::int32_t last = spans_.no_way_back(q);
        while (!work.empty()) {
            const std::int32_t n = work.back();
            work.pop_back();
            if (n > last || stamp_[static_cast<std::size_t>(n)] == now_) continue;
            stamp_[static_cast<std::size_t>(n)] = now_;
            for (auto c : l_[n].clusters) {
                if (c == q) return true;
                if (std::exchange(cluster_seen_[static_cast<std::size_t>(c)], now_) == now_)
                    continue;
                for (auto m : cluster(c).members)
                    if (l_[m].stored)
                        for (auto u : l_[m].users)
                            work.push_back(u);
            }
            // What a program only computes for itself leads nowhere but through the program.
            if (l_[n].clusters.empty())
                for (auto u : l_[n].users)
                    work.push_back(u);
        }
        return false;
    }

    // Who waits for q. What q does not store, others compute for themselves; a user that q computes
    // may be computed in another program too, which then reads the value.
    std::vector<std::int32_t> outside_users(std::int32_t q) {
        std::vector<std::int32_t> out;
        for (auto m : cluster(q).members) {
            if (!l_[m].stored) continue;
            for (auto u : l_[m].users) {
                const auto& c = l_[u].clusters;
                if (c.empty() || c.size() > 1 || c[0] != q) out.push_back(u);
            }
        }
        return out;
    }

    bool independent(std::int32_t a, std::int32_t b) {
        return !reaches(outside_users(a), b) && !reaches(outside_users(b), a);
    }

    // --- deciding ---

    void place(std::int32_t i) {
        std::vector<Edge> edges;
        collect(i, {}, edges);
        bool needs_memory = l_[i].target;
        std::vector<Join> joins;
        std::vector<std::int32_t> refused;
        for (auto& e : edges) {
            const auto& clusters = l_[e.user].clusters;
            if (clusters.empty()) needs_memory = true;
            for (auto q : clusters) {
                auto it = std::find_if(joins.begin(), joins.end(),
                                       [&](auto& j) { return j.cluster == q; });
                Join fresh;
                Join& j = it == joins.end() ? fresh : *it;
                if (!can_join(i, q, e, j)) {
                    refused.push_back(q);
                    needs_memory = true;
                } else if (it == joins.end()) {
                    joins.push_back(fresh);
                }
            }
        }
        std::erase_if(joins, [&](auto& j) {
            return std::find(refused.begin(), refused.end(), j.cluster) != refused.end();
        });
        if (!needs_memory && joins.size() > 1 && !recompute(i, joins.size())) merge_users(i, joins);
        if (!needs_memory &&
            (joins.size() == 1 || (joins.size() > 1 && recompute(i, joins.size())))) {
            for (auto& j : joins)
                add(i, j);
            if (joins.size() > 1) chain_[static_cast<std::size_t>(i)] = 1;
            return;
        }
        l_[i].stored = true;
        for (auto& j : joins) {
            // What else needs the value must not have to run before this program.
            std::vector<std::int32_t> others;
            for (auto& e : edges) {
                if (l_[e.user].clusters.empty()) others.push_back(e.user);
                for (auto c : l_[e.user].clusters)
                    if (c != j.cluster)
                        for (auto u : outside_users(c))
                            others.push_back(u);
            }
            if (!reaches(others, j.cluster)) return add(i, j);
        }
        new_cluster(i);
    }

    // One number made of run-time arguments and constants: as cheap as an argument.
    bool is_argument(std::int32_t i) const {
        if (l_.node(i).shape.numel() != 1 || !is_cheap(l_.node(i))) return false;
        for (auto in : l_[i].in) {
            while (is_strided_view(l_.node(in)))
                in = l_[in].in[0];
            if (!is_inline_source(l_.node(in)) &&
                !(l_[in].input < 0 && l_.node(in).op->kind == Kind::Elementwise && is_argument(in)))
                return false;
        }
        return true;
    }

    bool recompute(std::int32_t i, std::size_t programs) {
        const Node& n = l_.node(i);
        if (is_argument(i)) return true;
        if (!is_cheap(n) || programs > 4) return false;
        int large = 0, chain = 0;
        for (auto in : l_[i].in) {
            const Node& x = l_.node(in);
            large += !is_inline_source(x) && x.op != &ops::kExpand;
        }
        for (auto u : l_[i].users)
            chain = std::max(chain, chain_[static_cast<std::size_t>(u)]);
        if (chain >= kMaxRecompute) return false;
        if (large > 2 || (large == 2 && programs > 2)) return false;
        chain_[static_cast<std::size_t>(i)] = chain + 1;
        return true;
    }

    // Programs over the same space that use one costly value become one.
    void merge_users(std::int32_t i, std::vector<Join>& joins) {
        for (std::size_t a = 0; a < joins.size(); ++a)
            for (std::size_t b = a + 1; b < joins.size();) {
                if (merge(joins[a].cluster, joins[b].cluster, joins[a].placement,
                          joins[b].placement, l_.node(i).shape)) {
                    joins[a].continues |= joins[b].continues;
                    joins.erase(joins.begin() + static_cast<std::ptrdiff_t>(b));
                } else {
                    ++b;
                }
            }
    }

    // Joins program b into a, given where one shared shape runs in each. False when their spaces
    // differ or one must come before the other.
    bool merge(std::int32_t a, std::int32_t b, const Placement& pa, const Placement& pb,
               const Shape& s) {
        Cluster &x = cluster(a), &y = cluster(b);
        if (x.dims.size() != y.dims.size() || x.members.size() + y.members.size() > kMaxMembers)
            return false;
        std::vector<std::int8_t> moved(y.dims.size(), -1);
        for (int d = 0; d < s.rank(); ++d)
            if (pb[static_cast<std::size_t>(d)] >= 0)
                moved[static_cast<std::size_t>(pb[static_cast<std::size_t>(d)])] =
                    pa[static_cast<std::size_t>(d)];
        // Dims that the shared shape does not have pair up in order: any pairing of equal extents
        // will do.
        std::vector<char> taken(x.dims.size(), 0);
        for (auto m : moved)
            if (m >= 0) taken[static_cast<std::size_t>(m)] = 1;
        for (std::size_t d = 0; d < y.dims.size(); ++d) {
            std::size_t k = 0;
            if (moved[d] < 0) {
                while (k < x.dims.size() && taken[k])
                    ++k;
                if (k == x.dims.size()) return false;
                taken[k] = 1;
                moved[d] = static_cast<std::int8_t>(k);
            }
            const Dim &p = x.dims[static_cast<std::size_t>(moved[d])], &q = y.dims[d];
            if (p.extent != q.extent || p.reduced != q.reduced) return false;
        }
        if (row_form(x) != row_form(y)) return false;
        for (std::size_t k = 0; k < y.members.size(); ++k)
            if (const Placement* have = x.placement(y.members[k]);
                have && !(*have == remapped(y.placements[k], moved)))
                return false;
        if (!independent(a, b)) return false;
        for (std::size_t k = 0; k < y.members.size(); ++k) {
            auto& clusters = l_[y.members[k]].clusters;
            std::erase(clusters, b);
            if (x.placement(y.members[k])) continue;
            clusters.push_back(a);
            x.members.push_back(y.members[k]);
            x.placements.push_back(remapped(y.placements[k], moved));
        }
        spans_.joined(*std::max_element(x.members.begin(), x.members.end()), a, false);
        for (auto m : x.members)
            spans_.joined(m, a, l_[m].stored);
        x.rows |= y.rows;
        y.dead = true;
        y.members.clear();
        y.placements.clear();
        return true;
    }

    // Reductions over the same input become one pass over it.
    void merge_siblings() {
        struct Read {
            std::int32_t base;
            Placement placement;
        };
        auto reads = [&](const Cluster& q) {
            std::vector<Read> out;
            for (std::size_t m = 0; m < q.members.size(); ++m) {
                const Placement top = input_placement(q, m);
                for (auto in : l_[q.members[m]].in) {
                    if (q.placement(in)) continue;
                    std::optional<Placement> p = top;
                    while (p && is_strided_view(l_.node(in))) {
                        p = under_view(l_.node(in), l_.node(l_[in].in[0]).shape, *p);
                        in = l_[in].in[0];
                    }
                    if (p && !is_inline_source(l_.node(in)) &&
                        coverage(q, *p, nullptr) == Cover::Full)
                        out.push_back({in, *p});
                }
            }
            return out;
        };
        std::vector<std::vector<std::pair<std::int32_t, Placement>>> readers(l_.nodes.size());
        for (std::int32_t q = 0; q < static_cast<std::int32_t>(l_.clusters.size()); ++q) {
            if (cluster(q).dead || !cluster(q).reduces()) continue;
            bool merged = true;
            while (merged) {
                merged = false;
                for (auto& r : reads(cluster(q))) {
                    for (auto& [other, placement] : readers[static_cast<std::size_t>(r.base)]) {
                        if (other == q || cluster(other).dead || !cluster(other).reduces())
                            continue;
                        if (merge(q, other, r.placement, placement, l_.node(r.base).shape)) {
                            merged = true;
                            break;
                        }
                    }
                    if (merged) break;
                }
            }
            for (auto& r : reads(cluster(q)))
                readers[static_cast<std::size_t>(r.base)].emplace_back(q, r.placement);
        }
    }

    // A merged program may hold both a stored value and all of its users; users elsewhere decide
    // what is stored.
    void make_units() {
        for (std::int32_t q = 0; q < static_cast<std::int32_t>(l_.clusters.size()); ++q) {
            if (cluster(q).dead) continue;
            const auto id = static_cast<std::int32_t>(l_.units.size());
            Unit u;
            u.cluster = q;
            for (auto m : cluster(q).members)
                if (l_[m].stored && l_[m].unit < 0) {
                    l_[m].stored = l_[m].target || read_elsewhere(m, q);
                    if (!l_[m].stored) continue;
                    l_[m].unit = id;
                    u.outputs.push_back(m);
                }
            l_.units.push_back(std::move(u));
        }
        for (auto& u : l_.units) {
            auto read = [&](std::int32_t in) {
                while (is_strided_view(l_.node(in)) && l_[in].input < 0)
                    in = l_[in].in[0];
                if (l_[in].stored && std::find(u.reads.begin(), u.reads.end(), in) == u.reads.end())
                    u.reads.push_back(in);
            };
            if (u.cluster >= 0) {
                const Cluster& q = cluster(u.cluster);
                for (auto m : q.members)
                    for (auto in : l_[m].in)
                        if (!q.placement(in)) read_outside(q, in, read);
            } else {
                for (auto in : l_[u.node].in)
                    read(in);
                for (auto e : u.epilogue)
                    for (auto in : l_[e].in)
                        if (l_[in].unit != l_[u.node].unit || !is_part(u, in)) read(in);
            }
        }
    }
    bool read_elsewhere(std::int32_t m, std::int32_t q) {
        std::vector<Edge> edges;
        collect(m, {}, edges);
        for (auto& e : edges) {
            const auto& c = l_[e.user].clusters;
            if (c.empty() || std::any_of(c.begin(), c.end(), [&](auto x) { return x != q; }))
                return true;
        }
        return false;
    }
    template <class F>
    void read_outside(const Cluster& q, std::int32_t in, F read) {
        std::int32_t base = in;
        while (is_strided_view(l_.node(base)) && l_[base].input < 0)
            base = l_[base].in[0];
        if (!q.placement(base)) read(in);
    }
    static bool is_part(const Unit& u, std::int32_t n) {
        return n == u.node ||
               std::find(u.epilogue.begin(), u.epilogue.end(), n) != u.epilogue.end();
    }

    Lowering& l_;
    std::vector<std::uint32_t> stamp_;
    std::vector<std::uint32_t> cluster_seen_;
    Spans spans_{l_.nodes.size()};
    std::vector<int> chain_;
    std::uint32_t now_ = 0;
};

}  // namespace

bool row_form(const Cluster& q) {
    if (q.rows) return true;
    int inner = -1;
    for (std::size_t d = 0; d < q.dims.size(); ++d)
        if (q.dims[d].extent != 1 && (!q.channels_last || static_cast<int>(d) == q.channel))
            inner = static_cast<int>(d);
    return inner < 0 || q.dims[static_cast<std::size_t>(inner)].reduced;
}

void partition(Lowering& l) { Partition(l).run(); }

}  // namespace pippin::plan
