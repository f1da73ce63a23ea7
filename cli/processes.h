// Several processes of one program, started by mpirun.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pippin::cli {

/// Runs the program as that many processes on this machine and waits for them. Signals go on to
/// all of them. Returns their exit code: of the first that failed (the others are stopped then), or
/// 128 + a signal's number. FileError where mpirun is missing, Error where this build has no MPI.
int run_together(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                 int processes);

}  // namespace pippin::cli
