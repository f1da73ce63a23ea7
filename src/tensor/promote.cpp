#include "tensor/promote.h"

#include <algorithm>

#include <fmt/format.h>

#include "tensor/variable.h"

namespace pippin {

using graph::NodePtr;

namespace {

enum Category { kNumber, kZeroDim, kDims };

struct Typed {
    Category category;
    DType dtype;
};

Typed typed(const Operand& o) {
    switch (o.kind) {
        case Operand::Kind::Tensor: {
            const NodePtr& n = node_of(o.tensor, "an operand");
            return {n->shape.rank() ? kDims : kZeroDim, n->dtype};
        }
        case Operand::Kind::Real:
            return {kNumber, DType::Float32};
        case Operand::Kind::Integer:
            return {kNumber, DType::Int64};
        case Operand::Kind::Bool:
            break;
    }
    return {kNumber, DType::Bool};
}

}  // namespace

// An operand of a lower category (number < 0-d tensor < tensor) raises the dtype only when it is of
// a higher kind (bool < integer < floating).
DType result_type(const Operand& a, const Operand& b) {
    Typed high = typed(a), low = typed(b);
    if (high.category < low.category) std::swap(high, low);
    if (high.category == low.category) return promote_types(high.dtype, low.dtype);
    if (is_floating(high.dtype)) return high.dtype;
    if (high.dtype == DType::Bool || is_floating(low.dtype))
        return promote_types(high.dtype, low.dtype);
    return high.dtype;
}

DType float_type(DType t) { return is_floating(t) ? t : DType::Float32; }

NodePtr operand_node(const Operand& o, DType dtype, const Shape& shape, Device device) {
    switch (o.kind) {
        case Operand::Kind::Tensor: {
            const NodePtr& n = node_of(o.tensor);
            if (!(n->device == device))
                throw DeviceError(
                    fmt::format("tensors are on different devices ({} and {}); move one with to()",
                                device.str(), n->device.str()));
            return graph::expand_to(graph::cast(n, dtype), shape);
        }
        case Operand::Kind::Real:
            return graph::full(o.real, dtype, shape, device);
        default:
            if (is_floating(dtype))
                return graph::full(static_cast<double>(o.integer), dtype, shape, device);
            return graph::full_int(o.integer, dtype, shape, device);
    }
}

Pair promoted(const Operand& a, const Operand& b, const DType* dtype) {
    const DType t = dtype ? *dtype : result_type(a, b);
    const bool ta = a.kind == Operand::Kind::Tensor, tb = b.kind == Operand::Kind::Tensor;
    const Shape shape = ta && tb
                            ? broadcast_shapes(node_of(a.tensor)->shape, node_of(b.tensor)->shape)
                        : ta ? node_of(a.tensor)->shape
                        : tb ? node_of(b.tensor)->shape
                             : Shape{};
    const Device device = ta   ? node_of(a.tensor)->device
                          : tb ? node_of(b.tensor)->device
                               : default_device();
    return {operand_node(a, t, shape, device), operand_node(b, t, shape, device)};
}

int normalized_dim(std::int64_t dim, int rank) {
    const std::int64_t r = std::max(rank, 1);
    if (dim < -r || dim >= r)
        throw ValueError(
            fmt::format("dimension {} is out of range for {} dimensions (expected {} to {})", dim,
                        rank, -r, r - 1));
    return static_cast<int>(dim < 0 ? dim + r : dim);
}

graph::IntList normalized_dims(const std::vector<std::int64_t>& dims, int rank) {
    graph::IntList out;
    if (dims.empty()) {
        for (int d = 0; d < rank; ++d)
            out.push_back(d);
        return out;
    }
    for (auto d : dims) {
        const int at = normalized_dim(d, rank);
        if (std::find(out.begin(), out.end(), at) != out.end())
            throw ValueError(fmt::format("dimension {} is named twice", d));
        if (rank > 0) out.push_back(at);
    }
    std::sort(out.begin(), out.end());
    return out;
}

}  // namespace pippin
