// Writing a chart as SVG or PNG.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "train/chart.h"

namespace pippin::cli {

/// Whether this build can write PNG (it has cairo).
bool can_write_png();

/// ".svg" or ".png" by the file's name, checked before a chart's data is gathered; ValueError for
/// another ending, and for .png in a build without cairo.
void check_chart_name(const std::filesystem::path& file);

/// Draws into the file, replacing it in one step. FileError when that fails.
void write_chart(const std::filesystem::path& file, train::Extent extent, const std::string& title,
                 const std::function<void(train::Canvas&)>& draw);

}  // namespace pippin::cli
