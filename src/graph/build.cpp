// The builders of nodes with inputs: attributes into their places, and the simplest peepholes,
// which are cheaper here than in a plan.
#include "graph/build.h"

#include "graph/ops/records.h"

namespace pippin::graph {
namespace {

NodePtr unary(const OpRecord& op, const NodePtr& x) { return make_node(op, {x}); }
NodePtr binary(const OpRecord& op, const NodePtr& a, const NodePtr& b) {
    return make_node(op, {a, b});
}

NodePtr with_ints(const OpRecord& op, Inputs inputs, IntList i) {
    Attrs a;
    a.i = std::move(i);
    return make_node(op, std::move(inputs), std::move(a));
}
/// Ops along one dim take a 0-d tensor as a row of one element, as PyTorch does.
NodePtr along(const OpRecord& op, Inputs inputs, IntList i) {
    if (!inputs[0] || inputs[0]->shape.rank() > 0)
        return with_ints(op, std::move(inputs), std::move(i));
    for (NodePtr& x : inputs)
        if (x && x->shape.rank() == 0) x = reshape(x, {1});
    return reshape(with_ints(op, std::move(inputs), std::move(i)), {});
}
IntList dims_of(const Shape& s) { return IntList(s.begin(), s.end()); }

/// A constant that nobody differentiates: views of it are constants too.
bool is_plain_full(const NodePtr& x) { return x && x->op == &ops::kFull && !x->requires_grad; }
NodePtr full_with_shape(const NodePtr& x, const Shape& shape) {
    return is_floating(x->dtype) ? full(ops::full_value(*x), x->dtype, shape, x->device)
                                 : full_int(ops::full_int_value(*x), x->dtype, shape, x->device);
}
bool all_zero(const IntList& v) {
    for (const std::int64_t k : v)
        if (k) return false;
    return true;
}
bool is_bool(const NodePtr& x) { return x && x->dtype == DType::Bool; }

}  // namespace

// --- views ---

NodePtr reshape(const NodePtr& x, const Shape& shape) {
    if (x && x->shape == shape) return x;
    if (is_plain_full(x) && x->shape.numel() == shape.numel()) return full_with_shape(x, shape);
    return with_ints(ops::kReshape, {x}, dims_of(shape));
}
NodePtr permute(const NodePtr& x, const IntList& dims) {
    bool identity = x && static_cast<int>(dims.size()) == x->shape.rank();
    for (std::size_t d = 0; identity && d < dims.size(); ++d)
        identity = dims[d] == static_cast<std::int64_t>(d);
    return identity ? x : with_ints(ops::kPermute, {x}, dims);
}
NodePtr transpose(const NodePtr& x, int a, int b) {
    IntList dims;
    for (int d = 0; d < x->shape.rank(); ++d)
        dims.push_back(d == a ? b : d == b ? a : d);
    return permute(x, dims);
}
NodePtr expand(const NodePtr& x, const Shape& shape) {
    if (x && x->shape == shape) return x;
    if (is_plain_full(x) && x->shape.numel() == 1 && x->shape.rank() == shape.rank())
        return full_with_shape(x, shape);
    return with_ints(ops::kExpand, {x}, dims_of(shape));
}
NodePtr expand_to(const NodePtr& x, const Shape& shape) {
    Shape s = x->shape;
    if (s.rank() < shape.rank()) {
        s = Shape(std::vector<std::int64_t>(static_cast<std::size_t>(shape.rank() - s.rank()), 1));
        for (const std::int64_t d : x->shape)
            s.push_back(d);
    }
    return expand(reshape(x, s), shape);
}
NodePtr slice(const NodePtr& x, const IntList& start, const IntList& stop, const IntList& step) {
    bool whole = x && static_cast<int>(start.size()) == x->shape.rank() &&
                 start.size() == stop.size() && start.size() == step.size();
    for (std::size_t d = 0; whole && d < start.size(); ++d)
        whole = start[d] == 0 && stop[d] == x->shape[static_cast<int>(d)] && step[d] == 1;
    if (whole) return x;
    IntList i = start;
    for (const std::int64_t v : stop)
        i.push_back(v);
    for (const std::int64_t v : step)
        i.push_back(v);
    return with_ints(ops::kSlice, {x}, std::move(i));
}
NodePtr pad(const NodePtr& x, const IntList& low, const IntList& high, const IntList& inner,
            double value) {
    if (x && all_zero(low) && all_zero(high) && all_zero(inner)) return x;
    Attrs a;
    a.i = low;
    for (const std::int64_t v : high)
        a.i.push_back(v);
    for (const std::int64_t v : inner)
        a.i.push_back(v);
    const bool real = x && is_floating(x->dtype);
    a.i.push_back(real ? 0 : static_cast<std::int64_t>(value));
    if (real) a.f.push_back(value);
    return make_node(ops::kPad, {x}, std::move(a));
}
NodePtr concat(const Inputs& xs, int dim) { return with_ints(ops::kConcat, xs, {dim}); }
NodePtr flip(const NodePtr& x, const IntList& dims) {
    return dims.empty() && x ? x : with_ints(ops::kFlip, {x}, dims);
}
NodePtr detach(const NodePtr& x) { return unary(ops::kDetach, x); }
NodePtr cast(const NodePtr& x, DType dtype) {
    return x && x->dtype == dtype ? x
                                  : with_ints(ops::kCast, {x}, {static_cast<std::int64_t>(dtype)});
}

// --- elementwise ---

NodePtr neg(const NodePtr& x) { return unary(ops::kNeg, x); }
NodePtr abs(const NodePtr& x) { return unary(ops::kAbs, x); }
NodePtr sign(const NodePtr& x) { return unary(ops::kSign, x); }
NodePtr exp(const NodePtr& x) { return unary(ops::kExp, x); }
NodePtr log(const NodePtr& x) { return unary(ops::kLog, x); }
NodePtr sqrt(const NodePtr& x) { return unary(ops::kSqrt, x); }
NodePtr rsqrt(const NodePtr& x) { return unary(ops::kRsqrt, x); }
NodePtr reciprocal(const NodePtr& x) { return unary(ops::kReciprocal, x); }
NodePtr tanh(const NodePtr& x) { return unary(ops::kTanh, x); }
NodePtr sigmoid(const NodePtr& x) { return unary(ops::kSigmoid, x); }
NodePtr erf(const NodePtr& x) { return unary(ops::kErf, x); }
NodePtr sin(const NodePtr& x) { return unary(ops::kSin, x); }
NodePtr cos(const NodePtr& x) { return unary(ops::kCos, x); }
NodePtr floor(const NodePtr& x) { return unary(ops::kFloor, x); }
NodePtr ceil(const NodePtr& x) { return unary(ops::kCeil, x); }
NodePtr round(const NodePtr& x) { return unary(ops::kRound, x); }
NodePtr relu(const NodePtr& x) { return unary(ops::kRelu, x); }
NodePtr logical_not(const NodePtr& x) { return unary(ops::kLogicalNot, x); }
NodePtr isnan(const NodePtr& x) { return unary(ops::kIsNan, x); }
NodePtr isfinite(const NodePtr& x) { return unary(ops::kIsFinite, x); }

// On bool, + and * and the extrema are what PyTorch makes of them: or, and.
NodePtr add(const NodePtr& a, const NodePtr& b) {
    return binary(is_bool(a) ? ops::kOr : ops::kAdd, a, b);
}
NodePtr sub(const NodePtr& a, const NodePtr& b) { return binary(ops::kSub, a, b); }
NodePtr mul(const NodePtr& a, const NodePtr& b) {
    return binary(is_bool(a) ? ops::kAnd : ops::kMul, a, b);
}
NodePtr div(const NodePtr& a, const NodePtr& b) { return binary(ops::kDiv, a, b); }
NodePtr pow(const NodePtr& a, const NodePtr& b) { return binary(ops::kPow, a, b); }
NodePtr remainder(const NodePtr& a, const NodePtr& b) { return binary(ops::kRemainder, a, b); }
NodePtr maximum(const NodePtr& a, const NodePtr& b) {
    return binary(is_bool(a) ? ops::kOr : ops::kMaximum, a, b);
}
NodePtr minimum(const NodePtr& a, const NodePtr& b) {
    return binary(is_bool(a) ? ops::kAnd : ops::kMinimum, a, b);
}
NodePtr eq(const NodePtr& a, const NodePtr& b) { return binary(ops::kEq, a, b); }
NodePtr ne(const NodePtr& a, const NodePtr& b) { return binary(ops::kNe, a, b); }
NodePtr lt(const NodePtr& a, const NodePtr& b) { return binary(ops::kLt, a, b); }
NodePtr le(const NodePtr& a, const NodePtr& b) { return binary(ops::kLe, a, b); }
NodePtr bit_and(const NodePtr& a, const NodePtr& b) { return binary(ops::kAnd, a, b); }
NodePtr bit_or(const NodePtr& a, const NodePtr& b) { return binary(ops::kOr, a, b); }
NodePtr bit_xor(const NodePtr& a, const NodePtr& b) { return binary(ops::kXor, a, b); }
NodePtr select(const NodePtr& condition, const NodePtr& a, const NodePtr& b) {
    return make_node(ops::kSelect, {condition, a, b});
}
NodePtr mul_scalar(const NodePtr& x, double s) { return s == 1 ? x : mul(x, full_like(x, s)); }
NodePtr add_scalar(const NodePtr& x, double s) { return s == 0 ? x : add(x, full_like(x, s)); }

NodePtr check_index(const NodePtr& x, std::int64_t low, std::int64_t high, std::int64_t ignore,
                    const char* op) {
    return with_ints(ops::kCheckIndex, {x}, {low, high, ignore, ops::number_of_name(op)});
}

// --- reductions ---

namespace {

/// Nothing is reduced: the reduction of one element is that element.
bool keeps_all(const NodePtr& x, const IntList& dims) {
    if (!x) return false;
    for (const std::int64_t d : dims)
        if (d < 0 || d >= x->shape.rank() || x->shape[static_cast<int>(d)] != 1) return false;
    return true;
}
DType sum_type(DType t) { return is_floating(t) ? t : DType::Int64; }

}  // namespace

NodePtr reduce_sum(const NodePtr& x, const IntList& dims) {
    return keeps_all(x, dims) ? cast(x, sum_type(x->dtype)) : with_ints(ops::kReduceSum, {x}, dims);
}
NodePtr reduce_prod(const NodePtr& x, const IntList& dims) {
    return keeps_all(x, dims) ? cast(x, sum_type(x->dtype))
                              : with_ints(ops::kReduceProd, {x}, dims);
}
NodePtr reduce_max(const NodePtr& x, const IntList& dims) {
    return keeps_all(x, dims) ? x : with_ints(ops::kReduceMax, {x}, dims);
}
NodePtr reduce_min(const NodePtr& x, const IntList& dims) {
    return keeps_all(x, dims) ? x : with_ints(ops::kReduceMin, {x}, dims);
}
NodePtr reduce_m2(const NodePtr& x, const IntList& dims) {
    return dims.empty() ? sub(x, x) : with_ints(ops::kReduceM2, {x}, dims);
}
NodePtr reduce_argmax(const NodePtr& x, int dim) { return along(ops::kReduceArgMax, {x}, {dim}); }
NodePtr reduce_argmin(const NodePtr& x, int dim) { return along(ops::kReduceArgMin, {x}, {dim}); }
NodePtr sum_to(const NodePtr& x, const Shape& shape) {
    if (x->shape == shape) return x;
    const int shift = x->shape.rank() - shape.rank();
    IntList dims;
    for (int d = 0; d < x->shape.rank(); ++d)
        if (d < shift || (shape[d - shift] == 1 && x->shape[d] != 1)) dims.push_back(d);
    return reshape(reduce_sum(x, dims), shape);
}

// --- heavy ---

NodePtr matmul(const NodePtr& a, const NodePtr& b, bool trans_a, bool trans_b) {
    return with_ints(ops::kMatmul, {a, b}, {trans_a, trans_b});
}

namespace {

IntList conv_ints(const ConvAttrs& a) {
    return {a.stride[0], a.stride[1], a.pad[0], a.pad[1], a.dilation[0], a.dilation[1], a.groups};
}
IntList pool_ints(const PoolAttrs& a) {
    return {a.kernel[0], a.kernel[1],   a.stride[0],   a.stride[1], a.pad[0],
            a.pad[1],    a.dilation[0], a.dilation[1], a.ceil_mode, a.count_include_pad};
}
IntList and_two(IntList i, std::int64_t a, std::int64_t b) {
    i.push_back(a);
    i.push_back(b);
    return i;
}

}  // namespace

NodePtr conv2d(const NodePtr& x, const NodePtr& w, const ConvAttrs& a) {
    return with_ints(ops::kConv2d, {x, w}, conv_ints(a));
}
NodePtr conv2d_grad_input(const NodePtr& dy, const NodePtr& w, const ConvAttrs& a, std::int64_t h,
                          std::int64_t width) {
    return with_ints(ops::kConv2dGradInput, {dy, w}, and_two(conv_ints(a), h, width));
}
NodePtr conv2d_grad_weight(const NodePtr& x, const NodePtr& dy, const ConvAttrs& a, std::int64_t kh,
                           std::int64_t kw) {
    return with_ints(ops::kConv2dGradWeight, {x, dy}, and_two(conv_ints(a), kh, kw));
}
NodePtr max_pool2d(const NodePtr& x, const PoolAttrs& a) {
    return with_ints(ops::kMaxPool2d, {x}, pool_ints(a));
}
NodePtr max_pool2d_grad(const NodePtr& x, const NodePtr& dy, const PoolAttrs& a) {
    return with_ints(ops::kMaxPool2dGrad, {x, dy}, pool_ints(a));
}
NodePtr avg_pool2d(const NodePtr& x, const PoolAttrs& a) {
    return with_ints(ops::kAvgPool2d, {x}, pool_ints(a));
}
NodePtr avg_pool2d_grad(const NodePtr& dy, const PoolAttrs& a, std::int64_t h, std::int64_t w) {
    return with_ints(ops::kAvgPool2dGrad, {dy}, and_two(pool_ints(a), h, w));
}
NodePtr adaptive_avg_pool2d(const NodePtr& x, std::int64_t oh, std::int64_t ow) {
    return with_ints(ops::kAdaptiveAvgPool2d, {x}, {oh, ow});
}
NodePtr adaptive_avg_pool2d_grad(const NodePtr& dy, std::int64_t h, std::int64_t w) {
    return with_ints(ops::kAdaptiveAvgPool2dGrad, {dy}, {h, w});
}

// --- index ---

NodePtr gather(const NodePtr& x, const NodePtr& index, int dim) {
    return along(ops::kGather, {x, index}, {dim});
}
NodePtr scatter_add(const NodePtr& index, const NodePtr& src, int dim, std::int64_t extent) {
    return along(ops::kScatterAdd, {index, src}, {dim, extent});
}
NodePtr index_select(const NodePtr& x, const NodePtr& index, int dim) {
    return along(ops::kIndexSelect, {x, index}, {dim});
}
NodePtr index_add(const NodePtr& index, const NodePtr& src, int dim, std::int64_t extent) {
    return along(ops::kIndexAdd, {index, src}, {dim, extent});
}

// --- composite ---

NodePtr softmax(const NodePtr& x, int dim) { return along(ops::kSoftmax, {x}, {dim}); }
NodePtr log_softmax(const NodePtr& x, int dim) { return along(ops::kLogSoftmax, {x}, {dim}); }
NodePtr softmax_cross_entropy(const NodePtr& x, const NodePtr& target, std::int64_t ignore_index,
                              double label_smoothing) {
    Attrs a;
    a.i.push_back(ignore_index);
    a.f.push_back(label_smoothing);
    return make_node(ops::kSoftmaxCrossEntropy, {x, target}, std::move(a));
}
NodePtr normalize(const NodePtr& x, const NodePtr& mean, const NodePtr& invstd,
                  const NodePtr& weight, const NodePtr& bias, const IntList& dims) {
    return with_ints(ops::kNormalize, {x, mean, invstd, weight, bias}, dims);
}

}  // namespace pippin::graph
