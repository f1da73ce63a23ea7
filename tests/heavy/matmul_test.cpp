#include <random>

#include "heavy/launch.h"

namespace pippin::heavy_test {
namespace {

struct MatmulCase {
    std::vector<std::int64_t> batch;
    std::int64_t m, n, k;
};

std::string text(const MatmulCase& c, bool ta, bool tb) {
    std::string s;
    for (const std::int64_t b : c.batch)
        s += std::to_string(b) + " ";
    return s + "| " + std::to_string(c.m) + " " + std::to_string(c.n) + " " + std::to_string(c.k) +
           (ta ? " ta" : "") + (tb ? " tb" : "");
}

const std::vector<MatmulCase>& cases() {
    static const std::vector<MatmulCase> all = {
        {{}, 1, 1, 1},      {{}, 3, 5, 7},       {{}, 64, 120, 400},  {{}, 64, 10, 84},
        {{}, 1, 33, 17},    {{}, 17, 1, 33},     {{}, 33, 17, 1},     {{}, 130, 70, 65},
        {{3}, 5, 4, 6},     {{2, 3}, 16, 16, 8}, {{4, 1}, 1, 8, 8},   {{1}, 9, 1, 4},
        {{2, 2}, 31, 9, 5}, {{}, 0, 4, 5},       {{}, 4, 0, 5},       {{}, 4, 5, 0},
        {{0}, 4, 5, 6},     {{3}, 4, 5, 0},      {{}, 200, 100, 300},
    };
    return all;
}

Trial product(const MatmulCase& c, DType t, bool ta, bool tb) {
    Shape a(c.batch), b(c.batch);
    a.push_back(ta ? c.k : c.m);
    a.push_back(ta ? c.m : c.k);
    b.push_back(tb ? c.n : c.k);
    b.push_back(tb ? c.k : c.n);
    Trial r;
    r.op = &ops::kMatmul;
    r.attrs.i = {ta, tb};
    r.order = Order::RowMajor;
    r.inputs = {random_data(t, a, Order::RowMajor, 1), random_data(t, b, Order::RowMajor, 2)};
    return r;
}

class Matmul : public ::testing::TestWithParam<DType> {};

TEST_P(Matmul, Product) {
    for (const MatmulCase& c : cases())
        for (const bool ta : {false, true})
            for (const bool tb : {false, true}) {
                Trial r = product(c, GetParam(), ta, tb);
                EXPECT_TRUE(close(r.run(), r.expected())) << text(c, ta, tb);
            }
}

TEST_P(Matmul, RandomSizes) {
    std::mt19937 random(1);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
        return low +
               static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(high - low + 1));
    };
    for (int i = 0; i < 100; ++i) {
        MatmulCase c{{}, pick(1, pick(1, 90)), pick(1, pick(1, 90)), pick(1, pick(1, 90))};
        if (pick(0, 2) == 0) c.batch = {pick(1, 4)};
        const bool ta = pick(0, 1) != 0, tb = pick(0, 1) != 0;
        Trial r = product(c, GetParam(), ta, tb);
        ASSERT_TRUE(close(r.run(), r.expected())) << text(c, ta, tb);
    }
}

// Widths at which a library's copy of B was wrong.
TEST_P(Matmul, NarrowBatches) {
    for (std::int64_t n = 47; n <= 65; n += 2)
        for (const std::int64_t batch : {1, 4})
            for (const bool ta : {false, true}) {
                const MatmulCase c{{batch}, ta ? 8 : 27, n, batch == 1 ? 83 : 7};
                Trial r = product(c, GetParam(), ta, true);
                EXPECT_TRUE(close(r.run(), r.expected())) << text(c, ta, true);
            }
}

