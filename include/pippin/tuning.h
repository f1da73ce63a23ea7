// What trials on a GPU have found (docs/gpu.md, "Tuning"): which way each kind of product,
// convolution and attention is fastest there.
#pragma once

#include <cstdint>

#include "pippin/device.h"

namespace pippin {

struct TuningStats {
    std::int64_t known = 0;    ///< kinds of launches whose way is known, from files or trials
    std::int64_t tried = 0;    ///< of them: by trials of this process
    std::int64_t changed = 0;  ///< of those known: that do not go the default way
    double seconds = 0;        ///< that trials took in this process
};
/// Of one device; zeros for the processor, and before anything was compiled for a GPU. DeviceError
/// where there is no such device.
TuningStats tuning_stats(Device device = default_device());

}  // namespace pippin
