// All of Pippin's tensor and training vocabulary.
#pragma once

#include "pippin/autograd.h"
#include "pippin/nn.h"
#include "pippin/ops.h"
#include "pippin/optim.h"
#include "pippin/random.h"
#include "pippin/stats.h"
#include "pippin/tensor.h"
