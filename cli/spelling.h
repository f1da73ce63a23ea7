// The nearest right spelling of a mistyped word.
#pragma once

#include "pippin/command_line.h"

namespace pippin::cli {

using pippin::nearest;
using pippin::suggestion;

}  // namespace pippin::cli
