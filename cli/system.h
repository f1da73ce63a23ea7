// What the commands need of the operating system.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace pippin::cli {

/// The file of this program; empty when the system does not say.
std::filesystem::path own_path();
bool is_executable(const std::filesystem::path& file);
void set_environment(const std::string& name, const std::string& value);
/// Becomes the program: signals and its exit code are its own. Returns only when that fails, with
/// the reason.
std::string replace_by(const std::filesystem::path& program,
                       const std::vector<std::string>& arguments);
/// Runs a program (looked up in PATH) and gives its standard output. Error when it cannot be run or
/// fails.
std::string output_of(const std::vector<std::string>& command);
/// The most memory this process has held.
std::int64_t peak_resident_bytes();
/// Of the machine; 0 where the system does not say.
std::int64_t memory_bytes();
/// That a program could have now.
std::int64_t free_memory_bytes();
/// "NAME=value" of the environment's variables whose names begin so, sorted.
std::vector<std::string> environment_of(const std::vector<std::string>& prefixes);
/// "Debian GNU/Linux 12 (bookworm), Linux 6.1.0 x86_64"
std::string platform();

}  // namespace pippin::cli
