// A launch in words, for people.
#pragma once

#include <string>

#include "plan/plan.h"

namespace pippin::plan {

/// Launches of one sort: "conv", "matmul", "attention", "pool", a heavy op's own name, or a fused
/// program's form ("map", "reduce rows", "reduce columns").
std::string kind_of(const Launch& l);
/// A heavy launch's operands and result with what else decides its cost, a program's form and
/// space: "[8, 64, 56, 56] [64, 64, 3, 3] -> [8, 64, 56, 56]", "map [802816] and 3 more".
std::string shapes_of(const Launch& l);

std::string form_text(const Program& p);

}  // namespace pippin::plan
