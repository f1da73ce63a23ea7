#include "backends/cpu/heavy.h"

#include "backends/cpu/attention.h"
#include "backends/cpu/order.h"
#include "graph/ops/records_attention.h"
#include "graph/ops/records_order.h"
#include "pippin/error.h"

namespace pippin::cpu {

namespace {

struct Entry {
    const graph::OpRecord* op;
    std::unique_ptr<HeavyKernel> (*make)(const plan::HeavyLaunch&);
};

const Entry kEntries[] = {
    {&graph::ops::kMatmul, make_matmul},
    {&graph::ops::kConv2d, make_conv2d},
    {&graph::ops::kConv2dGradInput, make_conv2d_grad_input},
    {&graph::ops::kConv2dGradWeight, make_conv2d_grad_weight},
    {&graph::ops::kMaxPool2d, make_max_pool2d},
    {&graph::ops::kMaxPool2dGrad, make_max_pool2d_grad},
    {&graph::ops::kAvgPool2d, make_avg_pool2d},
    {&graph::ops::kAvgPool2dGrad, make_avg_pool2d_grad},
    {&graph::ops::kAdaptiveAvgPool2d, make_adaptive_avg_pool2d},
    {&graph::ops::kAdaptiveAvgPool2dGrad, make_adaptive_avg_pool2d_grad},
    {&graph::ops::kGather, make_gather},
    {&graph::ops::kScatterAdd, make_scatter_add},
    {&graph::ops::kIndexSelect, make_index_select},
    {&graph::ops::kIndexAdd, make_index_add},
    {&graph::ops::kCumSum, make_cumsum},
    {&graph::ops::kArgSort, make_argsort},
    {&graph::ops::kScatter, make_scatter},
    {&graph::ops::kAttention, make_attention},
    {&graph::ops::kAttentionGrad, make_attention_grad},
};

}  // namespace

std::unique_ptr<HeavyKernel> make_heavy(const plan::HeavyLaunch& launch) {
    for (const Entry& e : kEntries) {
        if (e.op != launch.op) continue;
        try {
            return e.make(launch);
        } catch (const std::exception& error) {
            throw Error(std::string(launch.op->name) + " on the cpu: " + error.what());
        }
    }
    throw Error(std::string("the cpu has no kernel for ") + (launch.op ? launch.op->name : "?"));
}

std::string refusal(const plan::HeavyLaunch& launch) {
    try {
        make_heavy(launch);
    } catch (const Error& e) {
        return e.what();
    }
    return "";
}

}  // namespace pippin::cpu
