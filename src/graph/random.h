// Where random ops draw their run-time arguments from.
#pragma once

#include <cstdint>
#include <utility>

namespace pippin::graph {

/// The seed and the next sequence number. Safe to call from any thread.
std::pair<std::uint64_t, std::uint64_t> next_random();

}  // namespace pippin::graph
