// Triangles, diagonals, repeats, parts and borders: views and their joins.
#include <algorithm>

#include <fmt/format.h>

#include "graph/build.h"
#include "pippin/ops_shape.h"
#include "tensor/promote.h"
#include "tensor/site.h"
#include "tensor/variable.h"

namespace pippin {

namespace g = graph;
using g::IntList;
using graph::NodePtr;

namespace {

// [start, stop) of dim by step.
NodePtr part(const NodePtr& n, int dim, std::int64_t start, std::int64_t stop,
             std::int64_t every = 1) {
    IntList lo, hi, step;
    for (int d = 0; d < n->shape.rank(); ++d) {
        lo.push_back(d == dim ? start : 0);
        hi.push_back(d == dim ? stop : n->shape[d]);
        step.push_back(d == dim ? every : 1);
    }
    return g::slice(n, lo, hi, step);
}

// x where keep(row + diagonal, column) of int64 nodes holds, else 0.
template <class F>
Tensor triangle(const Tensor& x, std::int64_t diagonal, const char* op, const Site& site, F keep) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const Shape& s = n->shape;
        if (s.rank() < 2)
            throw ValueError(
                fmt::format("{}: needs at least 2 dimensions, got shape {}", op, s.str()));
        const Shape last{s[s.rank() - 2], s.back()};
        const NodePtr row = g::add(g::iota(last, 0, DType::Int64, n->device),
                                   g::full_int(diagonal, DType::Int64, last, n->device));
        const NodePtr column = g::iota(last, 1, DType::Int64, n->device);
        return wrap(
            g::select(g::expand_to(keep(row, column), s), n, g::full(0, n->dtype, s, n->device)));
    });
}

// The dims a and b moved behind the others.
NodePtr with_last(const NodePtr& n, int a, int b) {
    IntList order;
    for (int d = 0; d < n->shape.rank(); ++d)
        if (d != a && d != b) order.push_back(d);
    order.push_back(a);
    order.push_back(b);
    return g::permute(n, order);
}

NodePtr diagonal_of(const NodePtr& n, std::int64_t offset, int a, int b) {
    const NodePtr m = with_last(n, a, b);
    const int rank = m->shape.rank();
    const std::int64_t rows = m->shape[rank - 2], columns = m->shape[rank - 1];
    const std::int64_t length = std::max<std::int64_t>(
        0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
    Shape flat;
    for (int d = 0; d < rank - 2; ++d)
        flat.push_back(m->shape[d]);
    flat.push_back(rows * columns);
    if (length == 0) return part(g::reshape(m, flat), rank - 2, 0, 0);
    const std::int64_t start = offset >= 0 ? offset : -offset * columns;
    return part(g::reshape(m, flat), rank - 2, start, start + (length - 1) * (columns + 1) + 1,
                columns + 1);
}

NodePtr rolled(const NodePtr& n, int d, std::int64_t shift) {
    const std::int64_t extent = n->shape[d];
    if (extent == 0) return n;
    const std::int64_t by = (shift % extent + extent) % extent;
    if (by == 0) return n;
    return g::concat({part(n, d, extent - by, extent), part(n, d, 0, extent - by)}, d);
}

NodePtr repeated(const NodePtr& x, const Dims& counts, const char* op) {
    const int extra = static_cast<int>(counts.size()) - x->shape.rank();
    if (extra < 0)
        throw ValueError(fmt::format("{}: {} counts for shape {}; give one for each dimension", op,
                                     counts.size(), x->shape.str()));
    for (auto c : counts)
        if (c < 0) throw ValueError(fmt::format("{}: negative count {}", op, c));
    Shape out;
    for (std::size_t d = 0; d < counts.size(); ++d) {
        const int from = static_cast<int>(d) - extra;
        out.push_back(counts[d] * (from < 0 ? 1 : x->shape[from]));
    }
    // One dim after the other, each as (count, extent): ranks stay within bounds.
    NodePtr y = x;
    while (y->shape.rank() < out.rank()) {
        Shape s = y->shape;
        s.insert(0, 1);
        y = g::reshape(y, s);
    }
    for (int d = 0; d < out.rank(); ++d) {
        if (y->shape[d] == out[d]) continue;
        Shape next = y->shape, outer{1, 1, y->shape[d], 1}, grown;
        for (int k = 0; k < d; ++k)
            outer[0] *= y->shape[k];
        for (int k = d + 1; k < out.rank(); ++k)
            outer[3] *= y->shape[k];
        grown = outer;
        grown[1] = counts[static_cast<std::size_t>(d)];
        next[d] = out[d];
        y = g::reshape(g::expand(g::reshape(y, outer), grown), next);
    }
    return y;
}

NodePtr bordered(const NodePtr& n, int d, std::int64_t low, std::int64_t high, PadMode mode) {
    const std::int64_t extent = n->shape[d];
    if (low < 0 || high < 0) {  // negative amounts cut away
        const NodePtr cut =
            part(n, d, std::max<std::int64_t>(0, -low), extent - std::max<std::int64_t>(0, -high));
        return bordered(cut, d, std::max<std::int64_t>(0, low), std::max<std::int64_t>(0, high),
                        mode);
    }
    if (low == 0 && high == 0) return n;
    const std::int64_t most = mode == PadMode::Reflect    ? extent - 1
                              : mode == PadMode::Circular ? extent
                                                          : (extent ? INT64_MAX : 0);
    if (low > most || high > most)
        throw ValueError(fmt::format(
            "pad: amounts {} and {} are more than dimension {} of shape {} has to offer ({})", low,
            high, d, n->shape.str(), most));
    g::Inputs parts;
    Shape edge = n->shape;
    if (low > 0) {
        edge[d] = low;
        parts.push_back(mode == PadMode::Reflect    ? g::flip(part(n, d, 1, low + 1), {d})
                        : mode == PadMode::Circular ? part(n, d, extent - low, extent)
                                                    : g::expand(part(n, d, 0, 1), edge));
    }
    parts.push_back(n);
    if (high > 0) {
        edge[d] = high;
        parts.push_back(
            mode == PadMode::Reflect    ? g::flip(part(n, d, extent - 1 - high, extent - 1), {d})
            : mode == PadMode::Circular ? part(n, d, 0, high)
                                        : g::expand(part(n, d, extent - 1, extent), edge));
    }
    return g::concat(parts, d);
}

}  // namespace

