// What a network's forward pass costs, from its plan.
#pragma once

#include "pippin/models.h"

namespace pippin::cli {

/// Multiply-adds of one sample's forward pass. Plans it and computes nothing, not even weights.
std::int64_t forward_multiply_adds(const models::Info& info);

}  // namespace pippin::cli
