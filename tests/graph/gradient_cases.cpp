#include "gradient_cases.h"

#include "graph/build_attention.h"
#include "graph/build_order.h"

namespace pippin::graph {
namespace {

using In = const std::vector<NodePtr>&;

CaseInput positive(const Shape& s) { return {s, 0.3, 2.5}; }
CaseInput index(const Shape& s, double extent) { return {s, 0, extent, true}; }

NodePtr mean_over(const NodePtr& x, const IntList& dims, double n) {
    return mul_scalar(reduce_sum(x, dims), 1 / n);
}
NodePtr normalized(In in, const IntList& dims, double n) {
    const NodePtr variance = mul_scalar(reduce_m2(in[0], dims), 1 / n);
    return normalize(in[0], mean_over(in[0], dims, n), rsqrt(add_scalar(variance, 1e-3)), in[1],
                     in[2], dims);
}
ConvAttrs conv(std::int64_t stride, std::int64_t pad, std::int64_t dilation,
               std::int64_t groups = 1) {
    return {{stride, 1}, {pad, 1}, {1, dilation}, groups};
}
constexpr PoolAttrs kPool{{2, 3}, {2, 1}, {1, 0}, {1, 1}, false, true};
constexpr PoolAttrs kPoolOver{{3, 3}, {2, 2}, {1, 1}, {1, 1}, true, true};
constexpr PoolAttrs kPoolInside{{3, 2}, {2, 2}, {1, 1}, {1, 1}, true, false};
constexpr PoolAttrs kPoolDilated{{2, 3}, {2, 1}, {1, 1}, {2, 2}, true, true};

// A macro, so that a case of one expression is one line.
#define GRAPH(expression) [](In in) -> NodePtr { return expression; }

const GradientCase kViews[] = {
    {"reshape", {{{2, 3, 4}}}, GRAPH(reshape(in[0], {4, 6}))},
    {"reshape to 0-d", {{{1, 1}}}, GRAPH(reshape(in[0], {}))},
    {"permute", {{{2, 3, 4}}}, GRAPH(permute(in[0], {2, 0, 1}))},
    {"transpose", {{{2, 3, 4}}}, GRAPH(transpose(in[0], 0, 2))},
    {"expand", {{{2, 1, 3, 1}}}, GRAPH(expand(in[0], {2, 4, 3, 2}))},
    {"expand to nothing", {{{2, 1}}}, GRAPH(expand(in[0], {2, 0}))},
    {"expand_to", {{{3, 1}}}, GRAPH(expand_to(in[0], {2, 3, 4}))},
    {"expand_to from 0-d", {{{}}}, GRAPH(expand_to(in[0], {2, 3}))},
    {"sum_to", {{{2, 3, 4}}}, GRAPH(sum_to(in[0], {3, 1}))},
    {"slice", {{{5, 7}}}, GRAPH(slice(in[0], {1, 0}, {5, 6}, {2, 3}))},
    {"slice of nothing", {{{5, 2}}}, GRAPH(slice(in[0], {3, 0}, {3, 2}, {2, 1}))},
    {"pad", {{{2, 3}}}, GRAPH(pad(in[0], {1, 0}, {0, 2}, {0, 1}, 7))},
    {"pad of nothing", {{{0, 2}}}, GRAPH(pad(in[0], {1, 0}, {2, 0}, {3, 0}, 7))},
    {"concat", {{{2, 3}}, {{2, 1}}, {{2, 0}}}, GRAPH(concat({in[0], in[1], in[2], in[0]}, 1))},
    {"flip", {{{2, 3, 2}}}, GRAPH(flip(in[0], {0, 2}))},
    {"cast", {{{2, 3}}}, GRAPH(cast(cast(in[0], DType::Float64), DType::Float32))},
};

const GradientCase kElementwise[] = {
    {"neg", {{{3, 2}}}, GRAPH(neg(in[0]))},
    {"abs", {{{3, 2}}}, GRAPH(abs(in[0]))},
    {"sign", {{{3, 2}}}, GRAPH(sign(in[0]))},
    {"exp", {{{3, 2}}}, GRAPH(exp(in[0]))},
    {"log", {positive({3, 2})}, GRAPH(log(in[0]))},
    {"sqrt", {positive({3, 2})}, GRAPH(sqrt(in[0]))},
    {"rsqrt", {positive({3, 2})}, GRAPH(rsqrt(in[0]))},
    {"reciprocal", {positive({3, 2})}, GRAPH(reciprocal(in[0]))},
    {"tanh", {{{3, 2}}}, GRAPH(tanh(in[0]))},
    {"sigmoid", {{{3, 2}}}, GRAPH(sigmoid(in[0]))},
    {"erf", {{{3, 2}}}, GRAPH(erf(in[0]))},
    {"sin", {{{3, 2}}}, GRAPH(sin(in[0]))},
    {"cos", {{{3, 2}}}, GRAPH(cos(in[0]))},
    {"floor", {{{3, 2}}}, GRAPH(floor(in[0]))},
    {"ceil", {{{3, 2}}}, GRAPH(ceil(in[0]))},
    {"round", {{{3, 2}}}, GRAPH(round(in[0]))},
    {"relu", {{{3, 2}}}, GRAPH(relu(in[0]))},
    {"relu of 0-d", {{{}}}, GRAPH(relu(in[0]))},
    {"exp of nothing", {{{0, 3}}}, GRAPH(exp(in[0]))},
    {"add", {{{3, 2}}, {{3, 2}}}, GRAPH(add(in[0], in[1]))},
    {"add to itself", {{{3, 2}}}, GRAPH(add(in[0], in[0]))},
    {"sub", {{{3, 2}}, {{3, 2}}}, GRAPH(sub(in[0], in[1]))},
    {"mul", {{{3, 2}}, {{3, 2}}}, GRAPH(mul(in[0], in[1]))},
    {"mul with itself", {{{3, 2}}}, GRAPH(mul(in[0], in[0]))},
    {"mul_scalar", {{{3, 2}}}, GRAPH(add_scalar(mul_scalar(in[0], 3), 0.5))},
    {"div", {{{3, 2}}, positive({3, 2})}, GRAPH(div(in[0], in[1]))},
    {"pow", {positive({3, 2}), {{3, 2}}}, GRAPH(pow(in[0], in[1]))},
    {"pow 0", {{{3, 2}}}, GRAPH(pow(in[0], full_like(in[0], 0)))},
    {"pow 1", {{{3, 2}}}, GRAPH(pow(in[0], full_like(in[0], 1)))},
    {"pow 2", {{{3, 2}}}, GRAPH(pow(in[0], full_like(in[0], 2)))},
    {"pow 3", {{{3, 2}}}, GRAPH(pow(in[0], full_like(in[0], 3)))},
    {"pow -1.5", {positive({3, 2})}, GRAPH(pow(in[0], full_like(in[0], -1.5)))},
    {"2 pow x", {{{3, 2}}}, GRAPH(pow(full_like(in[0], 2), in[0]))},
    {"remainder", {{{3, 2}, -4, 4}, {{3, 2}, 0.7, 1.5}}, GRAPH(remainder(in[0], in[1]))},
    {"maximum", {{{3, 2}}, {{3, 2}}}, GRAPH(maximum(in[0], in[1]))},
    {"minimum", {{{3, 2}}, {{3, 2}}}, GRAPH(minimum(in[0], in[1]))},
    {"select",
     {{{3, 2}}, {{3, 2}}, {{3, 2}}},
     GRAPH(select(lt(in[0], in[1]), mul(in[1], in[2]), in[2]))},
};

const GradientCase kReductions[] = {
    {"sum rows", {{{3, 4}}}, GRAPH(reduce_sum(in[0], {1}))},
    {"sum columns", {{{3, 4}}}, GRAPH(reduce_sum(in[0], {0}))},
    {"sum all", {{{2, 3, 2}}}, GRAPH(reduce_sum(in[0], {0, 1, 2}))},
    {"sum of nothing", {{{2, 0}}}, GRAPH(reduce_sum(in[0], {1}))},
    {"sum over no dims", {{{}}}, GRAPH(reduce_sum(exp(in[0]), {}))},
    {"prod", {{{3, 4}, 0.5, 2}}, GRAPH(reduce_prod(in[0], {1}))},
    {"prod of signs", {{{2, 2, 3}}}, GRAPH(reduce_prod(in[0], {0, 2}))},
    {"max", {{{3, 4}}}, GRAPH(reduce_max(in[0], {1}))},
    {"max of two dims", {{{3, 2, 4}}}, GRAPH(reduce_max(in[0], {0, 2}))},
    {"min", {{{3, 4}}}, GRAPH(reduce_min(in[0], {0}))},
    {"m2", {{{3, 4}}}, GRAPH(reduce_m2(in[0], {1}))},
    {"m2 of channels", {{{3, 2, 4}}}, GRAPH(reduce_m2(in[0], {0, 2}))},
    {"m2 over no dims", {{{3}}}, GRAPH(reduce_m2(in[0], {}))},
};

const GradientCase kHeavy[] = {
    {"matmul", {{{3, 4}}, {{4, 2}}}, GRAPH(matmul(in[0], in[1], false, false))},
    {"matmul a^T", {{{4, 3}}, {{4, 2}}}, GRAPH(matmul(in[0], in[1], true, false))},
    {"matmul b^T", {{{3, 4}}, {{2, 4}}}, GRAPH(matmul(in[0], in[1], false, true))},
    {"matmul a^T b^T", {{{4, 3}}, {{2, 4}}}, GRAPH(matmul(in[0], in[1], true, true))},
    {"matmul of batches", {{{2, 3, 4}}, {{2, 2, 4}}}, GRAPH(matmul(in[0], in[1], false, true))},
    {"matmul over nothing", {{{3, 0}}, {{0, 2}}}, GRAPH(matmul(in[0], in[1], false, false))},
    {"conv2d", {{{2, 3, 4, 5}}, {{2, 3, 3, 2}}}, GRAPH(conv2d(in[0], in[1], conv(1, 0, 1)))},
    {"conv2d strided",
     {{{1, 2, 6, 6}}, {{3, 2, 2, 3}}},
     GRAPH(conv2d(in[0], in[1], conv(2, 1, 2)))},
    {"conv2d grouped",
     {{{1, 4, 4, 4}}, {{6, 2, 3, 3}}},
     GRAPH(conv2d(in[0], in[1], conv(2, 1, 1, 2)))},
    {"conv2d depthwise",
     {{{2, 3, 4, 4}}, {{3, 1, 3, 3}}},
     GRAPH(conv2d(in[0], in[1], conv(1, 1, 1, 3)))},
    {"conv2d of no images",
     {{{0, 2, 4, 4}}, {{3, 2, 3, 3}}},
     GRAPH(conv2d(in[0], in[1], conv(1, 1, 1)))},
    {"conv2d_grad_input",
     {{{1, 3, 3, 4}}, {{3, 2, 2, 3}}},
     GRAPH(conv2d_grad_input(in[0], in[1], conv(2, 1, 2), 5, 6))},
    {"conv2d_grad_weight",
     {{{1, 2, 5, 6}}, {{1, 3, 3, 4}}},
     GRAPH(conv2d_grad_weight(in[0], in[1], conv(2, 1, 2), 2, 3))},
    {"max_pool2d", {{{1, 2, 5, 6}}}, GRAPH(max_pool2d(in[0], kPool))},
    {"max_pool2d over the edge", {{{1, 2, 6, 5}}}, GRAPH(max_pool2d(in[0], kPoolOver))},
    {"max_pool2d dilated", {{{1, 2, 6, 5}}}, GRAPH(max_pool2d(in[0], kPoolDilated))},
    {"max_pool2d_grad",
     {{{1, 2, 5, 6}}, {{1, 2, 3, 4}}},
     GRAPH(max_pool2d_grad(in[0], in[1], kPool))},
    {"avg_pool2d", {{{1, 2, 5, 6}}}, GRAPH(avg_pool2d(in[0], kPool))},
    {"avg_pool2d over the edge", {{{1, 2, 6, 5}}}, GRAPH(avg_pool2d(in[0], kPoolOver))},
    {"avg_pool2d inside", {{{1, 2, 6, 5}}}, GRAPH(avg_pool2d(in[0], kPoolInside))},
    {"avg_pool2d_grad", {{{1, 2, 3, 4}}}, GRAPH(avg_pool2d_grad(in[0], kPool, 5, 6))},
    {"adaptive_avg_pool2d", {{{1, 2, 5, 7}}}, GRAPH(adaptive_avg_pool2d(in[0], 3, 4))},
    {"adaptive_avg_pool2d up", {{{1, 2, 2, 3}}}, GRAPH(adaptive_avg_pool2d(in[0], 3, 7))},
    {"adaptive_avg_pool2d_grad", {{{1, 2, 2, 3}}}, GRAPH(adaptive_avg_pool2d_grad(in[0], 5, 4))},
};

const GradientCase kIndex[] = {
    {"gather", {{{4, 3}}, index({6, 3}, 4)}, GRAPH(gather(in[0], in[1], 0))},
    {"gather of a part", {{{3, 4}}, index({2, 6}, 4)}, GRAPH(gather(in[0], in[1], 1))},
    {"scatter_add",
     {{{3, 5}}, index({3, 5}, 4)},
     GRAPH(scatter_add(in[1], mul(in[0], in[0]), 1, 4))},
    {"index_select", {{{4, 3, 2}}, index({6}, 3)}, GRAPH(index_select(in[0], in[1], 1))},
    {"index_add", {{{2, 5, 2}}, index({5}, 3)}, GRAPH(index_add(in[1], in[0], 1, 3))},
};

// Indices that name each place once: of several writers only the last has a derivative.
NodePtr once(const Shape& s, int dim) { return iota(s, dim, DType::Int64, Device{}); }

const GradientCase kOrder[] = {
    {"cumsum", {{{3, 4}}}, GRAPH(cumsum(in[0], 1, false))},
    {"cumsum from the end", {{{3, 2, 2}}}, GRAPH(cumsum(mul(in[0], in[0]), 0, true))},
    {"cumsum of 0-d", {{{}}}, GRAPH(cumsum(in[0], 0, false))},
    {"cumsum of nothing", {{{2, 0}}}, GRAPH(cumsum(in[0], 1, false))},
    {"sorted", {{{3, 5}}}, GRAPH(gather(in[0], argsort(in[0], 1, false, 5), 1))},
    {"largest two", {{{4, 3}}}, GRAPH(gather(in[0], argsort(in[0], 0, true, 2), 0))},
    {"scatter", {{{3, 4}}, {{2, 3}}}, GRAPH(scatter(mul(in[0], in[0]), once({2, 3}, 1), in[1], 1))},
    {"scatter along dim 0",
     {{{3, 2}}, {{2, 2}}},
     GRAPH(scatter(in[0], once({2, 2}, 0), exp(in[1]), 0))},
};

// Attention whose mask, where there is one, hides some keys and all of query 1's.
NodePtr attend(In in, bool causal, DType mask) {
    AttentionInputs a{in[0], in[1], in[2], nullptr, nullptr, {0, 0}};
    if (mask != DType::Int64) {
        const Shape s{1, 1, in[0]->shape[2], in[1]->shape[2]};
        const NodePtr row = iota(s, 2, DType::Int64, Device{}),
                      key = iota(s, 3, DType::Int64, Device{});
        const NodePtr seen = bit_and(ne(key, row), ne(row, full_like(row, 1)));
        a.mask = mask == DType::Bool ? seen : cast(seen, in[0]->dtype);
    }
    return attention(a, {0.7, 0, causal});
}

const GradientCase kAttentions[] = {
    {"attention",
     {{{1, 2, 3, 2}}, {{1, 2, 4, 2}}, {{1, 2, 4, 3}}},
     GRAPH(attend(in, false, DType::Int64))},
    {"attention, causal",
     {{{2, 1, 4, 2}}, {{2, 1, 3, 2}}, {{2, 1, 3, 2}}},
     GRAPH(attend(in, true, DType::Int64))},
    {"attention, masked",
     {{{1, 2, 3, 2}}, {{1, 2, 3, 2}}, {{1, 2, 3, 1}}},
     GRAPH(attend(in, false, DType::Bool))},
    {"attention, with added scores",
     {{{1, 1, 3, 2}}, {{1, 1, 3, 2}}, {{1, 1, 3, 2}}},
     GRAPH(attend(in, false, DType::Float64))},
};

const GradientCase kComposites[] = {
    {"softmax", {{{3, 4}}}, GRAPH(softmax(in[0], 1))},
    {"softmax of dim 0", {{{3, 2, 2}}}, GRAPH(softmax(in[0], 0))},
    {"softmax of 0-d", {{{}}}, GRAPH(softmax(in[0], 0))},
    {"softmax of nothing", {{{2, 0}}}, GRAPH(softmax(in[0], 1))},
    {"log_softmax", {{{3, 4}}}, GRAPH(log_softmax(in[0], 1))},
    {"log_softmax of dim 1", {{{2, 3, 2}}}, GRAPH(log_softmax(in[0], 1))},
    {"cross entropy",
     {{{5, 4}}, index({5}, 4)},
     GRAPH(softmax_cross_entropy(in[0], in[1], -100, 0))},
    {"cross entropy, smoothed, some ignored",
     {{{5, 4}}, index({5}, 4)},
     GRAPH(softmax_cross_entropy(in[0], in[1], 1, 0.2))},
    {"batch norm",
     {{{3, 2, 2, 3}}, {{1, 2, 1, 1}}, {{1, 2, 1, 1}}},
     GRAPH(normalized(in, {0, 2, 3}, 18))},
    {"batch norm, one weight",
     {{{3, 2, 4}}, {{1, 1, 1}}, {{1, 2, 4}}},
     GRAPH(normalized(in, {0, 2}, 12))},
    {"layer norm", {{{3, 2, 4}}, {{1, 2, 4}}, {{1, 2, 4}}}, GRAPH(normalized(in, {1, 2}, 8))},
    {"layer norm, one bias", {{{3, 5}}, {{1, 5}}, {{1, 1}}}, GRAPH(normalized(in, {1}, 5))},
    {"a small network",
     {{{2, 1, 6, 6}}, {{2, 1, 3, 3}}, {{1, 2, 1, 1}}, {{3, 8}}, {{3}}, index({2}, 3)},
     [](In in) -> NodePtr {
         const NodePtr y = conv2d(in[0], in[1], ConvAttrs{});
         const NodePtr h =
             max_pool2d(tanh(add(y, expand(in[2], y->shape))), PoolAttrs{{2, 2}, {2, 2}});
         const NodePtr logits =
             add(matmul(reshape(h, {2, 8}), in[3], false, true), expand_to(in[4], {2, 3}));
         return mul_scalar(reduce_sum(softmax_cross_entropy(logits, in[5], -100, 0), {0}), 0.5);
     }},
};

#undef GRAPH

std::vector<GradientCase> all_cases() {
    std::vector<GradientCase> all;
    const auto append = [&](std::span<const GradientCase> part) {
        all.insert(all.end(), part.begin(), part.end());
    };
    append(kViews);
    append(kElementwise);
    append(kReductions);
    append(kHeavy);
    append(kIndex);
    append(kOrder);
    append(kAttentions);
    append(kComposites);
    return all;
}

}  // namespace

std::span<const GradientCase> gradient_cases() {
    static const std::vector<GradientCase> all = all_cases();
    return all;
}

}  // namespace pippin::graph
