// Which instruction sets the vector code is compiled for; to be included before any Highway header.
// Each further one costs compile time: these are the ones whose machines people train on.
#pragma once

#include <hwy/detect_targets.h>

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
