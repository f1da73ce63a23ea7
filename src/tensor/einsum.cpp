// einsum: each pair of operands is brought to one batched matrix product.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "graph/build.h"
#include "pippin/ops_linalg.h"
#include "tensor/promote.h"
#include "tensor/site.h"
#include "tensor/variable.h"

namespace pippin {

namespace g = graph;
using g::IntList;
using graph::NodePtr;

namespace {

// A label is a letter, or a digit for a dimension under the ellipsis (0 is the last of them).
using Labels = std::string;

struct Term {
    NodePtr node;
    Labels labels;  ///< one for each dimension, all different

    bool has(char c) const { return labels.find(c) != Labels::npos; }
    std::int64_t extent(char c) const { return node->shape[static_cast<int>(labels.find(c))]; }
};

[[noreturn]] void bad(std::string_view equation, const std::string& what) {
    throw ValueError(fmt::format("einsum \"{}\": {}", equation, what));
}

// The labels of one operand or of the result, with the ellipsis as `dots` labels.
Labels labels_of(std::string_view text, int dots, std::string_view equation) {
    Labels out;
    bool seen = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == ' ') continue;
        if (c == '.') {
            if (seen || text.substr(i, 3) != "...")
                bad(equation, "an ellipsis is three dots, once");
            seen = true;
            i += 2;
            for (int k = dots; k-- > 0;)
                out += static_cast<char>('0' + k);
        } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
            out += c;
        } else {
            bad(equation, fmt::format("'{}' is not a letter", c));
        }
    }
    return out;
}

int letters_in(std::string_view text) {
    return static_cast<int>(
        std::count_if(text.begin(), text.end(), [](char c) { return c != '.' && c != ' '; }));
}

// A label that stands twice takes the diagonal: where the indices of both dims are equal.
Term without_repeats(NodePtr n, Labels labels, std::string_view equation) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
        const std::size_t j = labels.find(labels[i], i + 1);
        if (j == Labels::npos) continue;
        const int a = static_cast<int>(i), b = static_cast<int>(j);
        if (n->shape[a] != n->shape[b])
            bad(equation, fmt::format("'{}' names dimensions of extents {} and {}", labels[i],
                                      n->shape[a], n->shape[b]));
        const NodePtr same = g::eq(g::iota(n->shape, a, DType::Int64, n->device),
                                   g::iota(n->shape, b, DType::Int64, n->device));
        const NodePtr kept = g::select(same, n, g::full(0, n->dtype, n->shape, n->device));
        Shape s = n->shape;
        s.erase(b);
        n = g::reshape(g::cast(g::reduce_sum(kept, {b}), n->dtype), s);
        labels.erase(j, 1);
        --i;
    }
    return {n, labels};
}

Term summed(const Term& t, const Labels& gone) {
    IntList dims;
    Shape s;
    Labels left;
    for (std::size_t i = 0; i < t.labels.size(); ++i) {
        if (gone.find(t.labels[i]) != Labels::npos) {
            dims.push_back(static_cast<std::int64_t>(i));
        } else {
            s.push_back(t.node->shape[static_cast<int>(i)]);
            left += t.labels[i];
        }
    }
    if (dims.empty()) return t;
    return {g::reshape(g::cast(g::reduce_sum(t.node, dims), t.node->dtype), s), left};
}

// The term with its dims in the order of `labels`, all of which it has.
NodePtr arranged(const Term& t, const Labels& labels) {
    IntList order;
    for (const char c : labels)
        order.push_back(static_cast<std::int64_t>(t.labels.find(c)));
    return g::permute(t.node, order);
}

Shape extents(const Labels& labels, const Term& a, const Term& b) {
    Shape s;
    for (const char c : labels)
        s.push_back(a.has(c) ? a.extent(c) : b.extent(c));
    return s;
}

// Sums over the labels of both that `kept` does not have.
Term product(Term a, Term b, const Labels& kept, std::string_view equation) {
    Labels ones_a, ones_b;  // extents of 1 that broadcast
    for (const char c : a.labels) {
        if (!b.has(c) || a.extent(c) == b.extent(c)) continue;
        if (a.extent(c) != 1 && b.extent(c) != 1)
            bad(equation, fmt::format("'{}' names dimensions of extents {} and {}", c, a.extent(c),
                                      b.extent(c)));
        (a.extent(c) == 1 ? ones_a : ones_b) += c;
    }
    a = summed(a, ones_a);
    b = summed(b, ones_b);

    Labels batch, only_a, only_b, inner, gone_a, gone_b;
    for (const char c : a.labels) {
        const bool stays = kept.find(c) != Labels::npos;
        (b.has(c) ? (stays ? batch : inner) : (stays ? only_a : gone_a)) += c;
    }
    for (const char c : b.labels)
        if (!a.has(c)) (kept.find(c) != Labels::npos ? only_b : gone_b) += c;
    a = summed(a, gone_a);
    b = summed(b, gone_b);

    const Labels out = batch + only_a + only_b;
    const Shape shape = extents(out, a, b);
    const std::int64_t n = extents(batch, a, b).numel(), m = extents(only_a, a, b).numel(),
                       k = extents(inner, a, b).numel(), p = extents(only_b, a, b).numel();
    const NodePtr x = arranged(a, batch + only_a + inner), y = arranged(b, batch + inner + only_b);
    if (inner.empty()) {
        const Shape both{n, m, p};
        const NodePtr wide = g::mul(g::expand(g::reshape(x, {n, m, 1}), both),
                                    g::expand(g::reshape(y, {n, 1, p}), both));
        return {g::reshape(wide, shape), out};
    }
    const Tensor r = matmul(wrap(g::reshape(x, {n, m, k})), wrap(g::reshape(y, {n, k, p})));
    return {g::reshape(node_of(r), shape), out};
}

