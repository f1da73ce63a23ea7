// Copies one strided view into another, converting the dtype.
#pragma once

#include "plan/plan.h"

namespace pippin::cpu {

/// Both views have one shape.
/// itself.
void copy_strided(const plan::Operand& from, const void* source, const plan::Operand& to,
                  void* target);

}  // namespace pippin::cpu
