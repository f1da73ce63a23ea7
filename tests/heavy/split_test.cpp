// float32 products and convolutions on matrix units for bfloat16: as exact as float32's own.
#include "backends/cpu/amx.h"
#include "backends/cpu/split_product.h"
#include "heavy/launch.h"

namespace pippin::heavy_test {
namespace {

// What takes numbers that cannot be split: a plain sum in float64, counted.
class Plain : public cpu::HeavyKernel {
  public:
    explicit Plain(Trial trial) : trial_(std::move(trial)) {}
    void run(void* const* operands, void* output) override {
        ++runs;
        Trial t = trial_;
        for (std::size_t i = 0; i < t.inputs.size(); ++i)
            std::memcpy(t.inputs[i].bytes(), operands[i], cpu::bytes_of(t.inputs[i].view));
        const RefArray y = t.expected();
        Data out(DType::Float32, y.shape, t.order);
        for (std::int64_t i = 0; i < y.shape.numel(); ++i)
            out.set(i, y.data[static_cast<std::size_t>(i)]);
        std::memcpy(output, out.bytes(), cpu::bytes_of(out.view));
    }
    static inline int runs = 0;

  private:
    Trial trial_;
};

Data run_split(Trial& r) {
    const plan::HeavyLaunch l = r.launch();
    const auto plain = [&r](const plan::HeavyLaunch&) { return std::make_unique<Plain>(r); };
    const auto make = [&] {
        if (r.op == &ops::kMatmul) return cpu::make_matmul_split(l, plain);
        const plan::Operand &a = l.operands[0], &b = l.operands[1], &y = l.output;
        if (r.op == &ops::kConv2d)
            return cpu::make_conv_split(l, cpu::conv_geometry(l, a, b, y), plain);
        if (r.op == &ops::kConv2dGradInput)
            return cpu::make_conv_split(l, cpu::conv_geometry(l, y, b, a), plain);
        return cpu::make_conv_split_grad_weight(l, cpu::conv_geometry(l, a, y, b), plain);
    };
    const auto kernel = make();
    if (!kernel) {
        ADD_FAILURE() << "no kernel";
        return Data(l.output.dtype, l.output.shape, r.order);
    }
    return r.run_with(*kernel);
}

class Split : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!cpu::has_amx()) GTEST_SKIP() << "this processor has no matrix units";
        if (std::getenv("PIPPIN_TEST_TARGET")) GTEST_SKIP() << "the same for every instruction set";
        Plain::runs = 0;
        Trial::runner = run_split;
    }
    void TearDown() override { Trial::runner = nullptr; }
};

Trial product(std::int64_t m, std::int64_t n, std::int64_t k, bool ta = false, bool tb = false) {
    Trial r;
    r.op = &ops::kMatmul;
    r.attrs.i = {ta, tb};
    r.order = Order::RowMajor;
    const auto shape = [](std::int64_t rows, std::int64_t columns, bool turned) {
        return turned ? Shape{columns, rows} : Shape{rows, columns};
    };
    r.inputs = {random_data(DType::Float32, shape(m, k, ta), Order::RowMajor, 1),
                random_data(DType::Float32, shape(k, n, tb), Order::RowMajor, 2)};
    return r;
}

// The worst error of an element against the sum of its products' sizes.
double error_of(const Data& got, const Trial& r) {
    Trial sizes = r;
    for (Data& d : sizes.inputs)
        for (std::int64_t i = 0; i < d.view.shape.numel(); ++i)
            d.set(i, std::fabs(d.get(i)));
    const RefArray want = r.reference(), size = sizes.reference();
    double worst = 0;
    for (std::int64_t i = 0; i < want.shape.numel(); ++i) {
        const auto k = static_cast<std::size_t>(i);
        worst = std::max(worst, std::fabs(got.get(i) - want.data[k]) / size.data[k]);
    }
    return worst;
}

// The same of sums in float32, one product after the other.
double error_of_float32(const Trial& r) {
    Data sums = Data(DType::Float32, r.node()->shape);
    const auto& a = r.inputs[0];
    const auto& b = r.inputs[1];
    const bool ta = r.attrs.i[0] != 0, tb = r.attrs.i[1] != 0;
    const std::int64_t m = sums.view.shape[0], n = sums.view.shape[1];
    const std::int64_t k = a.view.shape[ta ? 0 : 1];
    for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (std::int64_t p = 0; p < k; ++p)
                sum = std::fma(static_cast<float>(a.get(ta ? p * m + i : i * k + p)),
                               static_cast<float>(b.get(tb ? j * k + p : p * n + j)), sum);
            sums.set(i * n + j, sum);
        }
    return error_of(sums, r);
}

TEST_F(Split, ProductsAreAsCloseAsFloat32s) {
    struct Case {
        std::int64_t m, n, k;
    };
    // Whole blocks, parts of them, and more depth than goes at once.
    for (const Case& c : {Case{128, 128, 128}, {130, 97, 331}, {129, 64, 801}, {180, 79, 195}})
        for (const bool ta : {false, true})
            for (const bool tb : {false, true}) {
                if (c.k != 331 && ta == tb) continue;  // time
                Trial r = product(c.m, c.n, c.k, ta, tb);
                EXPECT_LT(error_of(r.run(), r), error_of_float32(r))
                    << c.m << " " << c.n << " " << c.k;
            }
}

