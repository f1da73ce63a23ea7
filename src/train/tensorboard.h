// TensorBoard's event files.
#pragma once

#include <filesystem>
#include <memory>

#include "pippin/trackers.h"

namespace pippin::train {

std::unique_ptr<Tracker> make_tensorboard(const std::filesystem::path& folder);

}  // namespace pippin::train
