// pippin bench --profile: where a step goes, against what the machine can do at most.
#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench_case.h"

namespace pippin::cli {

/// Profiles each case in a process of its own and prints its tables; one JSON object a line to
/// `lines`, if that is there.
int profile_models(const std::vector<BenchCase>& cases, int top, std::ostream* lines);

/// What that process does: {"profile": "limits", "precision", "threads"} measures the machine, a
/// case with "profile": "steps" runs steps.
nlohmann::json run_profile_case(const nlohmann::json& what);

}  // namespace pippin::cli
