// The references themselves, against numbers from PyTorch 2.15 or worked out by hand.
#include "graph_testing.h"

namespace pippin::graph {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<double> squares(int n) {
    std::vector<double> v;
    for (int k = 0; k < n; ++k)
        v.push_back(k * k);
    return v;
}
std::vector<double> counting(int n) {
    std::vector<double> v;
    for (int k = 0; k < n; ++k)
        v.push_back(k);
    return v;
}

TEST(Reference, Pools) {
    World w;
    const NodePtr x = w.make({1, 1, 4, 5}, squares(20));
    PoolAttrs a{{3, 3}, {2, 2}, {1, 1}, {1, 1}, true, true};
    expect_close(
        w(avg_pool2d(x, a)),
        {6.888888888889, 18.111111111111, 18.888888888889, 84.777777777778, 161.333333333333,
         132.777777777778, 80.166666666667, 144.833333333333, 114.166666666667},
        1e-11);
    expect_close(w(max_pool2d(x, a)), {36, 64, 81, 256, 324, 361, 256, 324, 361});
    a.count_include_pad = false;
    expect_close(w(avg_pool2d(x, a)),
                 {15.5, 27.166666666667, 42.5, 127.166666666667, 161.333333333333, 199.166666666667,
                  240.5, 289.666666666667, 342.5},
                 1e-11);
    expect_close(w(adaptive_avg_pool2d(x, 3, 2)),
                 {19.166666666667, 37.166666666667, 79.166666666667, 117.166666666667,
                  189.166666666667, 247.166666666667},
                 1e-11);
}

TEST(Reference, PoolWindowsThatSeeNothingAreMinusInfinity) {
    World w;
    const NodePtr x = w.make({1, 1, 1, 1}, {3});
    const PoolAttrs a{{2, 1}, {1, 1}, {1, 0}, {2, 1}};
    expect_close(w(max_pool2d(x, a)), {-kInf});
}

TEST(Reference, Convolution) {
    World w;
    const NodePtr x = w.make({1, 1, 4, 5}, squares(20));
    const NodePtr k = w.make({1, 1, 2, 3}, {1, 2, 3, 0, -1, 1});
    const NodePtr y = conv2d(x, k, {{2, 1}, {1, 1}, {1, 2}, 1});
    EXPECT_EQ(y->shape.str(), "[1, 1, 3, 3]");
    expect_close(w(y), {8, 12, -9, 312, 418, -5, 1484, 1886, 904});
}

TEST(Reference, Indexing) {
    World w;
    const NodePtr x = w.make({3, 4}, counting(12));
    const NodePtr i = w.make({2, 2}, {3, 0, 1, 1}, DType::Int64);
    expect_close(w(gather(x, i, 1)), {3, 0, 5, 5});
    const NodePtr src = w.make({2, 2}, {0, 1, 4, 5});
    expect_close(w(scatter_add(i, src, 1, 4)), {1, 0, 0, 0, 0, 9, 0, 0});
    const NodePtr rows = w.row({2, 0, 2}, DType::Int32);
    expect_close(w(index_select(x, rows, 0)), {8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11});
    expect_close(w(index_add(rows, w.make({3, 1}, {1, 10, 100}), 0, 4)), {10, 0, 101, 0});
    expect_close(w(gather(w.make({}, {7}), w.make({}, {0}, DType::Int64), 0)), {7});
}

TEST(Reference, CrossEntropy) {
    World w;
    const NodePtr x = w.make({3, 3}, {1, 2, -1, 0.5, 0, 3, 2, 2, -4});
    const NodePtr t = w.row({2, 1, 0}, DType::Int64);
    expect_close(w(softmax_cross_entropy(x, t, 1, 0.2)), {3.015678883435, 0, 1.094385789256},
                 1e-11);
}

TEST(Reference, LayerNorm) {
    World w;
    const NodePtr x = w.make({1, 4}, counting(4)), one = w.make({1, 1}, {1});
    const NodePtr mean = mul_scalar(reduce_sum(x, {1}), 0.25);
    const NodePtr var = mul_scalar(reduce_m2(x, {1}), 0.25);
    const NodePtr y =
        normalize(x, mean, rsqrt(add_scalar(var, 1e-3)), one, w.make({1, 1}, {0}), {1});
    expect_close(w(y), {-1.341104451965, -0.447034817322, 0.447034817322, 1.341104451965}, 1e-11);
}

TEST(Reference, Integers) {
    World w;
    const NodePtr a = w.row({-7, 7, -7, 7, 5}, DType::Int64);
    const NodePtr b = w.row({3, -3, -3, 3, 0}, DType::Int64);
    expect_close(w(remainder(a, b)), {2, -2, -1, 1, 0});
    const NodePtr base = w.row({2, -1, 1, -1, 3, 2, 0, -1}, DType::Int32);
    const NodePtr e = w.row({3, 2, 5, 3, 0, -1, -2, -3}, DType::Int32);
    expect_close(w(pow(base, e)), {8, 1, 1, -1, 1, 0, 0, -1});
    const NodePtr u = w.row({200, 100, 1}, DType::UInt8);
    expect_close(w(add(u, u)), {144, 200, 2});
    expect_close(w(neg(u)), {56, 156, 255});
    expect_close(w(bit_xor(u, full_like(u, 0xff))), {55, 155, 254});
    const NodePtr i = w.row({2147483647}, DType::Int32);
    expect_close(w(add(i, i)), {-2});
    const NodePtr big = full_int((std::int64_t{1} << 53) + 1, DType::Int64, {}, kCpu);
    EXPECT_EQ(ops::full_int_value(*big), (std::int64_t{1} << 53) + 1);
}

TEST(Reference, BoolArithmeticIsLogic) {
    World w;
    const NodePtr a = w.row({0, 0, 1, 1}, DType::Bool), b = w.row({0, 1, 0, 1}, DType::Bool);
    expect_close(w(add(a, b)), {0, 1, 1, 1});
    expect_close(w(maximum(a, b)), {0, 1, 1, 1});
    expect_close(w(mul(a, b)), {0, 0, 0, 1});
    expect_close(w(minimum(a, b)), {0, 0, 0, 1});
    expect_close(w(bit_xor(a, b)), {0, 1, 1, 0});
    expect_close(w(logical_not(a)), {1, 1, 0, 0});
    expect_close(w(lt(a, b)), {0, 1, 0, 0});
    EXPECT_EQ(reduce_sum(a, {0})->dtype, DType::Int64);
    expect_close(w(reduce_sum(a, {0})), {2});
    expect_close(w(reduce_max(a, {0})), {1});
}

TEST(Reference, Casts) {
    World w;
    const NodePtr x = w.row({1.9, -1.9, 300, kNan, 0, -0.5});
    expect_close(w(cast(x, DType::Int32)), {1, -1, 300, 0, 0, 0});
    expect_close(w(cast(x, DType::UInt8)), {1, 255, 44, 0, 0, 0});
    expect_close(w(cast(x, DType::Bool)), {1, 1, 1, 1, 0, 1});
    expect_close(w(cast(w.row({65519, 65520, 1e-8, 6e-8, 2049, 2051}), DType::Float16)),
                 {65504, kInf, 0, 0x1p-24, 2048, 2052});
    expect_close(w(cast(w.row({1.00390625, 1.01171875}), DType::BFloat16)), {1, 1.015625});
}

TEST(Reference, NanPropagates) {
    World w;
    const NodePtr x = w.row({kNan, 1, -kInf}), y = w.row({1, kNan, kInf});
    expect_close(w(maximum(x, y)), {kNan, kNan, kInf});
    expect_close(w(minimum(x, y)), {kNan, kNan, -kInf});
    expect_close(w(relu(x)), {kNan, 1, 0});
    expect_close(w(reduce_max(x, {0})), {kNan});
    expect_close(w(reduce_min(y, {0})), {kNan});
    expect_close(w(reduce_argmax(y, 0)), {1});
    expect_close(w(eq(x, x)), {0, 1, 1});
    expect_close(w(ne(x, x)), {1, 0, 0});
    expect_close(w(isnan(x)), {1, 0, 0});
    expect_close(w(isfinite(x)), {0, 1, 0});
    expect_close(w(full(kNan, DType::Float32, {1}, kCpu)), {kNan});
}

TEST(Reference, ReductionsOfNothingAndOfOneElement) {
    World w;
    const NodePtr none = w.make({2, 0}, {}), one = w.make({}, {4});
    expect_close(w(reduce_sum(none, {1})), {0, 0});
    expect_close(w(reduce_prod(none, {1})), {1, 1});
    expect_close(w(reduce_m2(none, {1})), {0, 0});
    expect_close(w(reduce_max(none, {0})), {});
    expect_close(w(reduce_argmax(one, 0)), {0});
    EXPECT_EQ(reduce_argmax(one, 0)->shape.str(), "[]");
    expect_close(w(softmax(one, 0)), {1});
    expect_close(w(reduce_argmax(w.row({1, 3, 3}), 0)), {1});
    expect_close(w(reduce_argmin(w.make({2, 2}, {1, 0, 0, 0}), 1)), {1, 0});
}

TEST(Reference, Sources) {
    World w;
    expect_close(w(iota({2, 3}, 1, DType::Int32, kCpu)), {0, 1, 2, 0, 1, 2});
    expect_close(w(iota({2, 3}, 0, DType::Float32, kCpu)), {0, 0, 0, 1, 1, 1});
    expect_close(w(run_scalar(0.125, DType::Float32, kCpu)), {0.125});
    expect_close(w(pad(w.row({1, 2}, DType::Int64), {1}, {1}, {2}, 9)), {9, 1, 9, 9, 2, 9});
}

TEST(Reference, LeavesAreReadByTheHook) {
    const NodePtr x = leaf({2});
    const auto read = [](const Node& n) { return RefArray{n.shape, {3, 4}}; };
    expect_close(evaluate_reference(neg(x), {}, read).data, {-3, -4});
    EXPECT_THROW(evaluate_reference(neg(x), {}), ValueError);
}

}  // namespace
}  // namespace pippin::graph