TEST_P(Matmul, Epilogue) {
    using plan::Activation;
    for (const MatmulCase& c : cases()) {
        const RefArray bare = product(c, GetParam(), false, true).reference();
        for (const auto activation :
             {Activation::None, Activation::Relu, Activation::Tanh, Activation::Gelu})
            for (const bool residual : {false, true}) {
                Trial r = product(c, GetParam(), false, true);
                r.bias = random_data(GetParam(), {c.n}, Order::RowMajor, 3);
                if (residual)
                    r.residual = random_data(GetParam(), r.node()->shape, Order::RowMajor, 4);
                r.activation = activation;
                EXPECT_TRUE(close(r.run(), r.with_epilogue(bare)))
                    << text(c, false, true) << " " << static_cast<int>(activation) << residual;
            }
    }
}

// Wide right matrices, whose rows are packed first.
TEST(MatmulPacked, Product) {
    for (const bool ta : {false, true})
        for (const bool residual : {false, true}) {
            Trial r = product({{}, 96, 1530, 70}, DType::Float32, ta, false);
            const RefArray bare = r.reference();
            r.bias = random_data(DType::Float32, {1530}, Order::RowMajor, 3);
            if (residual)
                r.residual = random_data(DType::Float32, r.node()->shape, Order::RowMajor, 4);
            r.activation = plan::Activation::Gelu;
            EXPECT_TRUE(close(r.run(), r.with_epilogue(bare))) << ta << residual;
        }
}

// Views that permute and slice fold into an operand's strides.
TEST_P(Matmul, Strides) {
    const std::int64_t batch = 3, m = 6, n = 10, k = 8;
    Trial r = product({{batch}, m, n, k}, GetParam(), false, false);
    const RefArray want = r.expected();
    const auto relaid = [&](const Data& d, std::initializer_list<std::int64_t> strides) {
        Data copy(d.view.dtype, {4096});
        copy.view.shape = d.view.shape;
        std::copy(strides.begin(), strides.end(), copy.view.strides.begin());
        for (std::int64_t i = 0; i < d.view.shape.numel(); ++i)
            copy.set(i, d.get(i));
        return copy;
    };
    const Data a = r.inputs[0], b = r.inputs[1];
    // batch innermost but one; rows with gaps; no unit stride at all; transposed
    for (const auto& sa : {std::initializer_list<std::int64_t>{k, batch * k, 1},
                           {100, 12, 1},
                           {200, 20, 2},
                           {m * k, 1, m}})
        for (const auto& sb : {std::initializer_list<std::int64_t>{k * n, n, 1},
                               {n, batch * n, 1},
                               {1, 3 * n, 3},
                               {200, 1, 16}}) {
            r.inputs = {relaid(a, sa), relaid(b, sb)};
            EXPECT_TRUE(close(r.run(), want));
        }
}

// A batch dim that repeats has stride 0.
TEST_P(Matmul, RepeatedBatch) {
    Trial r = product({{3, 2}, 5, 4, 6}, GetParam(), false, false);
    Trial one = product({{2}, 5, 4, 6}, GetParam(), false, false);
    for (std::int64_t i = 0; i < r.inputs[1].view.shape.numel(); ++i)
        r.inputs[1].set(i, one.inputs[1].get(i % one.inputs[1].view.shape.numel()));
    const RefArray want = r.expected();
    r.inputs[1].view.strides = {0, 24, 4, 1};
    EXPECT_TRUE(close(r.run(), want));
}

TEST_P(Matmul, NanStays) {
    using plan::Activation;
    for (const auto activation :
         {Activation::None, Activation::Relu, Activation::Tanh, Activation::Gelu}) {
        Trial r = product({{}, 20, 30, 40}, GetParam(), false, true);
        r.inputs[0].set(77, std::nan(""));
        r.activation = activation;
        EXPECT_TRUE(close(r.run(), r.expected())) << static_cast<int>(activation);
    }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Matmul,
                         ::testing::Values(DType::Float32, DType::BFloat16, DType::Float16,
                                           DType::Float64),
                         dtype_name);

}  // namespace
}  // namespace pippin::heavy_test
