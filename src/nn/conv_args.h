// How convolution layers print their padding mode.
#pragma once

#include <string>

#include "pippin/ops_shape.h"

namespace pippin::nn {

/// Nothing for zeros.
inline std::string describe(PadMode mode) {
    switch (mode) {
        case PadMode::Reflect:
            return ", padding_mode=reflect";
        case PadMode::Replicate:
            return ", padding_mode=replicate";
        case PadMode::Circular:
            return ", padding_mode=circular";
        case PadMode::Constant:
            break;
    }
    return "";
}

}  // namespace pippin::nn
