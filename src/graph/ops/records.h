// The op records, and what stands where in a node's attributes and run-time arguments.
// "dims" in an attribute list are the output's extents unless the line says otherwise.
#pragma once

#include <bit>
#include <span>

#include "graph/build.h"
#include "graph/node.h"

namespace pippin::graph::ops {

// sources.cpp; no inputs
extern const OpRecord kLeaf;  // a value from outside; shape and dtype are the node's own
extern const OpRecord
    kFull;  // i = {dtype, value of an integer or bool, dims...}, f = {floating value}
extern const OpRecord kIota;       // i = {dtype, dim, dims...}
extern const OpRecord kRunScalar;  // i = {dtype}; run_args[0] = bits of a double
// Two random nodes are never the same value, even where all that is in the plan's key is equal.
extern const OpRecord kRandomUniform;  // i = dims; run_args = {seed, sequence}
extern const OpRecord kRandomBits;     // i = dims; run_args = {seed, sequence}

// views.cpp
extern const OpRecord kReshape;  // i = dims
extern const OpRecord kPermute;  // i = the input's dim for each output dim
extern const OpRecord kExpand;   // i = dims
extern const OpRecord kSlice;    // i = {start..., stop..., step...}
extern const OpRecord kPad;  // i = {low..., high..., inner..., integer value}, f = {floating value}
extern const OpRecord kConcat;  // i = {dim}
extern const OpRecord kFlip;    // i = the flipped dims
extern const OpRecord kDetach;

// unary.cpp; no attributes but Cast's
extern const OpRecord kCast;  // i = {dtype}
extern const OpRecord kNeg, kAbs, kSign, kExp, kLog, kSqrt, kRsqrt, kReciprocal, kTanh, kSigmoid,
    kErf, kSin, kCos, kFloor, kCeil, kRound, kRelu, kLogicalNot, kIsNan, kIsFinite;

// binary.cpp; no attributes
extern const OpRecord kAdd, kSub, kMul, kDiv, kPow, kRemainder, kMaximum, kMinimum, kEq, kNe, kLt,
    kLe, kAnd, kOr, kXor;

// select.cpp
extern const OpRecord kSelect;  // inputs: condition, a, b

// reduce.cpp; i = the reduced dims, sorted
extern const OpRecord kReduceSum, kReduceProd, kReduceMax, kReduceMin, kReduceM2, kReduceArgMax,
    kReduceArgMin;

// matmul.cpp
extern const OpRecord kMatmul;  // i = {transposed a, transposed b}

// conv.cpp; i = {stride h, w, pad h, w, dilation h, w, groups, ...}
extern const OpRecord kConv2d;            // inputs: x, w
extern const OpRecord kConv2dGradInput;   // inputs: dy, w; i = {..., h, w of x}
extern const OpRecord kConv2dGradWeight;  // inputs: x, dy; i = {..., kernel h, w}

// pool.cpp; i = {kernel h, w, stride h, w, pad h, w, dilation h, w, ceil_mode, count_include_pad,
// ...}
extern const OpRecord kMaxPool2d;
extern const OpRecord kMaxPool2dGrad;  // inputs: x, dy
extern const OpRecord kAvgPool2d;
extern const OpRecord kAvgPool2dGrad;          // input: dy; i = {..., h, w of x}
extern const OpRecord kAdaptiveAvgPool2d;      // i = {output h, w}
extern const OpRecord kAdaptiveAvgPool2dGrad;  // input: dy; i = {h, w of x}

// index.cpp
extern const OpRecord kGather;       // inputs: x, index; i = {dim}
extern const OpRecord kScatterAdd;   // inputs: index, src; i = {dim, extent}
extern const OpRecord kIndexSelect;  // inputs: x, index; i = {dim}
extern const OpRecord kIndexAdd;     // inputs: index, src; i = {dim, extent}
extern const OpRecord kCheckIndex;   // i = {low, high, ignore, number of the checked op's name}

// composite.cpp
extern const OpRecord kSoftmax;     // i = {dim}
extern const OpRecord kLogSoftmax;  // i = {dim}
extern const OpRecord
    kSoftmaxCrossEntropy;  // inputs: x, target; i = {ignore_index}, f = {label smoothing}
extern const OpRecord
    kNormalize;  // inputs: x, mean, invstd, weight, bias; i = dims of the statistics

// --- readers ---

/// The dtype of a full, iota, run_scalar or cast.
inline DType dtype_attr(const Attrs& a) { return static_cast<DType>(a.i[0]); }

/// A full's value; for integers exact up to 2^53 (full_int_value: always).
inline double full_value(const Node& full) {
    return is_floating(full.dtype) ? full.attrs.f[0] : static_cast<double>(full.attrs.i[1]);
}
inline std::int64_t full_int_value(const Node& full) {
    return is_floating(full.dtype) ? static_cast<std::int64_t>(full.attrs.f[0]) : full.attrs.i[1];
}
inline bool is_full_of(const Node& node, double value) {
    return node.op == &kFull && full_value(node) == value;
}
inline int iota_dim(const Attrs& a) { return static_cast<int>(a.i[1]); }
inline double run_scalar_value(const Node& n) { return std::bit_cast<double>(n.run_args[0]); }

using Ints = std::span<const std::int64_t>;
inline Ints ints(const Attrs& a) { return {a.i.data(), a.i.size()}; }

/// start, stop, step of a slice; low, high, inner of a pad: one number per dim.
inline Ints third(const Attrs& a, std::size_t k) {
    const std::size_t rank = a.i.size() / 3;
    return {a.i.data() + k * rank, rank};
}
inline Ints slice_start(const Attrs& a) { return third(a, 0); }
inline Ints slice_stop(const Attrs& a) { return third(a, 1); }
inline Ints slice_step(const Attrs& a) { return third(a, 2); }
inline Ints pad_low(const Attrs& a) { return third(a, 0); }
inline Ints pad_high(const Attrs& a) { return third(a, 1); }
inline Ints pad_inner(const Attrs& a) { return third(a, 2); }
inline double pad_value(const Node& pad) {
    return is_floating(pad.dtype) ? pad.attrs.f[0]
                                  : static_cast<double>(pad.attrs.i[pad.attrs.i.size() - 1]);
}
inline std::int64_t pad_int_value(const Node& pad) { return pad.attrs.i[pad.attrs.i.size() - 1]; }

/// The dim of a concat, softmax, gather, scatter_add, index_select, index_add, argmax or argmin.
inline int dim_attr(const Attrs& a) { return static_cast<int>(a.i[0]); }
inline std::int64_t extent_attr(const Attrs& a) { return a.i[1]; }

inline bool trans_a(const Attrs& a) { return a.i[0] != 0; }
inline bool trans_b(const Attrs& a) { return a.i[1] != 0; }

inline ConvAttrs conv_attrs(const Attrs& a) {
    return {{a.i[0], a.i[1]}, {a.i[2], a.i[3]}, {a.i[4], a.i[5]}, a.i[6]};
}
/// Height (k = 0) or width (k = 1) at the end of a convolution gradient's attributes.
inline std::int64_t conv_extent(const Attrs& a, std::size_t k) { return a.i[7 + k]; }

inline PoolAttrs pool_attrs(const Attrs& a) {
    return {{a.i[0], a.i[1]}, {a.i[2], a.i[3]}, {a.i[4], a.i[5]},
            {a.i[6], a.i[7]}, a.i[8] != 0,      a.i[9] != 0};
}
/// Height or width at the end of avg_pool2d_grad's attributes.
inline std::int64_t pool_extent(const Attrs& a, std::size_t k) { return a.i[10 + k]; }

/// Output extent of one dim of a convolution or pooling. Throws nothing; can be below 1.
std::int64_t conv_out(const ConvAttrs& a, int d, std::int64_t in, std::int64_t kernel);
std::int64_t pool_out(const PoolAttrs& a, int d, std::int64_t in);

struct CheckIndexAttrs {
    std::int64_t low, high, ignore;
    const char* op;  ///< whose index it is, for the error
};
CheckIndexAttrs check_index_attrs(const Attrs& a);
/// The number that stands for a checked op's name in the attributes.
std::int64_t number_of_name(const char* name);

inline std::int64_t ignore_index(const Attrs& a) { return a.i[0]; }
inline double label_smoothing(const Attrs& a) { return a.f[0]; }

}  // namespace pippin::graph::ops
