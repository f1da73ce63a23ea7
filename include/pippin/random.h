// Random state: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011). An op draws counter blocks under (seed, sequence number), so a seed gives the same
// numbers on every device and for every thread count.
#pragma once

#include <cstdint>

namespace pippin {

/// Seeds the generator and restarts its sequence.
void manual_seed(std::uint64_t seed);

/// What a checkpoint must keep to go on with the same random numbers.
struct RandomState {
    std::uint64_t seed = 0;
    std::uint64_t sequence = 0;  ///< number of random ops built since manual_seed
};
RandomState random_state();
void set_random_state(RandomState state);

}  // namespace pippin
