// select: a where the condition holds, else b.
#include "graph/ops/check.h"
#include "graph/ops/records.h"
#include "graph/ops/ref.h"
#include "plan/program.h"

namespace pippin::graph::ops {
namespace {

Type infer_select(std::span<const NodePtr> in, const Attrs&) {
    if (in[0]->dtype != DType::Bool) bad_type("the condition must be bool, not ", in[0]->dtype);
    need_same_dtype(*in[1], *in[2]);
    need_same_shape(*in[1], *in[2]);
    need_same_shape(*in[0], *in[1]);
    return {in[1]->dtype, in[1]->shape};
}

Inputs grad_select(const NodePtr& y, const NodePtr& dy) {
    const NodePtr &c = y->inputs[0], &a = y->inputs[1], &b = y->inputs[2];
    Inputs g{nullptr};
    g.push_back(a->requires_grad ? select(c, dy, full_like(dy, 0)) : nullptr);
    g.push_back(b->requires_grad ? select(c, full_like(dy, 0), dy) : nullptr);
    return g;
}

RefArray ref_select(const Node&, Refs in) {
    RefArray y = in[2];
    for (std::size_t k = 0; k < y.data.size(); ++k)
        if (in[0].data[k] != 0) y.data[k] = in[1].data[k];
    return y;
}

}  // namespace

const OpRecord kSelect{"select",
                       Kind::Elementwise,
                       infer_select,
                       grad_select,
                       ref_select,
                       nullptr,
                       static_cast<int>(plan::Opcode::Select)};

}  // namespace pippin::graph::ops
