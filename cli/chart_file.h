// Writing a chart as SVG or PNG.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "train/chart.h"

namespace pippin::cli {

/// Whether this build can write PNG (it has cairo).
bool can_write_png();

/// "", or what is wrong with a chart's name: it ends in neither .svg nor .png, or in .png in a
/// build without cairo.
std::string chart_name_fault(const std::string& file);

/// Draws into the file, replacing it in one step. ValueError for a wrong name, FileError when
/// it cannot be written.
void write_chart(const std::filesystem::path& file, train::Extent extent, const std::string& title,
                 const std::function<void(train::Canvas&)>& draw);

}  // namespace pippin::cli
