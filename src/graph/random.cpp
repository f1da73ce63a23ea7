// The one random state of the process. Without manual_seed the seed is 0: two runs of a program
// give the same numbers unless it asks for others.
#include "graph/random.h"

#include <mutex>

#include "pippin/random.h"

namespace pippin {
namespace {

constinit std::mutex guard;
constinit RandomState state;

}  // namespace

void manual_seed(std::uint64_t seed) { set_random_state({seed, 0}); }

RandomState random_state() {
    const std::lock_guard lock(guard);
    return state;
}

void set_random_state(RandomState s) {
    const std::lock_guard lock(guard);
    state = s;
}

std::pair<std::uint64_t, std::uint64_t> graph::next_random() {
    const std::lock_guard lock(guard);
    return {state.seed, state.sequence++};
}

}  // namespace pippin
