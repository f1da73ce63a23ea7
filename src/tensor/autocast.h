// What ops outside of this folder need to know of Autocast.
#pragma once

#include "graph/node.h"

namespace pippin {

/// Losses and norms compute half inputs in float32 while an Autocast lives.
graph::NodePtr float32_under_autocast(const graph::NodePtr& n);

}  // namespace pippin
