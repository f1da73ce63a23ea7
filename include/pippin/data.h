// Everything that brings data to a training loop: images, texts, transforms, datasets and
// the loader.
#pragma once

#include "pippin/dataset.h"
#include "pippin/datasets.h"
#include "pippin/image.h"
#include "pippin/loader.h"
#include "pippin/text_dataset.h"
#include "pippin/transforms.h"
