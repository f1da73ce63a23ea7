// Nodes: errors, devices, freeing, the builders' peepholes, attributes.
#include "graph_testing.h"

namespace pippin::graph {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class E>
void expect_error(const char* message, void (*build)()) {
    try {
        build();
        ADD_FAILURE() << "no error, expected: " << message;
    } catch (const E& e) {
        EXPECT_STREQ(e.what(), message);
    }
}

NodePtr f32(const Shape& s) { return leaf(s, DType::Float32); }
NodePtr i64(const Shape& s) { return leaf(s, DType::Int64); }

TEST(Errors, NameTheOpAndItsInputs) {
    expect_error<ValueError>(
        "matmul: inner extents differ: 3 and 4 (inputs float32[2, 3], float32[4, 5])", [] {
            matmul(f32({2, 3}), f32({4, 5}), false, false);
        });
    expect_error<TypeError>("exp: needs a floating-point dtype, not int64 (input int64[3])",
                            [] { exp(i64({3})); });
    expect_error<TypeError>("add: dtypes differ: float32 and int64 (inputs float32[3], int64[3])",
                            [] { add(f32({3}), i64({3})); });
    expect_error<ValueError>("mul: shapes differ: [3] and [4] (inputs float32[3], float32[4])",
                             [] { mul(f32({3}), f32({4})); });
    expect_error<ValueError>("add: an input is an undefined tensor (inputs float32[3], undefined)",
                             [] { add(f32({3}), nullptr); });
    expect_error<ValueError>("reshape: 6 elements do not fit shape [4] (input float32[2, 3])", [] {
        reshape(f32({2, 3}), {4});
    });
    expect_error<ValueError>("full: extents cannot be negative: [2, -1]", [] {
        full(0, DType::Float32, {2, -1}, kCpu);
    });
    expect_error<ValueError>(
        "expand: cannot expand to [2, 4]: extent 3 of dim 1 is not 1 (input float32[2, 3])", [] {
            expand(f32({2, 3}), {2, 4});
        });
    expect_error<ValueError>(
        "slice: range [1, 9) is not within extent 4 of dim 0 (input float32[4])",
        [] { slice(f32({4}), {1}, {9}, {1}); });
    expect_error<ValueError>(
        "concat: extents 2 and 3 of dim 0 differ; only dim 1 may (inputs float32[2, 1], "
        "float32[3, 1])",
        [] {
            concat({f32({2, 1}), f32({3, 1})}, 1);
        });
    expect_error<ValueError>(
        "reduce_max: dim 1 has no elements, and there is no extremum of nothing (input "
        "float32[2, 0])",
        [] {
            reduce_max(f32({2, 0}), {1});
        });
    expect_error<TypeError>(
        "sub: bool tensors have no such arithmetic; use the bitwise or logical ops, or cast "
        "(inputs bool[2], bool[2])",
        [] { sub(leaf({2}, DType::Bool), leaf({2}, DType::Bool)); });
    expect_error<TypeError>(
        "select: the condition must be bool, not float32 (inputs float32[2], float32[2], "
        "float32[2])",
        [] { select(f32({2}), f32({2}), f32({2})); });
}

TEST(Errors, OfHeavyOps) {
    expect_error<ValueError>(
        "conv2d: weight [8, 3, 3, 3] with groups = 1 takes 3 channels, but the input has 4 "
        "(inputs float32[1, 4, 8, 8], float32[8, 3, 3, 3])",
        [] {
            conv2d(f32({1, 4, 8, 8}), f32({8, 3, 3, 3}), {});
        });
    expect_error<ValueError>(
        "conv2d: the kernel's height 5 (with dilation) is larger than the padded input's 4 "
        "(inputs float32[1, 1, 4, 8], float32[1, 1, 5, 5])",
        [] {
            conv2d(f32({1, 1, 4, 8}), f32({1, 1, 5, 5}), {});
        });
    expect_error<ValueError>(
        "conv2d: the input must have 4 dimensions, not 3 (inputs float32[1, 4, 8], float32[1, 1, "
        "5, 5])",
        [] {
            conv2d(f32({1, 4, 8}), f32({1, 1, 5, 5}), {});
        });
    expect_error<ValueError>(
        "conv2d_grad_input: the output's gradient must have shape [1, 1, 6, 6], not [1, 1, 5, 5] "
        "(inputs float32[1, 1, 5, 5], float32[1, 1, 3, 3])",
        [] {
            conv2d_grad_input(f32({1, 1, 5, 5}), f32({1, 1, 3, 3}), {}, 8, 8);
        });
    expect_error<ValueError>(
        "max_pool2d: padding must be at most half of the kernel size and not negative, but "
        "padding = 2, kernel size = 3 (input float32[1, 1, 8, 8])",
        [] {
            max_pool2d(f32({1, 1, 8, 8}), PoolAttrs{{3, 3}, {1, 1}, {2, 2}});
        });
    expect_error<ValueError>(
        "avg_pool2d: the output would be empty: input [1, 1, 2, 2], kernel [3, 3], padding [0, 0] "
        "(input float32[1, 1, 2, 2])",
        [] {
            avg_pool2d(f32({1, 1, 2, 2}), PoolAttrs{{3, 3}});
        });
    expect_error<TypeError>(
        "index_select: an index must be int64 or int32, not float32 (inputs float32[4, 2], "
        "float32[3])",
        [] {
            index_select(f32({4, 2}), f32({3}), 0);
        });
    expect_error<ValueError>(
        "softmax_cross_entropy: there are 4 rows of logits but 3 targets (inputs float32[4, 2], "
        "int64[3])",
        [] {
            softmax_cross_entropy(f32({4, 2}), i64({3}), -100, 0);
        });
    expect_error<ValueError>(
        "softmax: dim 2 is out of range for 2 dimensions (input float32[4, 2])", [] {
            softmax(f32({4, 2}), 2);
        });
}

TEST(Errors, OfDataNameTheIndex) {
    expect_error<IndexError>("gather: index 4 is out of range [0, 4)", [] {
        World w;
        w(gather(w.row({1, 2, 3, 4}), w.row({0, 4}, DType::Int64), 0));
    });
    const auto loss = [] {
        World w;
        const NodePtr y =
            softmax_cross_entropy(w.make({1, 2}, {0, 0}), w.row({2}, DType::Int64), -100, 0);
        w(y->op->decompose(*y));
    };
    expect_error<IndexError>("cross_entropy: index 2 is out of range [0, 2)", loss);
}

TEST(Errors, OfDevices) {
    expect_error<DeviceError>(
        "add: inputs are on different devices, cpu and gpu:1; move them to one with to() (inputs "
        "float32[2], float32[2])",
        [] {
            const Device gpu(Device::Type::GPU, 1);
            add(f32({2}), make_leaf(nullptr, DType::Float32, {2}, gpu));
        });
}

TEST(Nodes, TakeTheirDeviceFromTheirInputs) {
    const Device gpu(Device::Type::GPU, 1);
    const NodePtr x = make_leaf(nullptr, DType::Float32, {2}, gpu);
    EXPECT_EQ(exp(x)->device, gpu);
    EXPECT_EQ(full_like(x, 1)->device, gpu);
    EXPECT_FALSE(exp(x)->requires_grad);
}

TEST(Nodes, RequireGradAsTheirInputsDoWhereThereIsARule) {
    const NodePtr x = f32({2}), y = f32({2});
    x->requires_grad = true;
    EXPECT_TRUE(add(y, x)->requires_grad);
    EXPECT_FALSE(add(y, y)->requires_grad);
    EXPECT_FALSE(detach(x)->requires_grad);
    EXPECT_FALSE(lt(x, y)->requires_grad);
    EXPECT_FALSE(cast(x, DType::Int64)->requires_grad);
    EXPECT_FALSE(reduce_argmax(x, 0)->requires_grad);
    grad_mode() = false;
    EXPECT_FALSE(add(y, x)->requires_grad);
    grad_mode() = true;
}

TEST(Nodes, LongChainsAreFreedWithoutRecursion) {
    NodePtr x = f32({2});
    for (int k = 0; k < 1'000'000; ++k)
        x = k % 2 ? relu(x) : add(x, x);
    x.reset();
    // A shared part in the middle of a chain lives on.
    NodePtr middle = relu(f32({2})), end = middle;
    for (int k = 0; k < 1000; ++k)
        end = relu(end);
    end.reset();
    EXPECT_EQ(middle.use_count(), 1);
    EXPECT_EQ(middle->inputs[0]->shape.str(), "[2]");
}

TEST(Attributes, CompareDoublesByTheirBits) {
    const auto constant = [](double v) { return full(v, DType::Float32, {}, kCpu)->attrs; };
    EXPECT_EQ(constant(kNan), constant(kNan));
    EXPECT_EQ(constant(2), constant(2));
    EXPECT_FALSE(constant(0.0) == constant(-0.0));
    EXPECT_FALSE(constant(1) == full(1, DType::Float64, {}, kCpu)->attrs);
}

TEST(Builders, LeaveOutWhatDoesNothing) {
    const NodePtr x = f32({2, 3});
    EXPECT_EQ(cast(x, DType::Float32), x);
    EXPECT_EQ(reshape(x, {2, 3}), x);
    EXPECT_EQ(permute(x, {0, 1}), x);
    EXPECT_EQ(expand(x, {2, 3}), x);
    EXPECT_EQ(expand_to(x, {2, 3}), x);
    EXPECT_EQ(slice(x, {0, 0}, {2, 3}, {1, 1}), x);
    EXPECT_EQ(pad(x, {0, 0}, {0, 0}, {0, 0}, 1), x);
    EXPECT_EQ(flip(x, {}), x);
    EXPECT_EQ(sum_to(x, {2, 3}), x);
    EXPECT_EQ(reduce_sum(x, {}), x);
    EXPECT_EQ(reduce_max(f32({1, 3}), {0})->op, &ops::kLeaf);
    EXPECT_EQ(mul_scalar(x, 1), x);
    EXPECT_EQ(add_scalar(x, 0), x);
    EXPECT_EQ(reduce_sum(i64({}), {})->dtype, DType::Int64);
    EXPECT_EQ(reduce_sum(leaf({}, DType::Bool), {})->dtype, DType::Int64);
}

TEST(Builders, ViewsOfConstantsAreConstantsUnlessSomeoneDifferentiates) {
    const NodePtr c = full(2.5, DType::Float32, {}, kCpu);
    EXPECT_TRUE(ops::is_full_of(*expand_to(c, {2, 3}), 2.5));
    EXPECT_EQ(expand_to(c, {2, 3})->shape.str(), "[2, 3]");
    c->requires_grad = true;
    EXPECT_EQ(expand_to(c, {2, 3})->op, &ops::kExpand);
}

TEST(CheckIndex, RemembersWhoseIndexItIs) {
    const NodePtr a = check_index(i64({2}), 0, 5, -1, "embedding");
    const NodePtr b = check_index(i64({2}), 0, 5, -1, "cross_entropy");
    EXPECT_STREQ(ops::check_index_attrs(a->attrs).op, "embedding");
    EXPECT_STREQ(ops::check_index_attrs(b->attrs).op, "cross_entropy");
    EXPECT_EQ(ops::check_index_attrs(b->attrs).high, 5);
    EXPECT_EQ(a->attrs, check_index(i64({2}), 0, 5, -1, std::string("embedding").c_str())->attrs);
}

}  // namespace
}  // namespace pippin::graph
