// The Tensor handle: values, sharing, gradients' bookkeeping, printing, errors that name the line.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "common/expect_error.h"
#include "pippin/pippin.h"

namespace pippin {
namespace {

using Floats = std::vector<float>;

TEST(Tensor, HandlesShareAVariableAndNothingElse) {
    Tensor a = tensor<float>({1, 2, 3});
    Tensor same = a;
    const Tensor made = a * 1, part = a.index({Slice(0, 2)});
    a += 10;
    EXPECT_EQ(same.to_vector<float>(), (Floats{11, 12, 13}));
    EXPECT_EQ(made.to_vector<float>(), (Floats{1, 2, 3}));
    EXPECT_EQ(part.to_vector<float>(), (Floats{1, 2}));
    same.index_put_({Slice({}, {}, 2)}, scalar(0));
    EXPECT_EQ(a.to_vector<float>(), (Floats{0, 12, 0}));
}

TEST(Tensor, IndexesLikePython) {
    const Tensor a = arange(24).reshape({2, 3, 4});
    EXPECT_EQ(a.index({-1, Slice(1, {}), Slice({}, {}, 3)}).to_vector<float>(),
              (Floats{16, 19, 20, 23}));
    EXPECT_EQ(a.index({Ellipsis, 0}).shape(), (Shape{2, 3}));
    EXPECT_EQ(a.index({NewAxis, 1}).shape(), (Shape{1, 3, 4}));
    EXPECT_EQ(a[1][2].to_vector<float>(), (Floats{20, 21, 22, 23}));
    EXPECT_EQ(a.index({Slice(5, 9)}).numel(), 0);
    EXPECT_ERROR(a[2], IndexError, "2", "[2, 3, 4]");
    EXPECT_ERROR(a.index({0, 0, 0, 0}), IndexError, "4", "3");
    EXPECT_ERROR(a.index({Slice(0, 2, 0)}), ValueError, "step");
}

TEST(Tensor, PromotesLikePyTorch) {
    const Tensor i = tensor<std::int64_t>({1, 2}), f = tensor<float>({1, 2}), h = cast(f, float16);
    EXPECT_EQ((i + 1).dtype(), int64);
    EXPECT_EQ((i + 1.5).dtype(), float32);
    EXPECT_EQ((i / 2).dtype(), float32);
    EXPECT_EQ((h + 1.5).dtype(), float16);
    EXPECT_EQ((h + f).dtype(), float32);
    EXPECT_EQ((h + cast(f, bfloat16)).dtype(), float32);
    EXPECT_EQ((h + scalar(1, float64)).dtype(), float16);
    EXPECT_EQ((i + scalar(1, float64)).dtype(), float64);
    EXPECT_EQ((i > 1).dtype(), boolean);
    EXPECT_EQ(((i > 1) + (i > 0)).dtype(), boolean);
    EXPECT_EQ((2 - f).to_vector<float>(), (Floats{1, 0}));
}

TEST(Tensor, ReadsWithConversion) {
    const Tensor f = tensor<float>({1.5f, -2, 0});
    EXPECT_EQ(f.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, -2, 0}));
    EXPECT_EQ(f.to_vector<bool>(), (std::vector<bool>{true, true, false}));
    EXPECT_EQ(f[0].item<double>(), 1.5);
    EXPECT_EQ(f.data<float>()[1], -2);
    EXPECT_ERROR(f.data<double>(), TypeError, "float64", "float32");
    EXPECT_ERROR(f.item<float>(), ValueError, "[3]");
    EXPECT_ERROR(Tensor().item<float>(), ValueError, "undefined");
    EXPECT_ERROR(tensor(Floats{1, 2, 3}, {2, 2}), ValueError, "3", "[2, 2]", "4");
}

TEST(Tensor, FeatureMapsReadInRowMajorOrder) {
    // Convolution results lie channels-last in memory.
    const Tensor x = arange(2 * 3 * 4 * 4, float32).reshape({2, 3, 4, 4});
    const Tensor w = eye(3).reshape({3, 3, 1, 1});
    const Tensor y = conv2d(x, w);
    EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
    const Tensor z = conv2d(x, w);
    EXPECT_TRUE(equal(z.reshape({2, 48}), x.reshape({2, 48})));
}

TEST(Tensor, GradientsAddUpAndClear) {
    Tensor w = tensor<float>({1, 2}).requires_grad_();
    EXPECT_FALSE(w.grad().defined());
    (w * 3).sum().backward();
    (w * w).sum().backward();
    EXPECT_EQ(w.grad().to_vector<float>(), (Floats{5, 7}));
    w.zero_grad();
    EXPECT_FALSE(w.grad().defined());
    EXPECT_TRUE(w.is_leaf());
    EXPECT_FALSE((w * 2).is_leaf());
    EXPECT_FALSE(w.detach().requires_grad());
    {
        const NoGrad no_grad;
        EXPECT_FALSE((w * 2).requires_grad());
        w += 1;
    }
    EXPECT_TRUE(w.requires_grad());
    (w * 3).sum().backward();
    EXPECT_EQ(w.grad().to_vector<float>(), (Floats{3, 3}));
}

