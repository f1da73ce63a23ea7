// Faults of other frameworks with sizes, indices and validation.
#include <gtest/gtest.h>

#include "common/expect_error.h"
#include "pippin/pippin.h"

namespace pippin {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<std::int64_t>;

Tensor ids(const Ints& v) { return tensor(v); }

TEST(K18, IndexSelectPast2To31Elements) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "2 GiB are too slow under a sanitizer";
#endif
    const std::int64_t n = std::int64_t{1} << 31;
    const Tensor x = pad(arange(1, 9, 1, uint8), {n, 0});
    EXPECT_EQ(index_select(x, 0, ids({n + 7, n, n - 1, 3})).to_vector<std::int64_t>(),
              (Ints{8, 1, 0, 0}));
}

TEST(K18, SizesThatCannotBeAreErrors) {
    const std::int64_t big = std::int64_t{1} << 40;
    EXPECT_ERROR(zeros({big, big}), ValueError, "1099511627776");
    EXPECT_ERROR(matmul(zeros({big, 1}), zeros({1, big})), ValueError, "matmul");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they end the program there
    EXPECT_ERROR(zeros({big, 64}).eval(), OutOfMemoryError);
#endif
}

TEST(K19, EmbeddingRowsOutOfRange) {
    const Tensor weight = rand({10, 3}).eval();
    for (const std::int64_t bad : {std::int64_t{10}, std::int64_t{-1}, std::int64_t{1} << 40}) {
        EXPECT_ERROR(embedding(ids({0, bad}), weight).eval(), IndexError, std::to_string(bad));
        EXPECT_ERROR(index_select(weight, 0, ids({bad})).eval(), IndexError, std::to_string(bad));
        EXPECT_ERROR(gather(weight, 0, ids({bad}).reshape({1, 1})).eval(), IndexError,
                     std::to_string(bad));
        EXPECT_ERROR(take_along_dim(weight, ids({bad}).reshape({1, 1}), 0).eval(), IndexError,
                     std::to_string(bad));
    }
    // The device goes on.
    EXPECT_EQ(embedding(ids({9, 0}), weight).shape(), (Shape{2, 3}));
    EXPECT_TRUE(equal(embedding(ids({9}), weight), weight.index({Slice(9, 10)})));
}

TEST(K20, ThePaddingRowGetsNoGradient) {
    Tensor weight = ones({5, 2});
    weight.requires_grad_();
    embedding(ids({0, 1, 1, 2}).reshape({1, 4}), weight, 0).sum().backward();
    EXPECT_EQ(weight.grad().to_vector<float>(), (Floats{0, 0, 2, 2, 1, 1, 0, 0, 0, 0}));
    weight.zero_grad();
    embedding(ids({4, 4, 4}), weight, 4).sum().backward();
    EXPECT_EQ(weight.grad().to_vector<float>(), Floats(10, 0.0f));
    weight.zero_grad();
    embedding(ids({4, 4, 4}), weight).sum().backward();
    EXPECT_EQ(weight.grad().to_vector<float>(), (Floats{0, 0, 0, 0, 0, 0, 0, 0, 3, 3}));
}

TEST(K21, TargetsOutOfRange) {
    const Tensor logits = tensor<float>({1, 2, 3, 4, 5, 6}, {3, 2});
    EXPECT_ERROR(cross_entropy(logits, ids({1, 0, 5})).eval(), IndexError, "5");
    EXPECT_ERROR(cross_entropy(logits, ids({1, 0, -1})).eval(), IndexError, "-1");
    EXPECT_ERROR(nll_loss(logits, ids({1, 0, 2})).eval(), IndexError, "2");
    EXPECT_ERROR(one_hot(ids({1, 3}), 3).eval(), IndexError, "3");

    Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {3, 2});
    x.requires_grad_();
    const Tensor loss = cross_entropy(x, ids({1, -100, 0}));
    const Tensor rows = index_select(logits, 0, ids({0, 2}));
    EXPECT_FLOAT_EQ(loss.item<float>(), cross_entropy(rows, ids({1, 0})).item<float>());
    loss.backward();
    const Floats g = x.grad().to_vector<float>();
    EXPECT_NE(g[0], 0);
    EXPECT_EQ(g[2], 0);
    EXPECT_EQ(g[3], 0);
    EXPECT_NE(g[4], 0);
    // Label smoothing and a sum leave them out too.
    EXPECT_FLOAT_EQ(
        cross_entropy(logits, ids({1, -100, 0}), Reduction::Sum, -100, 0.2).item<float>(),
        cross_entropy(rows, ids({1, 0}), Reduction::Sum, -100, 0.2).item<float>());
}

TEST(K22, WritesOutOfRangeWriteNothing) {
    Tensor x = arange(6).reshape({2, 3}).eval();
    const Tensor row = full({3}, 9, int64), cell = full({1, 1}, 9, int64);
    EXPECT_ERROR(x.index_put_({2}, row), IndexError, "2");
    EXPECT_ERROR(x.index_put_({0, 3}, scalar(9)), IndexError, "3");
    EXPECT_ERROR(x.index_put_({0}, full({4}, 9, int64)), ValueError, "4");
    const Tensor wrong[] = {scatter(x, 0, ids({2}).reshape({1, 1}), cell),
                            scatter(x, 1, ids({-1}).reshape({1, 1}), cell),
                            scatter_add(x, 0, ids({5}).reshape({1, 1}), cell),
                            index_add(x, 0, ids({2}), row.reshape({1, 3})),
                            index_copy(x, 0, ids({2}), row.reshape({1, 3})),
                            index_fill(x, 1, ids({3}), 9)};
    for (const Tensor& t : wrong)
        EXPECT_ERROR(t.eval(), IndexError, "index");
    EXPECT_EQ(x.to_vector<std::int64_t>(), (Ints{0, 1, 2, 3, 4, 5}));
}

TEST(K22, TheLastOfSeveralWritersStays) {
    const Tensor at = ids({1, 0, 1, 1}).reshape({1, 4});
    const Tensor y = scatter(zeros({1, 3}), 1, at, tensor<float>({1, 2, 3, 4}, {1, 4}));
    EXPECT_EQ(y.to_vector<float>(), (Floats{2, 4, 0}));
}

}  // namespace
}  // namespace pippin