// --- triangles and diagonals ---

Tensor tril(const Tensor& x, std::int64_t diagonal, Site site) {
    return triangle(x, diagonal, "tril", site,
                    [](const NodePtr& row, const NodePtr& column) { return g::le(column, row); });
}
Tensor triu(const Tensor& x, std::int64_t diagonal, Site site) {
    return triangle(x, diagonal, "triu", site,
                    [](const NodePtr& row, const NodePtr& column) { return g::le(row, column); });
}

Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t a, std::int64_t b, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const int rank = n->shape.rank();
        const int i = normalized_dim(a, rank), j = normalized_dim(b, rank);
        if (rank < 2 || i == j)
            throw ValueError(
                fmt::format("diagonal: needs two different dimensions, got {} and {} "
                            "of shape {}",
                            a, b, n->shape.str()));
        return wrap(diagonal_of(n, offset, i, j));
    });
}

Tensor diag(const Tensor& x, std::int64_t offset, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        if (n->shape.rank() == 2) return wrap(diagonal_of(n, offset, 0, 1));
        if (n->shape.rank() != 1)
            throw ValueError(
                fmt::format("diag: needs a vector or a matrix, got shape {}", n->shape.str()));
        // Each element followed by as many zeros as lie between it and the next of the diagonal.
        const std::int64_t length = n->shape[0], size = length + std::abs(offset);
        if (length == 0) return full({size, size}, 0, Options(n->dtype, n->device));
        const std::int64_t before = offset >= 0 ? offset : -offset * size;
        const std::int64_t after = size * size - before - (length + (length - 1) * size);
        return wrap(g::reshape(g::pad(n, {before}, {after}, {size}, 0), {size, size}));
    });
}

// --- moving and repeating ---

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims, Site site) {
    return at_site(site, [&] {
        NodePtr n = node_of(x);
        if (dims.empty() && shifts.size() == 1) {
            const Shape s = n->shape;
            return wrap(g::reshape(rolled(g::reshape(n, {s.numel()}), 0, shifts[0]), s));
        }
        if (dims.empty() || shifts.size() != dims.size())
            throw ValueError(fmt::format("roll: {} shifts for {} dimensions; give one for each",
                                         shifts.size(), dims.size()));
        for (std::size_t k = 0; k < dims.size(); ++k) {
            const int d = normalized_dim(dims[k], n->shape.rank());
            if (n->shape.rank() > 0) n = rolled(n, d, shifts[k]);
        }
        return wrap(n);
    });
}

Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        const int rank = n->shape.rank();
        const int a = normalized_dim(from, rank), b = normalized_dim(to, rank);
        if (rank == 0) return x;
        std::vector<std::int64_t> order;
        for (int d = 0; d < rank; ++d)
            if (d != a) order.push_back(d);
        order.insert(order.begin() + b, a);
        return wrap(g::permute(n, IntList(order.begin(), order.end())));
    });
}

Tensor repeat(const Tensor& x, const Dims& counts, Site site) {
    return at_site(site, [&] { return wrap(repeated(node_of(x), counts, "repeat")); });
}
Tensor tile(const Tensor& x, const Dims& counts, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        Dims all = counts;
        while (static_cast<int>(all.size()) < n->shape.rank())
            all.insert(all.begin(), 1);
        return wrap(repeated(n, all, "tile"));
    });
}

