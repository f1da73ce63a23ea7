// The file that `pippin config` writes and `pippin launch` reads: YAML with Accelerate's key names
// where they mean the same, so that its single-machine files are accepted.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace pippin::cli {

struct Config {
    std::optional<bool> use_cpu, debug;
    std::optional<std::string> gpu_ids;          ///< "all" or "0", "0,1"
    std::optional<std::string> mixed_precision;  ///< "no", "fp16" or "bf16"
    std::optional<int> num_processes, num_cpu_threads_per_process;
};

/// ${XDG_CONFIG_HOME:-~/.config}/pippin/default_config.yaml
std::filesystem::path default_config_path();

/// FileError when the file is missing, is no YAML mapping or asks for several machines; ValueError
/// for a key that is not known (with the nearest right one) or a value of the wrong kind. All
/// faults are listed at once.
Config read_config(const std::filesystem::path& path);
/// The same from the file's text; `path` is for messages.
Config parse_config(const std::string& text, const std::filesystem::path& path);
/// Replaces the file in one step, making its folder. JSON where the name ends in .json.
void write_config(const std::filesystem::path& path, const Config& config);
/// The text that write_config writes.
std::string config_text(const Config& config, bool json);

/// y, yes, t, true, on, 1 and their opposites, in any case.
std::optional<bool> parse_bool(std::string text);
/// "" or what is wrong with it.
std::string check_gpu_ids(const std::string& text);

}  // namespace pippin::cli