// Whose depth is cut into parts.
TEST_F(Split, DeepProducts) {
    for (const std::int64_t k : {2048, 2501})
        for (const bool turned : {k == 2501}) {
            Trial r = product(66, 97, k, turned, turned);
            EXPECT_LT(error_of(r.run(), r), error_of_float32(r)) << k << turned;
            EXPECT_EQ(Plain::runs, 0);
            r.inputs[0].set(k + 1, HUGE_VAL);
            EXPECT_TRUE(close(r.run(), r.expected())) << k << turned;
            EXPECT_EQ(std::exchange(Plain::runs, 0), 2);
        }
}

TEST_F(Split, Epilogues) {
    for (const std::int64_t k : {128, 900})
        for (const bool residual : {false, true})
            for (const auto activation : {plan::Activation::None, plan::Activation::Relu}) {
                Trial r = product(140, 200, k);
                r.bias = random_data(DType::Float32, {200}, Order::RowMajor, 3);
                if (residual)
                    r.residual = random_data(DType::Float32, {140, 200}, Order::RowMajor, 4);
                r.activation = activation;
                EXPECT_TRUE(close(r.run(), r.expected(), 1e-6)) << k << residual;
            }
}

TEST_F(Split, TheNumberOfThreadsChangesNothing) {
    for (Trial r :
         {product(500, 128, 900), product(128, 1000, 96, true, true), product(64, 96, 5000, true)})
        EXPECT_TRUE(same_for_any_threads(r));
}

// Parts of what is infinite are no numbers, and large parts' products overflow one by one.
TEST_F(Split, NumbersThatCannotBeSplitGoElsewhere) {
    const double inf = std::numeric_limits<double>::infinity();
    for (const double value : {-inf, 1e30})
        for (const std::int64_t k : {130, 800}) {
            Trial r = product(135, 130, k);
            r.inputs[0].set(134 * k + k - 1, value);
            EXPECT_TRUE(close(r.run(), r.expected())) << value;
            r = product(135, 130, k);
            r.inputs[1].set(130 * (k - 1) + 129, value);
            EXPECT_TRUE(close(r.run(), r.expected())) << value;
            r.inputs[0].set(k - 1, value);
            RefArray want = r.expected();
            for (double& v : want.data)
                v = std::fabs(v) > 3.4028235e38 ? std::copysign(inf, v) : v;
            EXPECT_TRUE(close(r.run(), want)) << value;
            EXPECT_EQ(Plain::runs, 6);  // a trial runs twice
            Plain::runs = 0;
        }
}

TEST_F(Split, TinyNumbersKeepTheirDigits) {
    Trial r = product(128, 64, 512);
    for (Data& d : r.inputs)
        for (std::int64_t i = 0; i < d.view.shape.numel(); ++i)
            d.set(i, d.get(i) * 1e-14);
    EXPECT_LT(error_of(r.run(), r), error_of_float32(r));
}

struct ConvCase {
    std::int64_t n, from, h, w, to, kh, kw;
    std::int64_t dilation = 1, stride = 1;
    std::int64_t pad = -1;  // -1: an image keeps its size, but for the stride

    std::int64_t padding(std::int64_t kernel) const {
        return pad < 0 ? dilation * (kernel / 2) : pad;
    }
    std::int64_t out(std::int64_t extent, std::int64_t kernel) const {
        return (extent + 2 * padding(kernel) - dilation * (kernel - 1) - 1) / stride + 1;
    }
    Shape y() const { return {n, to, out(h, kh), out(w, kw)}; }
};

// Strides, windows that see little beside an image, much or nothing, and single pixels.
const ConvCase kStrided[] = {
    {4, 32, 16, 15, 64, 3, 3, 1, 2},    {2, 48, 29, 31, 33, 3, 3, 1, 2},
    {1, 33, 41, 40, 40, 5, 5, 1, 3},    {2, 512, 20, 19, 32, 1, 1, 1, 2},
    {4, 32, 17, 16, 32, 2, 2, 1, 2, 0}, {3, 40, 16, 19, 32, 3, 3, 1, 1, 0},
    {2, 32, 14, 13, 36, 3, 3, 1, 1, 3}, {2, 32, 30, 30, 32, 3, 3, 2, 2, 1},
    {5, 32, 15, 15, 32, 1, 3, 1, 2, 2}, {1, 512, 13, 14, 32, 1, 1, 1, 1, 1}};

Trial convolution(const ConvCase& c, bool backward = false) {
    Trial r;
    r.op = backward ? &ops::kConv2dGradInput : &ops::kConv2d;
    r.attrs.i = {c.stride, c.stride, c.padding(c.kh), c.padding(c.kw), c.dilation, c.dilation, 1};
    if (backward)
        for (const std::int64_t extent : {c.h, c.w})
            r.attrs.i.push_back(extent);
    const Shape map = backward ? c.y() : Shape{c.n, c.from, c.h, c.w};
    r.inputs = {random_data(DType::Float32, map, Order::ChannelsLast, 1),
                random_data(DType::Float32, {c.to, c.from, c.kh, c.kw}, Order::RowMajor, 2)};
    return r;
}

