#include "backends/gpu/devices.h"

#include "pippin/error.h"

#ifdef PIPPIN_HAS_VULKAN
#include "backends/vulkan/backend.h"
#endif

namespace pippin::gpu {

#ifdef PIPPIN_HAS_VULKAN

const std::vector<Found>& devices() { return vulkan::devices(); }
std::string why_no_more_devices() { return vulkan::why_no_more_devices(); }
runtime::Backend& open_device(int index) { return vulkan::open_device(index); }

#else

const std::vector<Found>& devices() {
    static const std::vector<Found> none;
    return none;
}
std::string why_no_more_devices() { return "this build of Pippin runs on the cpu only"; }
runtime::Backend& open_device(int) { throw DeviceError(why_no_more_devices()); }

#endif

}  // namespace pippin::gpu
