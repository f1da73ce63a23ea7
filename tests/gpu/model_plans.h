// Plans of every model's training step on a GPU. Nothing is computed, and no memory is needed.
#pragma once

#include <functional>
#include <string>

#include "pippin/dtype.h"
#include "plan/plan.h"

namespace pippin::gpu_test {

/// Forward, backward and an update of all parameters; `compute` other than float32: autocast.
plan::Plan step_plan(const std::string& model, DType compute);

/// All of them in float32, and one of each family in float16 as well.
void for_each_step_plan(const std::function<void(const std::string& what, const plan::Plan&)>& f);

}  // namespace pippin::gpu_test
