#include "model_cost.h"

#include "tensor/flush.h"

namespace pippin::cli {

std::int64_t forward_multiply_adds(const models::Info& info) {
    const NoGrad no_grad;
    const nn::ModulePtr model = models::create(info.name, info.num_classes);
    model->eval();
    const Tensor logits = (*model)(models::example_input(info, 1));
    return plan_cost(logits).heavy_flops / 2;
}

}  // namespace pippin::cli