Trial weight_gradient(const ConvCase& c) {
    Trial r = convolution(c);
    r.op = &ops::kConv2dGradWeight;
    for (const std::int64_t extent : {c.kh, c.kw})
        r.attrs.i.push_back(extent);
    r.inputs[1] = random_data(DType::Float32, c.y(), Order::ChannelsLast, 3);
    r.order = Order::RowMajor;
    return r;
}

TEST_F(Split, WeightGradients) {
    for (const ConvCase& c : {ConvCase{4, 32, 7, 7, 64, 3, 3},
                              {1, 64, 14, 14, 33, 3, 3},
                              {1, 33, 9, 40, 40, 5, 5},
                              {7, 40, 6, 5, 32, 3, 3, 2},
                              {2, 32, 12, 11, 32, 1, 5},
                              {1, 36, 8, 32, 32, 3, 3}}) {
        Trial r = weight_gradient(c);
        EXPECT_LT(error_of(r.run(), r), 3e-7) << c.from << " " << c.h;
    }
    EXPECT_EQ(Plain::runs, 0);
    // More pixels than are split at once.
    const std::int64_t before = std::exchange(cpu::split_chunk_bytes, 128 * 6 * 256);
    Trial r = weight_gradient({2, 34, 20, 21, 33, 3, 1});
    EXPECT_LT(error_of(r.run(), r), 3e-7);
    EXPECT_TRUE(same_for_any_threads(r));
    cpu::split_chunk_bytes = before;
    r = weight_gradient({3, 32, 8, 8, 32, 3, 3});
    for (Data& d : r.inputs) {
        const double number = d.get(70);
        d.set(70, std::nan(""));
        EXPECT_TRUE(close(r.run(), r.expected()));
        d.set(70, number);
    }
    EXPECT_EQ(Plain::runs, 4);
}

TEST_F(Split, Convolutions) {
    for (const ConvCase& c : {ConvCase{4, 32, 7, 7, 64, 3, 3},
                              {1, 64, 14, 14, 33, 3, 3},
                              {1, 33, 9, 40, 40, 5, 5},
                              {7, 40, 6, 5, 32, 3, 3, 2},
                              {2, 32, 12, 11, 32, 1, 5},
                              {1, 36, 9, 70, 32, 3, 3}})
        for (const bool backward : {false, true}) {
            Trial r = convolution(c, backward);
            // Five units in float32's last place, however many products are summed.
            EXPECT_LT(error_of(r.run(), r), 3e-7) << c.from << " " << c.h << backward;
        }
    EXPECT_EQ(Plain::runs, 0);
}

TEST_F(Split, StridesAndPaddings) {
    for (const ConvCase& c : kStrided) {
        for (Trial r : {convolution(c), convolution(c, true), weight_gradient(c)})
            EXPECT_LT(error_of(r.run(), r), 3e-7) << c.from << " " << c.h << " " << r.op->name;
    }
    EXPECT_EQ(Plain::runs, 0);
    for (Trial r :
         {convolution(kStrided[1]), convolution(kStrided[1], true), weight_gradient(kStrided[1])}) {
        EXPECT_TRUE(same_for_any_threads(r));
        r.inputs[0].set(70, std::nan(""));
        EXPECT_TRUE(close(r.run(), r.expected()));
    }
}

TEST_F(Split, ConvolutionsEpilogues) {
    for (const bool residual : {false, true})
        for (const auto activation : {plan::Activation::None, plan::Activation::Relu}) {
            Trial r = convolution({3, 40, 8, 9, 48, 3, 3});
            r.bias = random_data(DType::Float32, {48}, Order::RowMajor, 3);
            if (residual)
                r.residual = random_data(DType::Float32, {3, 48, 8, 9}, Order::ChannelsLast, 4);
            r.activation = activation;
            EXPECT_TRUE(close(r.run(), r.expected(), 1e-6)) << residual;
        }
}

TEST_F(Split, ConvolutionsForAnyThreads) {
    for (Trial r : {convolution({1, 64, 14, 14, 64, 3, 3}), convolution({2, 32, 60, 56, 32, 3, 3})})
        EXPECT_TRUE(same_for_any_threads(r));
}

// Beside padding as well: a window that does not see a number has nothing of it.
TEST_F(Split, ConvolutionsOfWhatCannotBeSplit) {
    for (const int input : {0, 1})
        for (const double value : {HUGE_VAL, std::nan("")}) {
            Trial r = convolution({3, 32, 8, 8, 32, 3, 3});
            r.inputs[static_cast<std::size_t>(input)].set(7, value);
            EXPECT_TRUE(close(r.run(), r.expected()));
        }
    EXPECT_EQ(Plain::runs, 8);
}

}  // namespace
}  // namespace pippin::heavy_test
