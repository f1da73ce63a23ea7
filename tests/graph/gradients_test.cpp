// Every gradient rule against central differences of the references, once and twice.
#include "graph_testing.h"

namespace pippin::graph {
namespace {

class Gradients : public testing::TestWithParam<int> {
  protected:
    const GradientCase& the_case() const {
        return gradient_cases()[static_cast<std::size_t>(GetParam())];
    }
    static std::vector<NodePtr> leaves_of(const GradientCase& c, DType dtype) {
        std::vector<NodePtr> leaves;
        for (const CaseInput& in : c.inputs)
            leaves.push_back(leaf(in.shape, in.index ? DType::Int64 : dtype));
        return leaves;
    }
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t k = 0; k < a.size(); ++k)
        sum += a[k] * b[k];
    return sum;
}

// d(f())/d(value of leaf)
template <class F>
std::vector<double> differences(LeafValues& values, const NodePtr& leaf, F f) {
    constexpr double h = 1e-5;
    std::vector<double> slopes;
    for (double& v : values.at(leaf.get()).data) {
        const double at = v;
        v = at + h;
        const double above = f();
        v = at - h;
        const double below = f();
        v = at;
        slopes.push_back((above - below) / (2 * h));
    }
    return slopes;
}

TEST_P(Gradients, AgreeWithFiniteDifferences) {
    const GradientCase& c = the_case();
    SCOPED_TRACE(c.name);
    std::mt19937_64 rng(7);
    World world;
    std::vector<NodePtr> leaves, wrt;
    for (const CaseInput& in : c.inputs) {
        leaves.push_back(
            world.make(in.shape, draw(in, rng), in.index ? DType::Int64 : DType::Float64));
        if (!in.index) wrt.push_back(leaves.back());
    }
    const NodePtr y = c.build(leaves);
    const NodePtr dy = world.make(y->shape, draw({y->shape}, rng), y->dtype);

    const std::vector<NodePtr> grads = gradients(y, dy, wrt);
    for (std::size_t k = 0; k < wrt.size(); ++k) {
        SCOPED_TRACE("leaf " + std::to_string(k));
        const std::vector<double> want = differences(
            world.values, wrt[k], [&] { return dot(world(y), world.values.at(dy.get()).data); });
        if (grads[k])
            expect_close(world(grads[k]), want, 1e-7);
        else  // only what is constant wherever it is differentiable may go without
            for (const double v : want)
                EXPECT_NEAR(v, 0, 1e-7);
    }

    // The gradients are a graph as well: a random sum of them, differentiated by the leaves and dy.
    std::vector<NodePtr> second_wrt = wrt;
    second_wrt.push_back(dy);
    NodePtr sum;
    for (const NodePtr& g : grads) {
        if (!g) continue;
        const NodePtr r = world.make(g->shape, draw({g->shape}, rng), g->dtype);
        const NodePtr part = cast(reshape(sum_to(mul(g, r), {}), {}), DType::Float64);
        sum = sum ? add(sum, part) : part;
    }
    if (!sum) return;
    const std::vector<NodePtr> seconds = gradients(sum, full_like(sum, 1), second_wrt);
    for (std::size_t k = 0; k < second_wrt.size(); ++k) {
        SCOPED_TRACE("second derivative, leaf " + std::to_string(k));
        const std::vector<double> want =
            differences(world.values, second_wrt[k], [&] { return world(sum)[0]; });
        if (seconds[k])
            expect_close(world(seconds[k]), want, 1e-6);
        else
            for (const double v : want)
                EXPECT_NEAR(v, 0, 1e-6);
    }
}

// Rules neither mix dtypes nor change an input's: gradients() checks each part's shape and dtype.
TEST_P(Gradients, KeepEveryDtype) {
    const GradientCase& c = the_case();
    SCOPED_TRACE(c.name);
    for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32}) {
        const std::vector<NodePtr> leaves = leaves_of(c, dtype);
        std::vector<NodePtr> wrt;
        for (const NodePtr& n : leaves)
            if (is_floating(n->dtype)) wrt.push_back(n);
        const NodePtr y = c.build(leaves);
        gradients(y, leaf(y->shape, y->dtype), wrt);
    }
}

INSTANTIATE_TEST_SUITE_P(Case, Gradients,
                         testing::Range(0, static_cast<int>(gradient_cases().size())));

// --- points where a derivative is a convention: PyTorch's ---

