#include "gpu/model_plans.h"

#include "gpu/gpu_testing.h"
#include "pippin/amp.h"
#include "pippin/autograd.h"
#include "pippin/models.h"
#include "pippin/pippin.h"
#include "runtime/value.h"
#include "tensor/flush.h"
#include "tensor/variable.h"

namespace pippin::gpu_test {
namespace {

// A leaf of the GPU without bytes.
graph::NodePtr hollow(const graph::NodePtr& n) {
    return graph::make_leaf(std::make_shared<Value>(), n->dtype, n->shape, kGpu);
}

}  // namespace

plan::Plan step_plan(const std::string& name, DType compute) {
    const models::Info& info = models::info(name);
    const nn::ModulePtr model = models::create(name, info.num_classes);
    for (auto& [parameter, t] : model->state_dict())
        bind_leaf(*t.variable(), hollow(t.variable()->node));
    model->train();
    model->requires_grad_();
    const auto input = [](const Tensor& like) { return wrap(hollow(node_of(like))); };
    const Autocast autocast(compute);
    const Tensor logits = model->forward(input(models::example_input(info, 2)));
    const Tensor loss = cross_entropy(logits, input(zeros({logits.size(0)}, int64)));
    loss.backward();
    const NoGrad no_grad;
    for (Tensor& p : model->parameters())
        p.assign_(p - 0.1 * p.grad());
    return pending_plan(loss).value();
}

void for_each_step_plan(const std::function<void(const std::string& what, const plan::Plan&)>& f) {
    // Made once: several tests go over them.
    static const auto plans = [] {
        std::vector<std::pair<std::string, plan::Plan>> out;
        for (const std::string& name : models::names()) {
            // Half types add conversions, the same ones to a whole family.
            const bool fresh = out.empty() || out.back().first.substr(0, 3) != name.substr(0, 3);
            out.emplace_back(name + " in float32", step_plan(name, DType::Float32));
            if (fresh) out.emplace_back(name + " in float16", step_plan(name, DType::Float16));
        }
        return out;
    }();
    for (const auto& [what, plan] : plans)
        f(what, plan);
}

}  // namespace pippin::gpu_test
