// The GPUs of this machine, whatever interface they are reached through.
#pragma once

#include <string>
#include <vector>

#include "runtime/backend.h"

namespace pippin::gpu {

struct Found {
    std::string name;
    bool software = false;        ///< the processor plays a GPU
    bool keeps_denormals = true;  ///< else numbers below the smallest normal float are zero to it
};

/// Best first: "gpu:0" is the first one. Software is there only where PIPPIN_ALLOW_SOFTWARE_GPU
/// asks for it, behind all others.
const std::vector<Found>& devices();

/// Why there is no (further) GPU, for an error message.
std::string why_no_more_devices();

/// Opens one of devices(); DeviceError when the driver refuses. The backend lives forever.
runtime::Backend& open_device(int index);

}  // namespace pippin::gpu
