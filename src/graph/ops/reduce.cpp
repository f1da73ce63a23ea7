// Reductions over sorted dims. Every reduced dim stays, with extent 1.
#include "graph/ops/check.h"
#include "graph/ops/records.h"
#include "graph/ops/ref.h"

namespace pippin::graph::ops {
namespace {

using Nodes = std::span<const NodePtr>;

// --- type rules ---

Shape reduced(Nodes in, const Attrs& a, bool needs_element) {
    Shape s = in[0]->shape;
    std::int64_t last = -1;
    for (const std::int64_t d : a.i) {
        check_dim(d, s);
        if (d <= last) bad_value("dims must be sorted and named once");
        last = d;
        if (needs_element && s[static_cast<int>(d)] == 0)
            bad_value("dim ", d, " has no elements, and there is no extremum of nothing");
        s[static_cast<int>(d)] = 1;
    }
    return s;
}
Type infer_sum(Nodes in, const Attrs& a) {  // integers and bool add up as int64
    const DType t = in[0]->dtype;
    return {is_floating(t) ? t : DType::Int64, reduced(in, a, false)};
}
Type infer_extremum(Nodes in, const Attrs& a) { return {in[0]->dtype, reduced(in, a, true)}; }
Type infer_arg(Nodes in, const Attrs& a) {
    if (a.i.size() != 1) bad_value("takes exactly one dim");
    return {DType::Int64, reduced(in, a, true)};
}
Type infer_m2(Nodes in, const Attrs& a) {
    need_floating(*in[0]);
    return {in[0]->dtype, reduced(in, a, false)};
}

// --- gradients ---

Inputs grad_sum(const NodePtr& y, const NodePtr& dy) { return {expand(dy, y->inputs[0]->shape)}; }

// The product of the others: y / x, but where there are zeros only a single one has a gradient, the
// product of the rest. (Second derivatives are right where no element is zero.)
Inputs grad_prod(const NodePtr& y, const NodePtr& dy) {
    const NodePtr& x = y->inputs[0];
    const IntList& dims = y->attrs.i;
    const auto grown = [&](const NodePtr& kept) { return expand(kept, x->shape); };
    const NodePtr is_zero = eq(x, full_like(x, 0));
    const NodePtr others = select(is_zero, full_like(x, 1), x);
    const NodePtr zeros = reduce_sum(cast(is_zero, x->dtype), dims);
    const NodePtr rest = reduce_prod(others, dims);
    const NodePtr if_zero = select(eq(zeros, full_like(zeros, 1)), rest, full_like(rest, 0));
    const NodePtr none = eq(zeros, full_like(zeros, 0));
    const NodePtr if_not = select(grown(none), div(grown(y), others), full_like(x, 0));
    return {mul(grown(dy), select(is_zero, grown(if_zero), if_not))};
}

// Shared evenly among equal extrema. Half types count and divide in float32.
Inputs grad_extremum(const NodePtr& y, const NodePtr& dy) {
    const NodePtr& x = y->inputs[0];
    const DType wide = wide_type(x->dtype);
    const NodePtr hit = cast(eq(x, expand(y, x->shape)), wide);
    const NodePtr share = div(cast(dy, wide), reduce_sum(hit, y->attrs.i));
    return {cast(mul(hit, expand(share, x->shape)), x->dtype)};
}

// 2 * (x - mean) * dy. The mean's own part drops out: deviations add up to 0.
Inputs grad_m2(const NodePtr& y, const NodePtr& dy) {
    const DType t = y->dtype, wide = wide_type(t);
    const NodePtr x = cast(y->inputs[0], wide);
    const double n = elements(x->shape, y->attrs.i);
    const NodePtr mean = mul_scalar(reduce_sum(x, y->attrs.i), 1 / n);
    const NodePtr slope = mul_scalar(sub(x, expand(mean, x->shape)), 2);
    return {cast(mul(slope, expand(cast(dy, wide), x->shape)), t)};
}

// --- references ---

// f(accumulator, element) for each element in order.
template <class F>
RefArray fold(const Node& n, const RefArray& x, double start, F f) {
    RefArray y = generate(n.shape, [&](const Point&) { return start; });
    for_each_point(x.shape, [&](Point p) {
        const double v = at(x, p);
        for (const std::int64_t d : n.attrs.i)
            p[static_cast<std::size_t>(d)] = 0;
        double& acc = at(y, p);
        acc = f(acc, v);
    });
    return y;
}
RefArray ref_sum(const Node& n, Refs in) {
    return fold(n, in[0], 0, [](double a, double v) { return a + v; });
}
RefArray ref_prod(const Node& n, Refs in) {
    return fold(n, in[0], 1, [](double a, double v) { return a * v; });
}
constexpr double kInf = std::numeric_limits<double>::infinity();
bool above(double v, double best) { return v > best || (std::isnan(v) && !std::isnan(best)); }
bool below(double v, double best) { return v < best || (std::isnan(v) && !std::isnan(best)); }
RefArray ref_max(const Node& n, Refs in) {
    return fold(n, in[0], -kInf, [](double a, double v) { return above(v, a) ? v : a; });
}
RefArray ref_min(const Node& n, Refs in) {
    return fold(n, in[0], kInf, [](double a, double v) { return below(v, a) ? v : a; });
}
RefArray ref_m2(const Node& n, Refs in) {
    RefArray mean = ref_sum(n, in);
    const double count = elements(in[0].shape, n.attrs.i);
    for (double& m : mean.data)
        m /= count;
    RefArray square = in[0];
    std::size_t k = 0;
    for_each_point(square.shape, [&](const Point& p) {
        const double deviation = at(in[0], p) - at_broadcast(mean, p);
        square.data[k++] = deviation * deviation;
    });
    return ref_sum(n, std::array{square});
}

template <bool better(double, double)>
RefArray ref_arg(const Node& n, Refs in) {
    const int dim = dim_attr(n.attrs);
    return generate(n.shape, [&](Point p) {
        double best = at(in[0], p);
        std::int64_t where = 0;
        for (std::int64_t k = 1; k < in[0].shape[dim]; ++k) {
            p[static_cast<std::size_t>(dim)] = k;
            if (const double v = at(in[0], p); better(v, best)) {
                best = v;
                where = k;
            }
        }
        return static_cast<double>(where);
    });
}

}  // namespace

const OpRecord kReduceSum{"reduce_sum", Kind::Reduce, infer_sum, grad_sum, ref_sum, nullptr};
const OpRecord kReduceProd{"reduce_prod", Kind::Reduce, infer_sum, grad_prod, ref_prod, nullptr};
const OpRecord kReduceMax{"reduce_max",  Kind::Reduce, infer_extremum,
                          grad_extremum, ref_max,      nullptr};
const OpRecord kReduceMin{"reduce_min",  Kind::Reduce, infer_extremum,
                          grad_extremum, ref_min,      nullptr};
const OpRecord kReduceM2{"reduce_m2", Kind::Reduce, infer_m2, grad_m2, ref_m2, nullptr};
const OpRecord kReduceArgMax{"argmax", Kind::Reduce, infer_arg, nullptr, ref_arg<above>, nullptr};
const OpRecord kReduceArgMin{"argmin", Kind::Reduce, infer_arg, nullptr, ref_arg<below>, nullptr};

}  // namespace pippin::graph::ops
