// GLSL to SPIR-V.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pippin::vulkan {

/// Compiles a compute shader; Error with the compiler's message and the line where it fails. Any
/// thread.
std::vector<std::uint32_t> compile_glsl(const std::string& source);

}  // namespace pippin::vulkan
