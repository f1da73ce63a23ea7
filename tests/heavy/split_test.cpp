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
        for (std::int64_t i = 0; i < y.shape.numel(); ++i)
            static_cast<float*>(output)[i] =
                static_cast<float>(y.data[static_cast<std::size_t>(i)]);
    }
    static inline int runs = 0;

  private:
    Trial trial_;
};

Data run_split(Trial& r) {
    const plan::HeavyLaunch l = r.launch();
    const auto kernel = cpu::make_matmul_split(
        l, [&r](const plan::HeavyLaunch&) { return std::make_unique<Plain>(r); });
    if (!kernel) {
        ADD_FAILURE() << "no kernel";
        return Data(l.output.dtype, l.output.shape);
    }
    return r.run_with(*kernel);
}

class Split : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!cpu::has_amx()) GTEST_SKIP() << "this processor has no matrix units";
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
    for (const Case& c : {Case{128, 128, 128}, {70, 97, 331}, {65, 64, 1601}, {300, 79, 95}})
        for (const bool ta : {false, true})
            for (const bool tb : {false, true}) {
                Trial r = product(c.m, c.n, c.k, ta, tb);
                EXPECT_LT(error_of(r.run(), r), error_of_float32(r))
                    << c.m << " " << c.n << " " << c.k;
            }
}

TEST_F(Split, Epilogues) {
    for (const std::int64_t k : {128, 900})
        for (const bool residual : {false, true})
            for (const auto activation : {plan::Activation::None, plan::Activation::Relu}) {
                Trial r = product(90, 200, k);
                r.bias = random_data(DType::Float32, {200}, Order::RowMajor, 3);
                if (residual)
                    r.residual = random_data(DType::Float32, {90, 200}, Order::RowMajor, 4);
                r.activation = activation;
                EXPECT_TRUE(close(r.run(), r.expected(), 1e-6)) << k << residual;
            }
}

TEST_F(Split, TheNumberOfThreadsChangesNothing) {
    for (Trial r : {product(500, 128, 900), product(64, 1000, 96, true, true)})
        EXPECT_TRUE(same_for_any_threads(r));
}

// Parts of what is infinite are no numbers, and large parts' products overflow one by one.
TEST_F(Split, NumbersThatCannotBeSplitGoElsewhere) {
    const double inf = std::numeric_limits<double>::infinity();
    for (const double value : {inf, -inf, std::nan(""), 3.4e38, 1e30, -2e19})
        for (const std::int64_t k : {100, 900}) {
            Trial r = product(70, 300, k);
            r.inputs[0].set(69 * k + k - 1, value);
            EXPECT_TRUE(close(r.run(), r.expected())) << value;
            r = product(70, 300, k);
            r.inputs[1].set(300 * (k - 1) + 299, value);
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
    Trial r = product(64, 64, 512);
    for (Data& d : r.inputs)
        for (std::int64_t i = 0; i < d.view.shape.numel(); ++i)
            d.set(i, d.get(i) * 1e-14);
    EXPECT_LT(error_of(r.run(), r), error_of_float32(r));
}

}  // namespace
}  // namespace pippin::heavy_test
