// The order of units: whatever is ready and frees most (or costs least) memory comes next.
#include <algorithm>
#include <queue>

#include "plan/lowering.h"

namespace pippin::plan {

void schedule(Lowering& l) {
    const std::size_t count = l.units.size();
    std::vector<int> missing(count, 0);
    std::vector<std::vector<std::int32_t>> followers(count);
    std::vector<int> readers(l.nodes.size(), 0);
    std::vector<std::int32_t> place(count, 0);
    for (std::size_t u = 0; u < count; ++u) {
        for (auto r : l.units[u].reads) {
            ++readers[static_cast<std::size_t>(r)];
            if (const std::int32_t maker = l[r].unit; maker >= 0) {
                ++missing[u];
                followers[static_cast<std::size_t>(maker)].push_back(static_cast<std::int32_t>(u));
            }
        }
        for (auto o : l.units[u].outputs)
            place[u] = std::max(place[u], o);
    }
    // What running u changes in live arena bytes: its temporaries are born, what only it still
    // reads dies.
    auto growth = [&](std::size_t u) {
        std::int64_t g = 0;
        for (auto o : l.units[u].outputs)
            if (!l[o].target) g += bytes_of(l, o);
        for (auto r : l.units[u].reads)
            if (readers[static_cast<std::size_t>(r)] == 1 && !l[r].target && l[r].input < 0)
                g -= bytes_of(l, r);
        return g;
    };
    std::vector<std::int32_t> ready, order;
    for (std::size_t u = 0; u < count; ++u)
        if (missing[u] == 0) ready.push_back(static_cast<std::int32_t>(u));
    while (!ready.empty()) {
        std::size_t best = 0;
        std::int64_t best_growth = 0;
        for (std::size_t k = 0; k < ready.size(); ++k) {
            const auto u = static_cast<std::size_t>(ready[k]);
            const std::int64_t g = growth(u);
            const bool better =
                k == 0 || g < best_growth ||
                (g == best_growth && place[u] < place[static_cast<std::size_t>(ready[best])]);
            if (better) {
                best = k;
                best_growth = g;
            }
        }
        const std::int32_t u = ready[best];
        ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(best));
        order.push_back(u);
        for (auto r : l.units[static_cast<std::size_t>(u)].reads)
            --readers[static_cast<std::size_t>(r)];
        for (auto f : followers[static_cast<std::size_t>(u)])
            if (--missing[static_cast<std::size_t>(f)] == 0) ready.push_back(f);
    }
    if (order.size() != count)
        throw Error("internal error: the plan's programs depend on each other in a circle");
    std::vector<Unit> units;
    std::vector<std::int32_t> moved(count);
    for (auto u : order) {
        moved[static_cast<std::size_t>(u)] = static_cast<std::int32_t>(units.size());
        units.push_back(std::move(l.units[static_cast<std::size_t>(u)]));
    }
    l.units = std::move(units);
    for (auto& n : l.nodes)
        if (n.unit >= 0) n.unit = moved[static_cast<std::size_t>(n.unit)];
}

}  // namespace pippin::plan