std::vector<double> slope(World& world, const NodePtr& y, const NodePtr& x) {
    const NodePtr g = gradients(y, full_like(y, 1), {x})[0];
    return g ? world(g) : std::vector<double>{};
}
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(GradientConventions, PowersAtZero) {
    World w;
    const NodePtr x = w.row({0, 0, 0, 0, -2}), e = w.row({2, 1, 0, -1, 2});
    expect_close(slope(w, pow(x, full_like(x, 2)), x), {0, 0, 0, 0, -4});
    expect_close(slope(w, pow(x, full_like(x, 0)), x), {0, 0, 0, 0, 0});
    expect_close(slope(w, pow(x, full_like(x, 0.5)), x), {kInf, kInf, kInf, kInf, kNan});
    expect_close(slope(w, pow(x, e), x), {0, 1, 0, -kInf, -4});
    expect_close(slope(w, pow(x, e), e), {0, 0, 0, -kInf, kNan});
}

TEST(GradientConventions, PowerOfAConstantExponentHasNoGradientForIt) {
    World w;
    const NodePtr x = w.row({1, 2});
    const NodePtr y = pow(x, full_like(x, 2.5));
    x->requires_grad = y->requires_grad = true;
    const Inputs parts = y->op->gradient(y, full_like(y, 1));
    EXPECT_TRUE(parts[0]);
    EXPECT_FALSE(parts[1]);
}

TEST(GradientConventions, TiesAreShared) {
    World w;
    const NodePtr a = w.row({1, 2, 3, kNan}), b = w.row({1, 3, 2, 0});
    expect_close(slope(w, maximum(a, b), a), {0.5, 0, 1, 1});
    expect_close(slope(w, maximum(a, b), b), {0.5, 1, 0, 1});
    expect_close(slope(w, minimum(a, b), a), {0.5, 1, 0, 1});
    expect_close(slope(w, minimum(a, b), b), {0.5, 0, 1, 1});
    const NodePtr x = w.make({2, 4}, {3, 1, 3, 3, 0, 0, -1, -1});
    expect_close(slope(w, reduce_max(x, {1}), x), {1. / 3, 0, 1. / 3, 1. / 3, .5, .5, 0, 0});
    expect_close(slope(w, reduce_min(x, {1}), x), {0, 1, 0, 0, 0, 0, .5, .5});
}

TEST(GradientConventions, Kinks) {
    World w;
    const NodePtr x = w.row({-1, 0, 2, kNan});
    expect_close(slope(w, abs(x), x), {-1, 0, 1, 0});
    expect_close(slope(w, relu(x), x), {0, 0, 1, 1});
    expect_close(slope(w, sqrt(x), x), {kNan, kInf, 0.5 / std::sqrt(2.), kNan});
    expect_close(slope(w, sign(x), x), {0, 0, 0, 0});
    expect_close(slope(w, round(x), x), {0, 0, 0, 0});
}

TEST(GradientConventions, ProductsWithZeros) {
    World w;
    const NodePtr x = w.make({3, 3}, {2, 0, 5, 0, 0, 7, 2, 3, 4});
    expect_close(slope(w, reduce_prod(x, {1}), x), {0, 10, 0, 0, 0, 0, 12, 8, 6});
}

TEST(GradientConventions, DetachStops) {
    World w;
    const NodePtr x = w.row({3});
    EXPECT_FALSE(ops::kDetach.gradient);
    expect_close(slope(w, mul(x, detach(x)), x), {3});
    EXPECT_TRUE(slope(w, detach(x), x).empty());
}

TEST(GradientConventions, MaxPoolTakesTheFirstMaximumAndTheLastNan) {
    World w;
    const PoolAttrs a{{2, 2}, {2, 2}};
    const NodePtr x = w.make({1, 1, 2, 6}, {1, 5, 4, 4, kNan, 0,  //
                                            5, 5, 4, 4, 9, kNan});
    expect_close(slope(w, max_pool2d(x, a), x), {0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1});
}

TEST(GradientConventions, IgnoredRowsGetNothingEvenWhereTheyAreNan) {
    World w;
    const NodePtr x = w.make({2, 2}, {kNan, 1, 0, 0}), t = w.row({-100, 1}, DType::Int64);
    const NodePtr y = softmax_cross_entropy(x, t, -100, 0);
    expect_close(w(y), {0, std::log(2.)});
    expect_close(slope(w, y, x), {0, 0, 0.5, -0.5});
}

TEST(GradientConventions, SoftmaxOfExtremesIsStable) {
    World w;
    const NodePtr x = w.make({1, 3}, {1000, -1000, 999});
    const NodePtr y = ops::kLogSoftmax.decompose(*log_softmax(x, 1));
    const double lse = std::log1p(std::exp(-1.));
    expect_close(w(y), {-lse, -2000 - lse, -1 - lse});
}

}  // namespace
}  // namespace pippin::graph
