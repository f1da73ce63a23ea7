// The Vulkan devices of this machine.
#pragma once

#include <string>
#include <vector>

#include "backends/gpu/devices.h"
#include "runtime/backend.h"

namespace pippin::vulkan {

const std::vector<gpu::Found>& devices();
std::string why_no_more_devices();
runtime::Backend& open_device(int index);

}  // namespace pippin::vulkan