TEST(Tensor, GradientErrorsSayWhatToDo) {
    Tensor w = tensor<float>({1, 2}).requires_grad_();
    EXPECT_ERROR(w += 1, ValueError, "NoGrad");
    EXPECT_ERROR((w * 2).backward(), ValueError, "[2]");
    EXPECT_ERROR((w * 2).backward(ones({3})), ValueError, "[3]", "[2]");
    EXPECT_ERROR(ones({1}).backward(), ValueError, "requires_grad_");
    EXPECT_ERROR(arange(3).requires_grad_(), TypeError, "int64");
    Tensor y = w * 2;
    EXPECT_ERROR(y.requires_grad_(false), ValueError, "detach");
}

TEST(Tensor, FunctionalGradients) {
    const Tensor x = tensor<float>({1, 2, 3}).requires_grad_(), unused = ones({2}).requires_grad_();
    const std::vector<Tensor> inputs{x, unused};
    const auto g = grad((x * x * x).sum(), inputs, {}, true);
    EXPECT_EQ(g[0].to_vector<float>(), (Floats{3, 12, 27}));
    EXPECT_EQ(g[1].to_vector<float>(), (Floats{0, 0}));
    EXPECT_FALSE(x.grad().defined());
    const auto second = grad(g[0].sum(), std::vector<Tensor>{x});
    EXPECT_EQ(second[0].to_vector<float>(), (Floats{6, 12, 18}));
    auto f = value_and_grad([](std::span<const Tensor> a) { return (a[0] * a[1]).sum(); });
    const auto [value, grads] =
        f(std::vector<Tensor>{tensor<float>({1, 2}), tensor<float>({3, 4})});
    EXPECT_EQ(value.item<float>(), 11);
    EXPECT_EQ(grads[0].to_vector<float>(), (Floats{3, 4}));
    EXPECT_EQ(grads[1].to_vector<float>(), (Floats{1, 2}));
}

TEST(Tensor, PrintsLikePyTorch) {
    EXPECT_EQ(tensor<float>({1, 2.5f}).str(), "tensor([1.0000, 2.5000])");
    EXPECT_EQ(tensor<float>({1, 2}).str(), "tensor([1., 2.])");
    EXPECT_EQ(arange(3).str(), "tensor([0, 1, 2])");
    EXPECT_EQ((arange(3) > 1).str(), "tensor([False, False,  True])");
    EXPECT_EQ(scalar(3.5, float64).str(), "tensor(3.5000, dtype=float64)");
    EXPECT_EQ(ones({2, 2}).str(), "tensor([[1., 1.],\n        [1., 1.]])");
    EXPECT_EQ(zeros({0}).str(), "tensor([])");
    EXPECT_EQ(zeros({2, 0}).str(), "tensor([], size=(2, 0))");
    EXPECT_EQ(tensor<float>({1e10f, 1}).str(), "tensor([1.0000e+10, 1.0000e+00])");
    EXPECT_EQ(tensor<float>({NAN, INFINITY, 1}).str(), "tensor([nan, inf, 1.])");
    EXPECT_EQ(ones({1}).requires_grad_().str(), "tensor([1.], requires_grad=True)");
    EXPECT_NE(zeros({2000}).str().find("..."), std::string::npos);
    EXPECT_EQ(Tensor().str(), "tensor(undefined)");
}

TEST(Tensor, ErrorsNameTheOpTheShapesAndTheLine) {
    const Tensor a = ones({2, 3}), b = ones({4, 5});
    EXPECT_ERROR(matmul(a, b), ValueError, "matmul", "[2, 3]", "[4, 5]", "tensor_test.cpp");
    EXPECT_ERROR(a + b, ValueError, "[2, 3]", "[4, 5]", "tensor_test.cpp");
    EXPECT_ERROR(conv2d(ones({1, 3, 8, 8}), ones({4, 2, 3, 3})), ValueError, "conv2d",
                 "tensor_test.cpp");
    EXPECT_ERROR(where(a, a, a), TypeError, "bool", "float32");
    EXPECT_ERROR(a.reshape({5}), ValueError, "[2, 3]", "[5]");
    EXPECT_ERROR(ones({2, -1}), ValueError, "negative");
    EXPECT_ERROR(Device("tpu"), ValueError, "tpu", "cpu");
    EXPECT_ERROR(a.to(Device("gpu")), DeviceError, "gpu");
    EXPECT_ERROR(ones({2}, Device("mps")), DeviceError, "gpu:0");
    EXPECT_ERROR(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}), ValueError, "8");
    nn::Linear layer(3, 2);
    EXPECT_ERROR(layer(ones({2, 4})), ValueError, "linear", "tensor_test.cpp");
}

