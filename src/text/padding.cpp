#include <fmt/format.h>

#include <algorithm>

#include "pippin/error.h"
#include "pippin/text.h"

namespace pippin::text {

std::int64_t padded_length(std::span<const Encoding> encodings, std::int64_t max_length,
                           Padding padding, std::int64_t multiple_of) {
    if (multiple_of < 1)
        throw ValueError(fmt::format("padding: multiple_of {} must be positive", multiple_of));
    if (padding == Padding::MaxLength && max_length < 1)
        throw ValueError("padding to max_length needs a max_length");
    std::int64_t length = padding == Padding::MaxLength ? max_length : 0;
    for (const Encoding& e : encodings)
        length = std::max(length, static_cast<std::int64_t>(e.ids.size()));
    const std::int64_t rounded = (length + multiple_of - 1) / multiple_of * multiple_of;
    return max_length > 0 ? std::max(length, std::min(rounded, max_length)) : rounded;
}

void pad_into(std::span<const Encoding> encodings, std::int64_t length, std::int64_t padding_id,
              std::int64_t* ids, std::int64_t* mask, std::int64_t* types) {
    const auto width = static_cast<std::size_t>(length);
    for (const Encoding& e : encodings) {
        const std::size_t n = e.ids.size();
        if (n > width)
            throw ValueError(fmt::format("padding: {} tokens do not fit into {}", n, length));
        std::fill(std::copy(e.ids.begin(), e.ids.end(), ids), ids + width, padding_id);
        std::fill(std::copy(e.types.begin(), e.types.end(), types), types + width, 0);
        std::fill(std::fill_n(mask, n, 1), mask + width, 0);
        ids += width;
        mask += width;
        types += width;
    }
}

}  // namespace pippin::text
