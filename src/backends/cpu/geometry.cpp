#include "backends/cpu/geometry.h"

#include "graph/ops/records.h"

namespace pippin::cpu {

namespace {

plan::Strides strides_in(const Shape& shape, plan::Order order) {
    plan::Strides s{};
    std::int64_t step = 1;
    const auto give = [&](int d) {
        s[static_cast<std::size_t>(d)] = step;
        step *= shape[d];
    };
    if (order == plan::Order::ChannelsLast && shape.rank() == 4) {
        for (const int d : {1, 3, 2, 0})
            give(d);
    } else {
        for (int d = shape.rank() - 1; d >= 0; --d)
            give(d);
    }
    return s;
}

}  // namespace

bool is_dense(const plan::Operand& operand, plan::Order order) {
    if (operand.shape.numel() <= 1) return true;
    const plan::Strides want = strides_in(operand.shape, order);
    for (int d = 0; d < operand.shape.rank(); ++d) {
        const auto i = static_cast<std::size_t>(d);
        if (operand.shape[d] != 1 && operand.strides[i] != want[i]) return false;
    }
    return true;
}

plan::Operand dense_operand(const plan::Operand& like, plan::Order order, DType dtype) {
    plan::Operand o = like;
    o.dtype = dtype;
    o.offset = 0;
    o.strides = strides_in(like.shape, order);
    return o;
}

bool ConvGeometry::is_product() const {
    return kh == 1 && kw == 1 && groups == 1 && stride[0] == 1 && stride[1] == 1 && pad[0] == 0 &&
           pad[1] == 0;
}

ConvGeometry conv_geometry(const plan::HeavyLaunch& launch, const plan::Operand& x,
                           const plan::Operand& w, const plan::Operand& y) {
    ConvGeometry g;
    g.n = x.shape[0], g.ci = x.shape[1], g.h = x.shape[2], g.w = x.shape[3];
    g.co = y.shape[1], g.oh = y.shape[2], g.ow = y.shape[3];
    g.kh = w.shape[2], g.kw = w.shape[3];
    const graph::ConvAttrs a = graph::ops::conv_attrs(launch.attrs);
    for (int d = 0; d < 2; ++d) {
        g.stride[d] = a.stride[d];
        g.pad[d] = a.pad[d];
        g.dilation[d] = a.dilation[d];
    }
    g.groups = a.groups;
    return g;
}

PoolGeometry pool_geometry(const plan::HeavyLaunch& launch, const plan::Operand& x,
                           const plan::Operand& y) {
    PoolGeometry g;
    g.n = x.shape[0], g.c = x.shape[1], g.h = x.shape[2], g.w = x.shape[3];
    g.oh = y.shape[2], g.ow = y.shape[3];
    const graph::PoolAttrs a = graph::ops::pool_attrs(launch.attrs);
    for (int d = 0; d < 2; ++d) {
        g.kernel[d] = a.kernel[d];
        g.stride[d] = a.stride[d];
        g.pad[d] = a.pad[d];
        g.dilation[d] = a.dilation[d];
    }
    g.count_include_pad = a.count_include_pad;
    return g;
}

}  // namespace pippin::cpu
