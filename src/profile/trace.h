// Recorded events as a file that chrome://tracing and Perfetto open.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/recorder.h"

namespace pippin::recording {

struct Trace {
    std::vector<Row> rows;
    std::vector<Event> events;
    std::int64_t dropped = 0;  ///< events beyond the bound
    std::int64_t origin = 0;   ///< zero of the picture's time
};

/// The path with the process's number for every "%p": processes that share a setting write apart.
std::string expanded(std::string path);

/// The Trace Event Format's JSON object form: complete events (X) and names of rows (M), times in
/// microseconds. FileError when it cannot be written; the file appears whole or not at all.
void write_chrome_trace(Trace trace, const std::string& path);

}  // namespace pippin::recording