TEST(Tensor, RandomNumbersFollowTheSeed) {
    manual_seed(7);
    const auto a = rand({100}).to_vector<float>();
    const RandomState state = random_state();
    const auto b = randn({1000}).to_vector<float>();
    manual_seed(7);
    EXPECT_EQ(rand({100}).to_vector<float>(), a);
    set_random_state(state);
    set_num_threads(1);
    EXPECT_EQ(randn({1000}).to_vector<float>(), b);
    set_num_threads(2);
    double sum = 0, squares = 0;
    for (float v : b)
        sum += v, squares += double(v) * v;
    EXPECT_NEAR(sum / 1000, 0, 0.15);
    EXPECT_NEAR(squares / 1000, 1, 0.2);
    const Tensor r = randint(-3, 4, {5000});
    EXPECT_EQ(r.min().item<int>(), -3);
    EXPECT_EQ(r.max().item<int>(), 3);
    EXPECT_ERROR(randint(3, 3, {2}), ValueError, "[3, 3)");
}

TEST(Tensor, AutocastComputesInBfloat16) {
    const Tensor x = randn({8, 16}), w = randn({4, 16});
    const Tensor full = linear(x, w);
    const Autocast autocast(bfloat16);
    const Tensor half = linear(x, w);
    EXPECT_EQ(half.dtype(), bfloat16);
    EXPECT_TRUE(allclose(cast(half, float32), full, 0.05, 0.1));
    EXPECT_EQ(cross_entropy(half, zeros({8}, int64)).dtype(), float32);
}

TEST(Tensor, ThreadsWorkOnTensorsOfTheirOwn) {
    std::vector<std::thread> threads;
    std::vector<float> sums(4);
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            Tensor x = full({1000}, t);
            for (int i = 0; i < 20; ++i)
                x = x + 1;
            sums[static_cast<std::size_t>(t)] = x.sum().item<float>();
        });
    for (auto& t : threads)
        t.join();
    for (int t = 0; t < 4; ++t)
        EXPECT_EQ(sums[static_cast<std::size_t>(t)], 1000.f * static_cast<float>(t + 20));
}

TEST(Memory, LevelsOffOverChangingBatches) {
    nn::Linear layer(32, 32);
    optim::SGD opt(layer.parameters(), {.lr = 0.01});
    auto round = [&] {
        for (int n = 1; n <= 1024; n += 37) {
            const Tensor loss = square(layer(ones({n, 32}))).mean();
            opt.zero_grad();
            loss.backward();
            opt.step();
        }
        synchronize();
        const Stats s = stats();
        return s.bytes_live + s.bytes_cached;
    };
    round();
    const auto first = round();
    for (int i = 0; i < 5; ++i)
        EXPECT_LE(round(), first + (1 << 20));
}

TEST(Printing, WholeNumbersThatADoubleCannotHold) {
    EXPECT_EQ(tensor(std::vector<std::int64_t>{9007199254740993, -3}).str(),
              "tensor([9007199254740993,               -3])");
}

// [low, high) in half types too, where rounding could reach the end.
TEST(Random, UniformStaysBelowItsEnd) {
    manual_seed(4);
    for (const DType t : {float16, bfloat16, float32}) {
        EXPECT_LT(rand({100000}, t).max().item<float>(), 1.0f) << name_of(t);
        const Tensor u = uniform({100000}, -3, 5, t);
        EXPECT_LT(u.max().item<float>(), 5.0f) << name_of(t);
        EXPECT_GE(u.min().item<float>(), -3.0f) << name_of(t);
        EXPECT_NEAR(rand({100000}, t).mean().item<float>(), t == bfloat16 ? 0.498f : 0.5f, 0.01f);
    }
}

// Errors name the line of the program that called, operators included.
TEST(Errors, OperatorsNameTheCallersLine) {
    const Tensor x = ones({2, 3}), y = ones({4, 5});
    EXPECT_ERROR(x[5], IndexError, "5", "tensor_test.cpp");
    EXPECT_ERROR(-Tensor(), ValueError, "undefined");
    EXPECT_ERROR(allclose(x, y), ValueError, "[2, 3]", "tensor_test.cpp");
    EXPECT_ERROR(x + y, ValueError, "tensor_test.cpp");
}

}  // namespace
}  // namespace pippin
