// Launches of heavy ops with their epilogues.
#include <algorithm>

#include "graph/ops/records_attention.h"
#include "plan/lowering.h"
#include "profile/sites.h"

namespace pippin::plan {

using graph::Node;
namespace ops = graph::ops;

namespace {

Operand operand_of(const Lowering& l, std::int32_t n, std::int32_t& base) {
    const Resolved r = resolve(l, n);
    base = r.base;
    Operand o;
    o.dtype = l.node(n).dtype;
    o.shape = r.view->shape;
    o.strides = r.view->strides;
    o.offset = r.view->offset;
    return o;
}

std::int64_t flops_of(const Node& n, const std::vector<Operand>& in) {
    if (n.op == &ops::kMatmul) {
        const Shape& a = in[0].shape;
        return 2 * n.shape.numel() * (ops::trans_a(n.attrs) ? a[a.rank() - 2] : a.back());
    }
    if (n.op == &ops::kConv2d)
        return 2 * n.shape.numel() * in[1].shape.numel() /
               std::max<std::int64_t>(1, in[1].shape[0]);
    if (n.op == &ops::kConv2dGradInput)
        return 2 * in[0].shape.numel() * in[1].shape.numel() /
               std::max<std::int64_t>(1, in[1].shape[0]);
    if (n.op == &ops::kConv2dGradWeight)
        return 2 * in[1].shape.numel() * n.shape.numel() / std::max<std::int64_t>(1, n.shape[0]);
    if (ops::is_attention(n.op)) {
        // Products of queries with keys and of weights with values; the gradient has both again,
        // and two more of the first kind and one of the second.
        const Shape &q = in[0].shape, &v = in[2].shape;
        const std::int64_t scores = q[0] * q[1] * q[2] * v[2];
        return n.op == &ops::kAttention ? 2 * scores * (q[3] + v[3])
                                        : 2 * scores * (3 * q[3] + 2 * v[3]);
    }
    return n.shape.numel();
}
}  // namespace

Draft draft_heavy(const Lowering& l, const Unit& u) {
    const Node& n = l.node(u.node);
    auto h = std::make_unique<HeavyLaunch>();
    Draft d;
    h->op = n.op;
    h->attrs = n.attrs;
    d.launch.name = n.op->name;
    std::int32_t base = -1;
    const Order order = l[u.node].order;
    for (auto in : l[u.node].in) {
        Operand o = operand_of(l, in, base);
        // Extents of 1 make both orders one; kernels see the strides of the order they asked for.
        const Strides maps = dense_strides(o.shape, Order::ChannelsLast);
        if (n.op != &ops::kMatmul && !ops::is_attention(n.op) && o.shape.rank() == 4 &&
            same_memory(o.shape, o.strides, maps) &&
            !same_memory(o.shape, maps, dense_strides(o.shape, Order::RowMajor)))
            o.strides = maps;
        h->operands.push_back(o);
        d.operand_nodes.push_back(base);
        d.launch.bytes_moved += bytes_of(l, base);
    }
    std::int32_t last = u.node;
    for (auto e : u.epilogue) {
        const Node& x = l.node(e);
        const bool is_bias = x.op == &ops::kAdd && h->epilogue.bias < 0;
        d.launch.name += std::string("+") + (is_bias ? "bias" : x.op->name);
        if (x.op == &ops::kAdd) {
            const std::int32_t other = l[e].in[0] == last ? l[e].in[1] : l[e].in[0];
            Operand o = operand_of(l, other, base);
            const int channel = n.op == &ops::kMatmul ? n.shape.rank() - 1 : 1;
            if (is_bias) {
                o.shape = Shape{n.shape[channel]};
                o.strides = {1};
            } else {
                o.strides = dense_strides(n.shape, order);
            }
            (is_bias ? h->epilogue.bias : h->epilogue.residual) =
                static_cast<std::int32_t>(h->operands.size());
            h->operands.push_back(o);
            d.operand_nodes.push_back(base);
        } else {
            h->epilogue.activation = x.op == &ops::kRelu ? Activation::Relu : Activation::Tanh;
        }
        last = e;
    }
    h->output.dtype = n.dtype;
    h->output.shape = n.shape;
    h->output.strides = dense_strides(n.shape, order);
    d.output_node = last;
    d.launch.bytes_moved += bytes_of(l, last);
    d.launch.flops = flops_of(n, h->operands);
    d.reads = d.operand_nodes;
    d.writes = {last};
    if (recording::on()) recording::mark_launch(h.get(), recording::site_of_node(&n));
    d.launch.heavy = std::move(h);
    return d;
}

}  // namespace pippin::plan
