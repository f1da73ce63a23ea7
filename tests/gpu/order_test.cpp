// Ops along a dim in order, on the GPU against the records' references.
#include <limits>

#include "gpu/heavy_testing.h"
#include "graph/ops/records_order.h"
#include "pippin/error.h"

namespace pippin::gpu_test {
namespace {

using namespace heavy_test;

class Ordered : public GpuTest {
  protected:
    TrialsOnGpu on_gpu;
};

Trial trial(const graph::OpRecord& op, std::vector<Data> inputs,
            std::initializer_list<std::int64_t> attrs) {
    Trial t;
    t.op = &op;
    t.order = Order::RowMajor;
    t.inputs = std::move(inputs);
    for (const auto a : attrs)
        t.attrs.i.push_back(a);
    return t;
}

// Few values, so that many are equal; NaN, both zeros and infinities among floats.
Data few_values(DType type, const Shape& shape) {
    Data d(type, shape);
    std::mt19937 gen(3);
    const double special[] = {std::nan(""), 0.0, -0.0, HUGE_VAL, -HUGE_VAL};
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
        const auto r = gen();
        double v = static_cast<double>(r % 41) - (type == DType::UInt8 ? 0 : 20);
        if (is_floating(type) && r % 7 == 0) v = special[r / 7 % 5];
        if (type == DType::Bool) v = r % 2;
        if (type == DType::Int64) v *= r % 3 ? 1 : 1e12;
        d.set(i, v);
    }
    return d;
}

TEST_F(Ordered, ArgSortIsStable) {
    struct Case {
        Shape shape;
        int dim;
        std::int64_t count;
    };
    for (const Case& c :
         {Case{{5, 4, 6}, 1, 4}, Case{{2, 300}, 1, 7}, Case{{1}, 0, 1}, Case{{3000, 2}, 0, 3000},
          Case{{9001}, 0, 9001}, Case{{6000}, 0, 50}, Case{{0, 3}, 1, 3}})
        for (const bool descending : {false, true})
            for (const DType type : {DType::Float32, DType::Int64, DType::Float16, DType::Bool,
                                     DType::UInt8, DType::Int32, DType::BFloat16}) {
                // Long lines in two types alone: keys of 32 and of 64 bits.
                if (c.shape.numel() > 200 && type != (descending ? DType::Float32 : DType::Int64))
                    continue;
                Trial t =
                    trial(ops::kArgSort, {few_values(type, c.shape)}, {c.dim, descending, c.count});
                EXPECT_TRUE(close(t.run(), t.expected()))
                    << c.shape.str() << name_of(type) << descending;
            }
}

TEST_F(Ordered, CumSum) {
    for (const bool reverse : {false, true}) {
        for (const DType type : {DType::Float32, DType::Int64, DType::Int32, DType::Float16})
            for (const int dim : {0, 1, 2}) {
                Trial t = trial(ops::kCumSum, {few_values(type, {3, 5, 4})}, {dim, reverse});
                EXPECT_TRUE(close(t.run(), t.expected())) << name_of(type) << dim << reverse;
            }
        Trial t = trial(ops::kCumSum, {random_data(DType::Float32, {20000, 2}, Order::RowMajor, 1)},
                        {0, reverse});
        EXPECT_TRUE(close(t.run(), t.expected(), 1e-6)) << reverse;
        t = trial(ops::kCumSum, {index_data(DType::Int64, {2, 5000}, 1000, 2)}, {1, reverse});
        EXPECT_TRUE(close(t.run(), t.expected())) << reverse;
    }
}

// As many as are sorted first, in one block and in several.
TEST_F(Ordered, IndexAddOfMany) {
    for (const std::int64_t n : {100, 3000})
        for (const DType type : {DType::Float32, DType::Int64}) {
            Trial t = trial(ops::kIndexAdd,
                            {index_data(n == 100 ? DType::Int32 : DType::Int64, {n}, 37, 1),
                             type == DType::Float32 ? random_data(type, {n, 5}, Order::RowMajor, 2)
                                                    : index_data(type, {n, 5}, 1000, 2)},
                            {0, 40});
            EXPECT_TRUE(close(t.run(), t.expected())) << n << name_of(type);
            t.inputs[0].set(n - 3, 40);
            EXPECT_THROW(t.run(), IndexError);
        }
}

TEST_F(Ordered, Scatter) {
    for (const DType type : {DType::Float32, DType::Int64, DType::Bool}) {
        Trial t = trial(ops::kScatter,
                        {few_values(type, {5, 7, 3}), index_data(DType::Int64, {4, 6, 3}, 7, 2),
                         few_values(type, {4, 6, 3})},
                        {1});
        EXPECT_TRUE(close(t.run(), t.expected())) << name_of(type);
    }
    Trial t = trial(ops::kScatter,
                    {few_values(DType::Float32, {5, 7}), index_data(DType::Int32, {5, 7}, 7, 2),
                     few_values(DType::Float32, {5, 7})},
                    {1});
    t.inputs[1].set(12, 7);
    EXPECT_THROW(t.run(), IndexError);
}

}  // namespace
}  // namespace pippin::gpu_test
