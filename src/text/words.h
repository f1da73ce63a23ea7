// How BERT splits a text into words.
#pragma once

#include <functional>
#include <string_view>

#include "pippin/text.h"

namespace pippin::text {

/// Cleans, lower-cases and so on, as the options say, and gives the words from left to right.
void for_each_word(std::string_view text, const WordPieceOptions& options,
                   const std::function<void(std::u32string_view)>& visit);

}  // namespace pippin::text
