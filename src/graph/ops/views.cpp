// Ops that only say where an element comes from.
#include <algorithm>

#include "graph/ops/check.h"
#include "graph/ops/records.h"
#include "graph/ops/ref.h"

namespace pippin::graph::ops {
namespace {

using Nodes = std::span<const NodePtr>;

// --- reshape ---

Type infer_reshape(Nodes in, const Attrs& a) {
    const Shape shape = countable(Shape(ints(a)));
    if (shape.numel() != in[0]->shape.numel())
        bad_value(in[0]->shape.numel(), " elements do not fit shape ", shape);
    return {in[0]->dtype, shape};
}
Inputs grad_reshape(const NodePtr& y, const NodePtr& dy) {
    return {reshape(dy, y->inputs[0]->shape)};
}
RefArray ref_reshape(const Node& n, Refs in) { return {n.shape, in[0].data}; }

// --- permute ---

Type infer_permute(Nodes in, const Attrs& a) {
    const Shape& s = in[0]->shape;
    if (static_cast<int>(a.i.size()) != s.rank())
        bad_value("names ", static_cast<std::int64_t>(a.i.size()), " dims of a tensor that has ",
                  std::int64_t{s.rank()});
    Shape out = s;
    unsigned seen = 0;
    for (int d = 0; d < s.rank(); ++d) {
        const int from = check_dim(a.i[static_cast<std::size_t>(d)], s);
        if (seen & (1u << from)) bad_value("names dim ", std::int64_t{from}, " twice");
        seen |= 1u << from;
        out[d] = s[from];
    }
    return {in[0]->dtype, out};
}
Inputs grad_permute(const NodePtr& y, const NodePtr& dy) {
    IntList inverse = y->attrs.i;
    for (std::size_t d = 0; d < inverse.size(); ++d)
        inverse[static_cast<std::size_t>(y->attrs.i[d])] = static_cast<std::int64_t>(d);
    return {permute(dy, inverse)};
}
RefArray ref_permute(const Node& n, Refs in) {
    return generate(n.shape, [&](const Point& p) {
        Point from{};
        for (std::size_t d = 0; d < n.attrs.i.size(); ++d)
            from[static_cast<std::size_t>(n.attrs.i[d])] = p[d];
        return at(in[0], from);
    });
}

// --- expand ---

Type infer_expand(Nodes in, const Attrs& a) {
    const Shape shape = countable(Shape(ints(a)));
    const Shape& s = in[0]->shape;
    if (shape.rank() != s.rank())
        bad_value("cannot expand to ", shape, ": the number of dimensions differs");
    for (int d = 0; d < s.rank(); ++d)
        if (s[d] != shape[d] && s[d] != 1)
            bad_value("cannot expand to ", shape, ": extent ", s[d], " of dim ", std::int64_t{d},
                      " is not 1");
    return {in[0]->dtype, shape};
}
Inputs grad_expand(const NodePtr& y, const NodePtr& dy) {
    return {sum_to(dy, y->inputs[0]->shape)};
}
RefArray ref_expand(const Node& n, Refs in) {
    return generate(n.shape, [&](const Point& p) { return at_broadcast(in[0], p); });
}

// --- slice ---

Type infer_slice(Nodes in, const Attrs& a) {
    Shape out = in[0]->shape;
    if (a.i.size() != 3 * static_cast<std::size_t>(out.rank()))
        bad_value("needs start, stop and step of each dim");
    for (int d = 0; d < out.rank(); ++d) {
        const auto k = static_cast<std::size_t>(d);
        const std::int64_t start = slice_start(a)[k], stop = slice_stop(a)[k],
                           step = slice_step(a)[k];
        if (step < 1) bad_value("step of dim ", std::int64_t{d}, " must be at least 1, not ", step);
        if (start < 0 || start > stop || stop > out[d])
            bad_value("range [", start, ", ", stop, ") is not within extent ", out[d], " of dim ",
                      std::int64_t{d});
        out[d] = (stop - start + step - 1) / step;
    }
    return {in[0]->dtype, out};
}
Inputs grad_slice(const NodePtr& y, const NodePtr& dy) {
    const Shape& s = y->inputs[0]->shape;
    IntList low, high, inner;
    for (int d = 0; d < s.rank(); ++d) {
        const auto k = static_cast<std::size_t>(d);
        const std::int64_t start = slice_start(y->attrs)[k], step = slice_step(y->attrs)[k],
                           n = y->shape[d];
        const std::int64_t covered = n > 0 ? (n - 1) * step + 1 : 0;
        low.push_back(start);
        high.push_back(s[d] - start - covered);
        inner.push_back(step - 1);
    }
    return {pad(dy, low, high, inner, 0)};
}
RefArray ref_slice(const Node& n, Refs in) {
    return generate(n.shape, [&](Point p) {
        for (std::size_t d = 0; d < slice_start(n.attrs).size(); ++d)
            p[d] = slice_start(n.attrs)[d] + p[d] * slice_step(n.attrs)[d];
        return at(in[0], p);
    });
}

// --- pad: `inner` elements go between each two of the input ---

Type infer_pad(Nodes in, const Attrs& a) {
    Shape out = in[0]->shape;
    if (a.i.size() != 3 * static_cast<std::size_t>(out.rank()) + 1)
        bad_value("needs low, high and inner of each dim");
    for (int d = 0; d < out.rank(); ++d) {
        const auto k = static_cast<std::size_t>(d);
        const std::int64_t low = pad_low(a)[k], high = pad_high(a)[k], inner = pad_inner(a)[k];
        if (low < 0 || high < 0 || inner < 0)
            bad_value("amounts of dim ", std::int64_t{d}, " cannot be negative: ", low, ", ", high,
                      ", ", inner);
        out[d] += low + high + (out[d] > 0 ? (out[d] - 1) * inner : 0);
    }
    return {in[0]->dtype, countable(out)};
}
Inputs grad_pad(const NodePtr& y, const NodePtr& dy) {
    const Shape& s = y->inputs[0]->shape;
    IntList start, stop, step;
    for (int d = 0; d < s.rank(); ++d) {
        const auto k = static_cast<std::size_t>(d);
        const std::int64_t stride = pad_inner(y->attrs)[k] + 1;
        start.push_back(pad_low(y->attrs)[k]);
        stop.push_back(start.back() + (s[d] > 0 ? (s[d] - 1) * stride + 1 : 0));
        step.push_back(stride);
    }
    return {slice(dy, start, stop, step)};
}
RefArray ref_pad(const Node& n, Refs in) {
    RefArray y = generate(n.shape, [&](const Point&) { return pad_value(n); });
    for_each_point(in[0].shape, [&](const Point& p) {
        Point to = p;
        for (std::size_t d = 0; d < pad_low(n.attrs).size(); ++d)
            to[d] = pad_low(n.attrs)[d] + p[d] * (pad_inner(n.attrs)[d] + 1);
        at(y, to) = at(in[0], p);
    });
    return y;
}

// --- concat ---

Type infer_concat(Nodes in, const Attrs& a) {
    if (in.empty()) bad_value("needs at least one tensor");
    Shape out = in[0]->shape;
    const int dim = check_dim(a.i[0], out);
    for (const NodePtr& x : in.subspan(1)) {
        need_same_dtype(*in[0], *x);
        if (x->shape.rank() != out.rank()) bad_value("the numbers of dimensions differ");
        for (int d = 0; d < out.rank(); ++d)
            if (d != dim && x->shape[d] != out[d])
                bad_value("extents ", out[d], " and ", x->shape[d], " of dim ", std::int64_t{d},
                          " differ; only dim ", std::int64_t{dim}, " may");
        out[dim] += x->shape[dim];
    }
    return {in[0]->dtype, countable(out)};
}
Inputs grad_concat(const NodePtr& y, const NodePtr& dy) {
    const auto dim = static_cast<std::size_t>(dim_attr(y->attrs));
    IntList start, stop, step;
    for (const std::int64_t extent : y->shape) {
        start.push_back(0);
        stop.push_back(extent);
        step.push_back(1);
    }
    Inputs g;
    stop[dim] = 0;
    for (const NodePtr& x : y->inputs) {
        start[dim] = stop[dim];
        stop[dim] += x->shape[static_cast<int>(dim)];
        g.push_back(x->requires_grad ? slice(dy, start, stop, step) : nullptr);
    }
    return g;
}
RefArray ref_concat(const Node& n, Refs in) {
    const auto dim = static_cast<std::size_t>(dim_attr(n.attrs));
    RefArray y = zeros(n.shape);
    std::int64_t before = 0;
    for (const RefArray& x : in) {
        for_each_point(x.shape, [&](Point p) {
            const double v = at(x, p);
            p[dim] += before;
            at(y, p) = v;
        });
        before += x.shape[static_cast<int>(dim)];
    }
    return y;
}

// --- flip ---

Type infer_flip(Nodes in, const Attrs& a) {
    unsigned seen = 0;
    for (const std::int64_t d : a.i) {
        const unsigned bit = 1u << check_dim(d, in[0]->shape);
        if (seen & bit) bad_value("names dim ", d, " twice");
        seen |= bit;
    }
    return {in[0]->dtype, in[0]->shape};
}
Inputs grad_flip(const NodePtr& y, const NodePtr& dy) { return {flip(dy, y->attrs.i)}; }
RefArray ref_flip(const Node& n, Refs in) {
    return generate(n.shape, [&](Point p) {
        for (const std::int64_t d : n.attrs.i) {
            const auto k = static_cast<std::size_t>(d);
            p[k] = n.shape[static_cast<int>(d)] - 1 - p[k];
        }
        return at(in[0], p);
    });
}

// --- detach ---

Type infer_detach(Nodes in, const Attrs&) { return {in[0]->dtype, in[0]->shape}; }
RefArray ref_detach(const Node&, Refs in) { return in[0]; }

}  // namespace

const OpRecord kReshape{"reshape", Kind::View, infer_reshape, grad_reshape, ref_reshape, nullptr};
const OpRecord kPermute{"permute", Kind::View, infer_permute, grad_permute, ref_permute, nullptr};
const OpRecord kExpand{"expand", Kind::View, infer_expand, grad_expand, ref_expand, nullptr};
const OpRecord kSlice{"slice", Kind::View, infer_slice, grad_slice, ref_slice, nullptr};
const OpRecord kPad{"pad", Kind::View, infer_pad, grad_pad, ref_pad, nullptr};
const OpRecord kConcat{"concat", Kind::View, infer_concat, grad_concat, ref_concat, nullptr};
const OpRecord kFlip{"flip", Kind::View, infer_flip, grad_flip, ref_flip, nullptr};
const OpRecord kDetach{"detach", Kind::View, infer_detach, nullptr, ref_detach, nullptr};

}  // namespace pippin::graph::ops
