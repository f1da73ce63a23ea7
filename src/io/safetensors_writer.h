// Writes a safetensors file from bytes on the processor.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "pippin/io.h"

namespace pippin::io {

/// `tensors` have name, dtype and shape; `bytes_of(i)` gives the elements of the i-th, valid until
/// it is called again, so that only one tensor at a time need be on the processor.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
                       const Metadata& metadata,
                       const std::function<const void*(std::size_t)>& bytes_of);

}  // namespace pippin::io
