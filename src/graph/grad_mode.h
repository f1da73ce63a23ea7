// Recording gradients, switched on or off while something lives.
#pragma once

#include "graph/node.h"

namespace pippin::graph {

class GradModeScope {
  public:
    explicit GradModeScope(bool on) : before_(grad_mode()) { grad_mode() = on; }
    ~GradModeScope() { grad_mode() = before_; }
    GradModeScope(const GradModeScope&) = delete;
    GradModeScope& operator=(const GradModeScope&) = delete;

  private:
    bool before_;
};

}  // namespace pippin::graph
