// Heavy kernels on the GPU against the records' references. The cases are those of tests/heavy;
// every one in float32, a choice of them with epilogues and in half types, since software compiles
// slowly.
#include "gpu/heavy_testing.h"
#include "graph/build.h"
#include "pippin/error.h"

namespace pippin::gpu_test {
namespace {

using namespace heavy_test;

class Heavy : public GpuTest {
  protected:
    TrialsOnGpu on_gpu;
};

Trial product(std::vector<std::int64_t> batch, std::int64_t m, std::int64_t n, std::int64_t k,
              DType t, bool ta, bool tb) {
    Shape a(batch), b(batch);
    a.push_back(ta ? k : m), a.push_back(ta ? m : k);
    b.push_back(tb ? n : k), b.push_back(tb ? k : n);
    Trial r;
    r.op = &ops::kMatmul;
    r.attrs.i = {ta, tb};
    r.order = Order::RowMajor;
    r.inputs = {random_data(t, a, Order::RowMajor, 1), random_data(t, b, Order::RowMajor, 2)};
    return r;
}

TEST_F(Heavy, Matmul) {
    int turn = 0;
    for (const auto& [batch, m, n, k] :
         std::vector<std::tuple<std::vector<std::int64_t>, int, int, int>>{{{}, 1, 1, 1},
                                                                           {{}, 64, 120, 400},
                                                                           {{}, 1, 33, 17},
                                                                           {{}, 17, 1, 33},
                                                                           {{}, 130, 70, 65},
                                                                           {{2, 3}, 16, 16, 8},
                                                                           {{2, 2}, 31, 9, 5},
                                                                           {{}, 0, 4, 5},
                                                                           {{}, 4, 5, 0},
                                                                           {{}, 20, 30, 5000}})
        for (int transposed = 0; transposed < 4; ++transposed, ++turn) {
            const DType t = turn % 7 == 3   ? DType::Float16
                            : turn % 7 == 5 ? DType::BFloat16
                                            : DType::Float32;
            Trial r = product(batch, m, n, k, t, transposed & 1, transposed & 2);
            EXPECT_TRUE(close(r.run(), r.expected()))
                << m << " " << n << " " << k << " " << transposed << name_of(t);
        }
}

TEST_F(Heavy, MatmulEpiloguesAndStrides) {
    using plan::Activation;
    for (const auto activation :
         {Activation::None, Activation::Relu, Activation::Tanh, Activation::Gelu}) {
        Trial r = product({}, 33, 70, 20, DType::Float32, false, true);
        r.bias = random_data(DType::Float32, {70}, Order::RowMajor, 3);
        if (activation == Activation::Gelu)
            r.residual = random_data(DType::Float32, {33, 70}, Order::RowMajor, 4);
        r.activation = activation;
        r.inputs[0].set(45, std::nan(""));
        EXPECT_TRUE(close(r.run(), r.expected())) << static_cast<int>(activation);
    }
    Trial r = product({3, 2}, 5, 4, 6, DType::Float32, false, false);
    Trial one = product({2}, 5, 4, 6, DType::Float32, false, false);
    for (std::int64_t i = 0; i < r.inputs[1].view.shape.numel(); ++i)
        r.inputs[1].set(i, one.inputs[1].get(i % one.inputs[1].view.shape.numel()));
    const RefArray want = r.expected();
    r.inputs[1].view.strides = {0, 24, 4, 1};
    EXPECT_TRUE(close(r.run(), want));
}

struct ConvCase {
    std::int64_t n, ci, h, w, co, kh, kw, stride, pad, dilation, groups;
};

const std::vector<ConvCase>& conv_cases() {
    static const std::vector<ConvCase> all = {
        {1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1},
        {2, 1, 28, 28, 6, 5, 5, 1, 2, 1, 1},
        {3, 6, 14, 14, 16, 5, 5, 1, 0, 1, 1},
        {2, 3, 17, 19, 16, 7, 7, 2, 3, 1, 1},
        {2, 4, 8, 9, 20, 3, 2, 1, 1, 1, 1},
        {2, 64, 9, 9, 32, 1, 1, 2, 0, 1, 1},
        {1, 64, 8, 8, 16, 1, 1, 1, 0, 1, 1},
        {2, 16, 11, 11, 16, 3, 3, 1, 2, 2, 1},
        {2, 16, 10, 10, 32, 3, 3, 1, 1, 1, 4},
        {2, 16, 10, 10, 16, 3, 3, 2, 1, 1, 16},
        {2, 6, 9, 9, 12, 3, 3, 2, 1, 1, 6},
        {5, 1, 6, 6, 2, 6, 6, 1, 0, 1, 1},
        {0, 3, 8, 8, 4, 3, 3, 1, 1, 1, 1},
        {2, 3, 8, 8, 4, 2, 2, 3, 0, 1, 1},
        // by Winograd's algorithm
        {2, 16, 9, 11, 12, 3, 3, 1, 1, 1, 1},
        {1, 10, 8, 7, 20, 3, 3, 1, 0, 1, 1},
        {3, 8, 6, 5, 8, 3, 3, 1, 2, 1, 1},
        {2, 6, 7, 7, 9, 3, 3, 1, 3, 1, 1},
    };
    return all;
}

Trial conv(const graph::OpRecord& op, const ConvCase& c, DType t, Order order) {
    Trial r;
    r.op = &ops::kConv2d;
    for (const std::int64_t v :
         {c.stride, c.stride, c.pad, c.pad, c.dilation, c.dilation, c.groups})
        r.attrs.i.push_back(v);
    r.inputs = {random_data(t, {c.n, c.ci, c.h, c.w}, order, 1),
                random_data(t, {c.co, c.ci / c.groups, c.kh, c.kw}, Order::RowMajor, 2)};
    r.order = order;
    if (&op == &ops::kConv2d) return r;
    const Data dy = random_data(t, r.node()->shape, order, 3);
    r.op = &op;
    if (&op == &ops::kConv2dGradInput) {
        r.attrs.i.push_back(c.h), r.attrs.i.push_back(c.w);
        r.inputs[0] = dy;
    } else {
        r.attrs.i.push_back(c.kh), r.attrs.i.push_back(c.kw);
        r.inputs[1] = dy;
        r.order = Order::RowMajor;
    }
    return r;
}

TEST_F(Heavy, Convolution) {
    int turn = 0;
    for (const graph::OpRecord* op :
         {&ops::kConv2d, &ops::kConv2dGradInput, &ops::kConv2dGradWeight})
        for (const ConvCase& c : conv_cases()) {
            ++turn;
            const DType t = turn % 6 == 2   ? DType::Float16
                            : turn % 6 == 4 ? DType::BFloat16
                                            : DType::Float32;
            Trial r = conv(*op, c, t, turn % 5 == 1 ? Order::RowMajor : Order::ChannelsLast);
            EXPECT_TRUE(close(r.run(), r.expected()))
                << op->name << " " << turn << " " << name_of(t) << " " << c.n << " " << c.ci << " "
                << c.h << " " << c.co << " " << c.kh << " groups " << c.groups;
        }
}

TEST_F(Heavy, ConvolutionEpilogues) {
    for (const std::int64_t groups : {1, 6}) {
        const ConvCase c{2, 6, 9, 8, 12, 3, 3, 1, 1, 1, groups};
        Trial r = conv(ops::kConv2d, c, DType::Float32, Order::ChannelsLast);
        r.bias = random_data(DType::Float32, {c.co}, Order::RowMajor, 4);
        r.residual = random_data(DType::Float32, r.node()->shape, Order::ChannelsLast, 5);
        r.activation = plan::Activation::Relu;
        EXPECT_TRUE(close(r.run(), r.expected())) << groups;
    }
}

TEST_F(Heavy, Pooling) {
    const std::vector<graph::PoolAttrs> windows = {
        {{2, 2}, {2, 2}, {0, 0}, {1, 1}, false, true},
        {{3, 3}, {2, 2}, {1, 1}, {1, 1}, true, false},
        {{4, 2}, {3, 1}, {2, 1}, {1, 1}, false, true},
        {{3, 3}, {2, 2}, {1, 1}, {2, 2}, false, true},
    };
    for (const auto& a : windows)
        for (const bool average : {false, true})
            for (const bool gradient : {false, true}) {
                if (average && a.dilation[0] != 1) continue;
                Trial r;
                r.op = average ? &ops::kAvgPool2d : &ops::kMaxPool2d;
                for (const std::int64_t v :
                     {a.kernel[0], a.kernel[1], a.stride[0], a.stride[1], a.pad[0], a.pad[1],
                      a.dilation[0], a.dilation[1], std::int64_t{a.ceil_mode},
                      std::int64_t{a.count_include_pad}})
                    r.attrs.i.push_back(v);
                r.inputs = {random_data(DType::Float32, {2, 5, 12, 9}, Order::ChannelsLast, 1)};
                // ties, and NaN
                for (std::int64_t i = 0; !average && i < r.inputs[0].view.shape.numel(); ++i)
                    r.inputs[0].set(i, i % 31 == 3 ? std::nan("") : static_cast<double>(i % 3));
                if (gradient) {
                    const Data dy =
                        random_data(DType::Float32, r.node()->shape, Order::ChannelsLast, 2);
                    if (average) {
                        r.inputs = {dy};
                        r.attrs.i.push_back(12), r.attrs.i.push_back(9);
                    } else {
                        r.inputs.push_back(dy);
                    }
                    r.op = average ? &ops::kAvgPool2dGrad : &ops::kMaxPool2dGrad;
                }
                EXPECT_TRUE(close(r.run(), r.expected()))
                    << r.op->name << " " << a.kernel[0] << a.stride[0] << a.dilation[0];
            }
    for (const bool gradient : {false, true})
        for (const auto& [oh, ow] : {std::pair{1, 1}, {2, 3}, {11, 13}}) {
            Trial r;
            r.op = gradient ? &ops::kAdaptiveAvgPool2dGrad : &ops::kAdaptiveAvgPool2d;
            r.attrs.i = {gradient ? 7 : oh, gradient ? 9 : ow};
            r.inputs = {random_data(DType::Float32, {2, 6, gradient ? oh : 7, gradient ? ow : 9},
                                    Order::ChannelsLast, 1)};
            EXPECT_TRUE(close(r.run(), r.expected())) << r.op->name << oh;
        }
}

Trial indexed(const graph::OpRecord& op, std::vector<Data> inputs,
              std::vector<std::int64_t> attrs) {
    Trial r;
    r.op = &op;
    r.inputs = std::move(inputs);
    for (const std::int64_t v : attrs)
        r.attrs.i.push_back(v);
    r.order = Order::RowMajor;
    return r;
}

TEST_F(Heavy, Indexing) {
    struct IndexCase {
        Shape x, index;
        int dim;
        DType t;
    };
    for (const IndexCase& c : {IndexCase{{5}, {8}, 0, DType::Float32},
                               {{4, 6}, {4, 1}, 1, DType::Int64},
                               {{3, 4, 5}, {2, 3, 4}, 2, DType::Float16},
                               {{2, 3}, {2, 0}, 1, DType::Float32},
                               {{2, 3, 4, 5}, {2, 3, 9, 5}, 2, DType::Int32}}) {
        const Data index = index_data(DType::Int64, c.index, c.x[c.dim], 2);
        Trial g =
            indexed(ops::kGather, {random_data(c.t, c.x, Order::RowMajor, 1), index}, {c.dim});
        EXPECT_TRUE(close(g.run(), g.expected(), 0)) << c.x.str();
        Trial s = indexed(ops::kScatterAdd, {index, random_data(c.t, c.index, Order::RowMajor, 1)},
                          {c.dim, c.x[c.dim]});
        EXPECT_TRUE(close(s.run(), s.expected())) << c.x.str();
        Trial i = indexed(ops::kIndexSelect,
                          {random_data(c.t, c.x, Order::RowMajor, 1),
                           index_data(DType::Int32, {11}, c.x[c.dim], 2)},
                          {c.dim});
        EXPECT_TRUE(close(i.run(), i.expected(), 0)) << c.x.str();
        Trial a = indexed(ops::kIndexAdd,
                          {index_data(DType::Int64, {c.x[c.dim]}, 13, 2),
                           random_data(c.t, c.x, Order::RowMajor, 1)},
                          {c.dim, 13});
        EXPECT_TRUE(close(a.run(), a.expected())) << c.x.str();
    }
}

TEST_F(Heavy, BadIndicesAreNamed) {
    const Data x = random_data(DType::Float32, {3, 5}, Order::RowMajor, 1);
    Data index = index_data(DType::Int64, {3, 4}, 5, 2);
    index.set(6, 7);
    Data rows = index_data(DType::Int32, {4}, 3, 2);
    rows.set(2, -1);
    for (const auto& [trial, name, value] :
         {std::tuple{indexed(ops::kGather, {x, index}, {1}), "gather", "index 7 "},
          {indexed(ops::kScatterAdd,
                   {index, random_data(DType::Float32, {3, 4}, Order::RowMajor, 1)}, {1, 5}),
           "scatter_add", "index 7 "},
          {indexed(ops::kIndexSelect, {x, rows}, {0}), "index_select", "index -1 "},
          {indexed(ops::kIndexAdd, {rows, random_data(DType::Float32, {4, 5}, Order::RowMajor, 1)},
                   {0, 3}),
           "index_add", "index -1 "}}) {
        Trial t = trial;
        try {
            t.run();
            ADD_FAILURE() << name << ": no error";
        } catch (const IndexError& e) {
            EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
            EXPECT_NE(std::string(e.what()).find(value), std::string::npos) << e.what();
        }
    }
}

}  // namespace
}  // namespace pippin::gpu_test
