// A list of parameters as the only group.
#pragma once

#include "pippin/optim.h"

namespace pippin::optim {

inline std::vector<ParamGroup> one_group(std::vector<Tensor> params) {
    std::vector<ParamGroup> groups(1);
    groups[0].params = std::move(params);
    return groups;
}

}  // namespace pippin::optim
