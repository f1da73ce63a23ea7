// Which heavy launches have kernels.
#include "backends/gpu/heavy.h"

#include "graph/ops/records.h"
#include "graph/ops/records_attention.h"
#include "graph/ops/records_order.h"

namespace pippin::gpu {

namespace {

namespace ops = graph::ops;

struct Entry {
    const graph::OpRecord* op;
    void (*write)(Work&, Step&, const plan::HeavyLaunch&, const Features&);
};

const Entry kEntries[] = {
    {&ops::kMatmul, write_matmul},
    {&ops::kConv2d, write_conv2d},
    {&ops::kConv2dGradInput, write_conv2d_grad_input},
    {&ops::kConv2dGradWeight, write_conv2d_grad_weight},
    {&ops::kMaxPool2d, write_pool},
    {&ops::kMaxPool2dGrad, write_pool},
    {&ops::kAvgPool2d, write_pool},
    {&ops::kAvgPool2dGrad, write_pool},
    {&ops::kAdaptiveAvgPool2d, write_pool},
    {&ops::kAdaptiveAvgPool2dGrad, write_pool},
    {&ops::kAttention, write_attention},
    {&ops::kAttentionGrad, write_attention_grad},
    {&ops::kGather, write_index},
    {&ops::kScatterAdd, write_index},
    {&ops::kIndexSelect, write_index},
    {&ops::kIndexAdd, write_index},
    {&ops::kArgSort, write_argsort},
    {&ops::kCumSum, write_cumsum},
    {&ops::kScatter, write_index},
};

}  // namespace

bool write_heavy(Work& w, Step& s, const plan::HeavyLaunch& l, const Features& f) {
    for (const Entry& e : kEntries)
        if (e.op == l.op) {
            e.write(w, s, l, f);
            return true;
        }
    return false;
}

}  // namespace pippin::gpu
