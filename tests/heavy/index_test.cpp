#include "heavy/launch.h"
#include "pippin/error.h"

namespace pippin::heavy_test {
namespace {

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

struct IndexCase {
    Shape x, index;
    int dim;
};

const std::vector<IndexCase>& cases() {
    static const std::vector<IndexCase> all = {
        {{5}, {8}, 0},
        {{4, 6}, {4, 1}, 1},
        {{4, 6}, {9, 6}, 0},
        {{3, 4, 5}, {3, 7, 5}, 1},
        {{3, 4, 5}, {2, 3, 4}, 2},
        {{2, 3}, {2, 0}, 1},
        {{70, 90}, {70, 90}, 1},
        {{2, 3, 4, 5}, {2, 3, 9, 5}, 2},
    };
    return all;
}

class Index : public ::testing::TestWithParam<DType> {};

TEST_P(Index, Gather) {
    for (const IndexCase& c : cases())
        for (const DType it : {DType::Int64, DType::Int32}) {
            Trial r = indexed(ops::kGather,
                              {random_data(GetParam(), c.x, Order::RowMajor, 1),
                               index_data(it, c.index, c.x[c.dim], 2)},
                              {c.dim});
            EXPECT_TRUE(close(r.run(), r.expected(), 0)) << c.x.str();
        }
}

TEST_P(Index, ScatterAdd) {
    for (const IndexCase& c : cases()) {
        Trial r = indexed(ops::kScatterAdd,
                          {index_data(DType::Int64, c.index, c.x[c.dim], 2),
                           random_data(GetParam(), c.index, Order::RowMajor, 1)},
                          {c.dim, c.x[c.dim]});
        EXPECT_TRUE(close(r.run(), r.expected())) << c.x.str();
        EXPECT_TRUE(same_for_any_threads(r)) << c.x.str();
    }
}

TEST_P(Index, IndexSelect) {
    for (const IndexCase& c : cases())
        for (const DType it : {DType::Int64, DType::Int32}) {
            Trial r = indexed(ops::kIndexSelect,
                              {random_data(GetParam(), c.x, Order::RowMajor, 1),
                               index_data(it, {11}, c.x[c.dim], 2)},
                              {c.dim});
            EXPECT_TRUE(close(r.run(), r.expected(), 0)) << c.x.str();
        }
}

TEST_P(Index, IndexAdd) {
    for (const IndexCase& c : cases()) {
        Trial r = indexed(ops::kIndexAdd,
                          {index_data(DType::Int64, {c.x[c.dim]}, 13, 2),
                           random_data(GetParam(), c.x, Order::RowMajor, 1)},
                          {c.dim, 13});
        EXPECT_TRUE(close(r.run(), r.expected())) << c.x.str();
        EXPECT_TRUE(same_for_any_threads(r)) << c.x.str();
    }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Index,
                         ::testing::Values(DType::Float32, DType::BFloat16, DType::Float16,
                                           DType::Float64, DType::Int64, DType::Int32),
                         dtype_name);

// Many rows, so that threads share the work: the embedding of a language model.
TEST(IndexLarge, EmbeddingAndItsGradient) {
    const Data tokens = index_data(DType::Int64, {600}, 300, 1);
    Trial r = indexed(ops::kIndexSelect,
                      {random_data(DType::Float32, {300, 96}, Order::RowMajor, 2), tokens}, {0});
    EXPECT_TRUE(close(r.run(), r.expected(), 0));
    Trial g =
        indexed(ops::kIndexAdd,
                {tokens, random_data(DType::Float32, {600, 96}, Order::RowMajor, 3)}, {0, 300});
    EXPECT_TRUE(close(g.run(), g.expected()));
    EXPECT_TRUE(same_for_any_threads(g));
}

std::string error_of(Trial r) {
    try {
        r.run();
    } catch (const IndexError& e) {
        return e.what();
    }
    return "no error";
}

TEST(IndexErrors, NameTheFirstBadIndex) {
    const Data x = random_data(DType::Float32, {3, 5}, Order::RowMajor, 1);
    Data index = index_data(DType::Int64, {3, 4}, 5, 2);
    index.set(6, 7);
    index.set(9, -3);
    EXPECT_EQ(error_of(indexed(ops::kGather, {x, index}, {1})),
              "gather: index 7 is out of range for extent 5");
    EXPECT_EQ(
        error_of(indexed(ops::kScatterAdd,
                         {index, random_data(DType::Float32, {3, 4}, Order::RowMajor, 1)}, {1, 5})),
        "scatter_add: index 7 is out of range for extent 5");
    Data rows = index_data(DType::Int32, {4}, 3, 2);
    rows.set(2, -1);
    EXPECT_EQ(error_of(indexed(ops::kIndexSelect, {x, rows}, {0})),
              "index_select: index -1 is out of range for extent 3");
    EXPECT_EQ(
        error_of(indexed(ops::kIndexAdd,
                         {rows, random_data(DType::Float32, {4, 5}, Order::RowMajor, 1)}, {0, 3})),
        "index_add: index -1 is out of range for extent 3");
}

}  // namespace
}  // namespace pippin::heavy_test
