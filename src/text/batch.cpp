// Encodings of different lengths into arrays of one.
#include <fmt/format.h>

#include <algorithm>

#include "pippin/error.h"
#include "pippin/ops.h"
#include "pippin/text.h"

namespace pippin::text {

TokenBatch WordPiece::batch(std::span<const std::string> texts, std::span<const std::string> pairs,
                            const BatchOptions& options) const {
    if (!pairs.empty() && pairs.size() != texts.size())
        throw ValueError(
            fmt::format("WordPiece: {} texts with {} pairs", texts.size(), pairs.size()));
    std::vector<Encoding> encodings;
    const EncodeOptions each{.max_length = options.max_length};
    for (std::size_t i = 0; i < texts.size(); ++i)
        encodings.push_back(pairs.empty() ? encode(texts[i], each)
                                          : encode(texts[i], pairs[i], each));
    const std::int64_t length =
        padded_length(encodings, options.max_length, options.padding, options.multiple_of);
    const auto n = static_cast<std::int64_t>(texts.size());
    const auto elements = static_cast<std::size_t>(n * length);
    std::vector<std::int64_t> ids(elements), mask(elements), types(elements);
    pad_into(encodings, length, padding_id(), ids.data(), mask.data(), types.data());
    const Device device = options.device.value_or(default_device());
    const Shape shape{n, length};
    return {from_bytes(ids.data(), shape, DType::Int64, device),
            from_bytes(mask.data(), shape, DType::Int64, device),
            from_bytes(types.data(), shape, DType::Int64, device)};
}

TokenBatch WordPiece::batch(std::span<const std::string> texts, const BatchOptions& options) const {
    return batch(texts, {}, options);
}

}  // namespace pippin::text
