// The safetensors header: 8 bytes of length (little-endian), JSON of that length, then the bytes of
// all tensors. What is read here comes from files that nobody vouches for.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pippin/dtype.h"
#include "pippin/io.h"

namespace pippin::io {

/// A longer header is refused, as the format's own library does.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct Header {
    std::vector<TensorInfo> tensors;  ///< in the header's order
    Metadata metadata;
};

/// Checks everything that can be known without looking at the tensors' bytes. `path` is for errors.
Header parse_header(std::span<const std::byte> file, const std::filesystem::path& path);

/// The length and the JSON for tensors whose name, dtype and shape are set; fills in their offsets
/// and bytes. Tensors with large elements come first in the file, so that all are aligned.
std::string make_header(std::vector<TensorInfo>& tensors, const Metadata& metadata);

/// "F32" and so on; nothing for the dtypes that Pippin lacks.
std::optional<DType> dtype_from_file(std::string_view name);
std::string_view dtype_in_file(DType dtype);

}  // namespace pippin::io