std::vector<std::string> sides_of(std::string_view left) {
    std::vector<std::string> parts(1);
    for (const char c : left)
        if (c == ',')
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

}  // namespace

Tensor einsum(std::string_view equation, std::span<const Tensor> operands, Site site) {
    return at_site(site, [&] {
        const std::size_t arrow = equation.find("->");
        const auto inputs = sides_of(equation.substr(0, arrow));
        if (inputs.size() != operands.size() || operands.empty())
            bad(equation,
                fmt::format("names {} operands, {} are given", inputs.size(), operands.size()));
        int dots = 0;
        for (std::size_t i = 0; i < operands.size(); ++i)
            if (inputs[i].find('.') != std::string::npos)
                dots = std::max(dots, operands[i].shape().rank() - letters_in(inputs[i]));
        if (dots > Shape::kMaxRank) bad(equation, "too many dimensions");
        std::vector<Term> terms;
        Labels all;
        for (std::size_t i = 0; i < operands.size(); ++i) {
            const NodePtr& n = node_of(operands[i], "einsum: an operand");
            const bool dotted = inputs[i].find('.') != std::string::npos;
            const int own = dotted ? std::max(0, n->shape.rank() - letters_in(inputs[i])) : 0;
            const Labels labels = labels_of(inputs[i], own, equation);
            if (static_cast<int>(labels.size()) != n->shape.rank())
                bad(equation, fmt::format("operand {} has shape {}, but {} dimensions are named", i,
                                          n->shape.str(), labels.size()));
            if (n->dtype != node_of(operands[0])->dtype)
                throw TypeError(fmt::format("einsum: dtypes differ: {} and {}",
                                            name_of(operands[0].dtype()), name_of(n->dtype)));
            all += labels;
            terms.push_back(without_repeats(n, labels, equation));
        }
        Labels out;
        if (arrow != std::string_view::npos) {
            out = labels_of(equation.substr(arrow + 2), dots, equation);
        } else {
            for (int k = dots; k-- > 0;)
                out += static_cast<char>('0' + k);
            for (int c = 'A'; c <= 'z'; ++c)
                if (std::count(all.begin(), all.end(), static_cast<char>(c)) == 1)
                    out += static_cast<char>(c);
        }
        for (const char c : out) {
            if (all.find(c) == Labels::npos)
                bad(equation, fmt::format("'{}' of the result is in no operand", c));
            if (std::count(out.begin(), out.end(), c) > 1)
                bad(equation, fmt::format("'{}' stands in the result more than once", c));
        }
        Term t = terms[0];
        for (std::size_t i = 1; i < terms.size(); ++i) {
            Labels kept = out;
            for (std::size_t j = i + 1; j < terms.size(); ++j)
                kept += terms[j].labels;
            t = product(t, terms[i], kept, equation);
        }
        Labels gone;
        for (const char c : t.labels)
            if (out.find(c) == Labels::npos) gone += c;
        return wrap(arranged(summed(t, gone), out));
    });
}

Tensor outer(const Tensor& a, const Tensor& b, Site site) {
    return at_site(site, [&] {
        if (a.dim() != 1 || b.dim() != 1)
            throw ValueError(fmt::format("outer: needs two vectors, got shapes {} and {}",
                                         a.shape().str(), b.shape().str()));
        return Operand(unsqueeze(a, 1, site), site) * Operand(b, site);
    });
}

Tensor bmm(const Tensor& a, const Tensor& b, Site site) {
    return at_site(site, [&] {
        if (a.dim() != 3 || b.dim() != 3 || a.size(0) != b.size(0))
            throw ValueError(fmt::format(
                "bmm: needs (b, n, k) and (b, k, m), got shapes {} and {}; matmul broadcasts",
                a.shape().str(), b.shape().str()));
        return matmul(a, b, site);
    });
}

}  // namespace pippin