Tensor repeat_interleave(const Tensor& x, std::int64_t count, std::optional<std::int64_t> dim,
                         Site site) {
    return at_site(site, [&] {
        if (count < 0) throw ValueError(fmt::format("repeat_interleave: negative count {}", count));
        NodePtr n = node_of(x);
        if (!dim || n->shape.rank() == 0) n = g::reshape(n, {n->shape.numel()});
        const int d = dim ? normalized_dim(*dim, n->shape.rank()) : 0;
        Shape out = n->shape, thin{1, n->shape[d], 1, 1};
        out[d] *= count;
        for (int k = 0; k < out.rank(); ++k)
            if (k != d) thin[k < d ? 0 : 3] *= n->shape[k];
        Shape grown = thin;
        grown[2] = count;
        return wrap(g::reshape(g::expand(g::reshape(n, thin), grown), out));
    });
}

std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, Indexing indexing, Site site) {
    return at_site(site, [&] {
        if (tensors.empty()) throw ValueError("meshgrid: no tensors given");
        Shape grid;
        for (auto& t : tensors) {
            if (t.shape().rank() > 1)
                throw ValueError(
                    fmt::format("meshgrid: needs vectors, got shape {}", t.shape().str()));
            if (t.dtype() != tensors[0].dtype())
                throw TypeError(fmt::format("meshgrid: dtypes differ: {} and {}",
                                            name_of(tensors[0].dtype()), name_of(t.dtype())));
            grid.push_back(t.numel());
        }
        const bool swapped = indexing == Indexing::XY && grid.rank() >= 2;
        std::vector<Tensor> out;
        for (int k = 0; k < grid.rank(); ++k) {
            Shape line;
            for (int d = 0; d < grid.rank(); ++d)
                line.push_back(d == k ? grid[k] : 1);
            const NodePtr n =
                g::expand(g::reshape(node_of(tensors[static_cast<std::size_t>(k)]), line), grid);
            out.push_back(wrap(swapped ? g::transpose(n, 0, 1) : n));
        }
        return out;
    });
}

// --- parts ---

std::vector<Tensor> split_with_sizes(const Tensor& x, const Dims& sizes, std::int64_t dim,
                                     Site site) {
    return at_site(site, [&] {
        const std::int64_t n = x.size(dim);
        std::int64_t total = 0;
        for (auto s : sizes) {
            if (s < 0) throw ValueError(fmt::format("split_with_sizes: negative size {}", s));
            total += s;
        }
        if (total != n)
            throw ValueError(
                fmt::format("split_with_sizes: the sizes add up to {}, dimension {} of "
                            "shape {} has {}",
                            total, dim, x.shape().str(), n));
        std::vector<Tensor> parts;
        std::int64_t at = 0;
        for (auto s : sizes) {
            parts.push_back(narrow(x, dim, at, s, site));
            at += s;
        }
        return parts;
    });
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim, Site site) {
    return at_site(site, [&] {
        if (chunks < 1)
            throw ValueError(fmt::format("chunk: needs at least 1 chunk, got {}", chunks));
        const std::int64_t n = x.size(dim);
        if (n == 0) return std::vector<Tensor>(static_cast<std::size_t>(chunks), x);
        return split(x, (n + chunks - 1) / chunks, dim, site);
    });
}

std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim, Site site) {
    return at_site(site, [&] {
        const NodePtr& n = node_of(x);
        if (n->shape.rank() == 0) throw ValueError("unbind: a 0-d tensor has no slices");
        const int d = normalized_dim(dim, n->shape.rank());
        Shape s = n->shape;
        s.erase(d);
        std::vector<Tensor> parts;
        for (std::int64_t k = 0; k < n->shape[d]; ++k)
            parts.push_back(wrap(g::reshape(part(n, d, k, k + 1), s)));
        return parts;
    });
}

// --- borders ---

Tensor pad(const Tensor& x, const Dims& amounts, PadMode mode, Site site) {
    if (mode == PadMode::Constant) return pad(x, amounts, 0.0, site);
    return at_site(site, [&] {
        NodePtr n = node_of(x);
        const int rank = n->shape.rank();
        if (amounts.size() % 2 != 0 || static_cast<int>(amounts.size() / 2) > rank)
            throw ValueError(fmt::format(
                "pad: {} amounts for shape {}; give (low, high) for each of the last dimensions",
                amounts.size(), n->shape.str()));
        for (std::size_t k = 0; k < amounts.size() / 2; ++k)
            n = bordered(n, rank - 1 - static_cast<int>(k), amounts[2 * k], amounts[2 * k + 1],
                         mode);
        return wrap(n);
    });
}

}  // namespace pippin
