// Ops without inputs: leaves, constants, indices, run-time scalars and random numbers.
#include <string>

#include "graph/ops/check.h"
#include "graph/ops/records.h"
#include "graph/ops/ref.h"
#include "graph/philox.h"
#include "graph/random.h"

namespace pippin::graph::ops {
namespace {

using Nodes = std::span<const NodePtr>;

Shape dims_from(const Attrs& a, std::size_t first) {
    return countable(Shape(ints(a).subspan(first)));
}

Type infer_leaf(Nodes, const Attrs&) { bad_value("a leaf's type comes with its value"); }
Type infer_full(Nodes, const Attrs& a) { return {dtype_attr(a), dims_from(a, 2)}; }
Type infer_run_scalar(Nodes, const Attrs& a) { return {dtype_attr(a), {}}; }
Type infer_uniform(Nodes, const Attrs& a) { return {DType::Float32, dims_from(a, 0)}; }
Type infer_bits(Nodes, const Attrs& a) { return {DType::Int64, dims_from(a, 0)}; }
Type infer_iota(Nodes, const Attrs& a) {
    const Shape shape = dims_from(a, 2);
    check_dim(a.i[1], shape);
    if (dtype_attr(a) == DType::Bool) bad_type("bool cannot count");
    return {dtype_attr(a), shape};
}

RefArray ref_leaf(const Node&, Refs) { bad_value("a leaf's value must be given"); }
RefArray ref_full(const Node& n, Refs) {
    return generate(n.shape, [&](const Point&) { return full_value(n); });
}
RefArray ref_iota(const Node& n, Refs) {
    const auto dim = static_cast<std::size_t>(iota_dim(n.attrs));
    return generate(n.shape, [&](const Point& p) { return static_cast<double>(p[dim]); });
}
RefArray ref_run_scalar(const Node& n, Refs) { return {{}, {run_scalar_value(n)}}; }
RefArray ref_bits(const Node& n, Refs) {
    RefArray y = zeros(n.shape);
    for (std::size_t k = 0; k < y.data.size(); ++k)
        y.data[k] = random_word(n.run_args[0], n.run_args[1], k);
    return y;
}
RefArray ref_uniform(const Node& n, Refs) {
    RefArray y = zeros(n.shape);
    for (std::size_t k = 0; k < y.data.size(); ++k)
        y.data[k] = (random_word(n.run_args[0], n.run_args[1], k) >> 8) * 0x1p-24;
    return y;
}

}  // namespace

const OpRecord kLeaf{"leaf", Kind::Source, infer_leaf, nullptr, ref_leaf, nullptr};
const OpRecord kFull{"full", Kind::Source, infer_full, nullptr, ref_full, nullptr};
const OpRecord kIota{"iota", Kind::Source, infer_iota, nullptr, ref_iota, nullptr};
const OpRecord kRunScalar{"run_scalar", Kind::Source,   infer_run_scalar,
                          nullptr,      ref_run_scalar, nullptr};
const OpRecord kRandomUniform{"random_uniform", Kind::Random, infer_uniform,
                              nullptr,          ref_uniform,  nullptr};
const OpRecord kRandomBits{"random_bits", Kind::Random, infer_bits, nullptr, ref_bits, nullptr};

}  // namespace pippin::graph::ops

namespace pippin::graph {
namespace {

NodePtr make_source(const OpRecord& op, Attrs attrs, const Shape& shape, Device device) {
    for (const std::int64_t d : shape)
        attrs.i.push_back(d);
    NodePtr n = make_node(op, {}, std::move(attrs));
    n->device = device;
    return n;
}

NodePtr make_random(const OpRecord& op, const Shape& shape, Device device) {
    NodePtr n = make_source(op, {}, shape, device);
    std::tie(n->run_args[0], n->run_args[1]) = next_random();
    return n;
}

}  // namespace

NodePtr make_leaf(std::shared_ptr<const Value> value, DType dtype, const Shape& shape,
                  Device device) {
    auto n = new_node();
    n->op = &ops::kLeaf;
    n->dtype = dtype;
    n->shape = shape;
    n->device = device;
    n->value = std::move(value);
    return n;
}

NodePtr full(double value, DType dtype, const Shape& shape, Device device) {
    if (!is_floating(dtype))
        return full_int(static_cast<std::int64_t>(ops::wrap_integer(dtype, value)), dtype, shape,
                        device);
    Attrs a;
    a.i = {static_cast<std::int64_t>(dtype), 0};
    a.f.push_back(value);
    return make_source(ops::kFull, std::move(a), shape, device);
}
NodePtr full_int(std::int64_t value, DType dtype, const Shape& shape, Device device) {
    if (is_floating(dtype)) return full(static_cast<double>(value), dtype, shape, device);
    if (dtype == DType::Bool) value = value != 0;
    if (dtype == DType::UInt8) value = static_cast<std::uint8_t>(value);
    if (dtype == DType::Int32) value = static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
    Attrs a;
    a.i = {static_cast<std::int64_t>(dtype), value};
    return make_source(ops::kFull, std::move(a), shape, device);
}
NodePtr full_like(const NodePtr& like, double value) {
    return full(value, like->dtype, like->shape, like->device);
}
NodePtr iota(const Shape& shape, int dim, DType dtype, Device device) {
    Attrs a;
    a.i = {static_cast<std::int64_t>(dtype), dim};
    return make_source(ops::kIota, std::move(a), shape, device);
}
NodePtr run_scalar(double value, DType dtype, Device device) {
    Attrs a;
    a.i = {static_cast<std::int64_t>(dtype)};
    NodePtr n = make_source(ops::kRunScalar, std::move(a), {}, device);
    n->run_args[0] = std::bit_cast<std::uint64_t>(value);
    return n;
}
NodePtr random_uniform(const Shape& shape, Device device) {
    return make_random(ops::kRandomUniform, shape, device);
}
NodePtr random_bits(const Shape& shape, Device device) {
    return make_random(ops::kRandomBits, shape, device);
}

}  // namespace pippin::graph
