// All of Pippin's tensor and training vocabulary.
#pragma once

#include "pippin/autograd.h"
#include "pippin/nn.h"
#include "pippin/ops.h"
#include "pippin/ops_attention.h"
#include "pippin/ops_conv.h"
#include "pippin/ops_image.h"
#include "pippin/ops_index.h"
#include "pippin/ops_linalg.h"
#include "pippin/ops_shape.h"
#include "pippin/optim.h"
#include "pippin/random.h"
#include "pippin/stats.h"
#include "pippin/tensor.h"
