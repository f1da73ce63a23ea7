#include "config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/atomic_file.h"
#include "pippin/error.h"
#include "spelling.h"

namespace pippin::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 1 << 20;

std::string lower(std::string text) {
    for (char& c : text)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

std::optional<int> parse_count(const std::string& text) {
    if (text.empty() || text.size() > 6) return std::nullopt;
    for (const char c : text)
        if (!std::isdigit(static_cast<unsigned char>(c))) return std::nullopt;
    const int n = std::atoi(text.c_str());
    return n >= 1 ? std::optional<int>(n) : std::nullopt;
}

// A key of the file: takes its value in, and says what is wrong with it, or "".
struct Key {
    const char* name;
    std::function<std::string(Config&, const std::string&)> read;
    bool nested = false;  ///< takes a list or a mapping, too; `read` gets kNested for one
};
constexpr const char* kNested = "a list of settings";

std::function<std::string(Config&, const std::string&)> flag_of(
    std::optional<bool> Config::*field) {
    return [field](Config& c, const std::string& v) -> std::string {
        const auto b = parse_bool(v);
        if (!b) return "expected yes or no";
        c.*field = *b;
        return "";
    };
}
std::function<std::string(Config&, const std::string&)> count_of(
    std::optional<int> Config::*field) {
    return [field](Config& c, const std::string& v) -> std::string {
        const auto n = parse_count(v);
        if (!n) return "expected a number from 1";
        c.*field = *n;
        return "";
    };
}
// Of Accelerate's files: has only one meaning on one machine.
std::function<std::string(Config&, const std::string&)> only(std::vector<std::string> values,
                                                             const char* why) {
    return [values = std::move(values), why](Config&, const std::string& v) -> std::string {
        if (std::find(values.begin(), values.end(), lower(v)) != values.end()) return "";
        return why;
    };
}
std::string ignored(Config&, const std::string&) { return ""; }
// Settings of ways to train that Pippin does not have: Accelerate writes them empty.
std::function<std::string(Config&, const std::string&)> must_be_empty(const char* what) {
    return [what](Config&, const std::string& v) -> std::string {
        return v.empty() ? "" : fmt::format("Pippin has no {}: leave this out", what);
    };
}

const std::vector<Key>& keys() {
    static const std::vector<Key> all{
        {"use_cpu", flag_of(&Config::use_cpu)},
        {"debug", flag_of(&Config::debug)},
        {"gpu_ids",
         [](Config& c, const std::string& v) {
             std::string fault = check_gpu_ids(v);
             if (fault.empty()) c.gpu_ids = v;
             return fault;
         }},
        {"mixed_precision",
         [](Config& c, const std::string& v) -> std::string {
             const std::string p = lower(v) == "false" ? "no" : lower(v);  // YAML's bare no
             if (p != "no" && p != "fp16" && p != "bf16") return "expected no, fp16 or bf16";
             c.mixed_precision = p;
             return "";
         }},
        {"num_processes", count_of(&Config::num_processes)},
        {"num_cpu_threads_per_process", count_of(&Config::num_cpu_threads_per_process)},
        {"compute_environment",
         only({"local_machine"}, "expected LOCAL_MACHINE: Pippin runs on one machine")},
        {"distributed_type",
         only({"no", "false", "multi_cpu", "multi_gpu", "mps"},
              "expected NO, MULTI_CPU or MULTI_GPU: Pippin runs on one machine")},
        {"num_machines", only({"1"}, "expected 1: Pippin runs on one machine")},
        {"machine_rank", only({"0"}, "expected 0: Pippin runs on one machine")},
        {"downcast_bf16", only({"no", "false"}, "expected 'no': that is for TPUs")},
        {"enable_cpu_affinity", ignored},
        {"main_training_function", ignored},
        {"main_process_ip", ignored},
        {"main_process_port", ignored},
        {"rdzv_backend", ignored},
        {"same_network", ignored},
        {"tpu_env", ignored, true},
        {"tpu_use_cluster", ignored},
        {"tpu_use_sudo", ignored},
        {"tpu_name", ignored},
        {"tpu_zone", ignored},
        {"tpu_vm", ignored, true},
        {"commands", ignored, true},
        {"command_file", ignored},
        // Every step is compiled here anyway.
        {"dynamo_backend", ignored},
        {"dynamo_config", ignored, true},
        {"mpirun_config", ignored, true},
        {"ipex_config", ignored, true},
        {"deepspeed_config", must_be_empty("DeepSpeed"), true},
        {"fsdp_config", must_be_empty("sharded parameters"), true},
        {"megatron_lm_config", must_be_empty("Megatron-LM"), true},
        {"parallelism_config", must_be_empty("parallelism but of data"), true},
        {"fp8_config", must_be_empty("fp8"), true},
        // Before there was mixed_precision; which wins, wherever it stands.
        {"fp16",
         [](Config& c, const std::string& v) -> std::string {
             const auto b = parse_bool(v);
             if (!b) return "expected yes or no";
             if (*b && !c.mixed_precision) c.mixed_precision = "fp16";
             return "";
         }},
    };
    return all;
}

}  // namespace

std::optional<bool> parse_bool(std::string text) {
    text = lower(std::move(text));
    for (const char* yes : {"y", "yes", "t", "true", "on", "1"})
        if (text == yes) return true;
    for (const char* no : {"n", "no", "f", "false", "off", "0"})
        if (text == no) return false;
    return std::nullopt;
}

std::string check_gpu_ids(const std::string& text) {
    if (text == "all") return "";
    const std::string wrong = "expected all, or numbers as in 0,1";
    std::istringstream parts(text);
    std::vector<int> seen;
    if (text.empty() || text.back() == ',') return wrong;
    for (std::string part; std::getline(parts, part, ',');) {
        if (part.empty() || part.size() > 3 ||
            !std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); }))
            return wrong;
        if (std::find(seen.begin(), seen.end(), std::atoi(part.c_str())) != seen.end())
            return part + " is there twice";
        seen.push_back(std::atoi(part.c_str()));
    }
    return "";
}

fs::path default_config_path() {
    const char* xdg = std::getenv("XDG_CONFIG_HOME");
    if (xdg && *xdg) return fs::path(xdg) / "pippin" / "default_config.yaml";
    const char* home = std::getenv("HOME");
    return fs::path(home && *home ? home : ".") / ".config" / "pippin" / "default_config.yaml";
}

Config read_config(const fs::path& path) {
    const auto fail = [&](const std::string& what) {
        throw FileError(fmt::format("config file {}: {}", path.string(), what));
    };
    std::error_code error;
    if (fs::is_directory(path, error)) fail("is a folder");
    std::ifstream in(path, std::ios::binary);
    if (!in) fail("cannot be read; `pippin config` makes one");
    std::string text(kMostBytes + 1, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostBytes) fail("is larger than a config file can be");
    return parse_config(text, path);
}

Config parse_config(const std::string& text, const fs::path& path) {
    const auto fail = [&](const std::string& what) {
        throw FileError(fmt::format("config file {}: {}", path.string(), what));
    };
    YAML::Node root;
    try {
        root = YAML::Load(text);
    } catch (const YAML::Exception& e) {
        fail(fmt::format("line {}: {}", e.mark.line + 1, e.msg));
    }
    if (root.IsNull()) return {};
    if (!root.IsMap()) fail("is no list of \"name: value\" lines");
    Config config;
    std::vector<std::string> names, faults;
    for (const Key& k : keys())
        names.emplace_back(k.name);
    for (const auto& entry : root) {
        if (!entry.first.IsScalar()) {
            faults.push_back("a key that is no word");
            continue;
        }
        const std::string name = entry.first.Scalar();
        const auto key = std::find_if(keys().begin(), keys().end(),
                                      [&](const Key& k) { return name == k.name; });
        if (key == keys().end()) {
            faults.push_back(fmt::format("unknown key {}{}", name, suggestion(name, names)));
            continue;
        }
        if (entry.second.IsNull()) continue;
        const bool nested = !entry.second.IsScalar() && entry.second.size() > 0;
        if (nested && !key->nested) {
            faults.push_back(fmt::format("{}: expected one value", name));
            continue;
        }
        const std::string value = nested                    ? kNested
                                  : entry.second.IsScalar() ? entry.second.Scalar()
                                                            : "";
        if (const std::string fault = key->read(config, value); !fault.empty())
            faults.push_back(fmt::format("{}: {}, got {}", name, fault, value));
    }
    if (faults.empty()) return config;
    std::string message = fmt::format("config file {}:", path.string());
    for (const std::string& fault : faults)
        message += "\n    " + fault;
    throw ValueError(message);
}

std::string config_text(const Config& c, bool json) {
    nlohmann::json values;
    values["compute_environment"] = "LOCAL_MACHINE";
    values["num_machines"] = 1;
    values["machine_rank"] = 0;
    const bool several = c.num_processes.value_or(1) > 1;
    const bool cpu = c.use_cpu.value_or(false);
    values["distributed_type"] = !several ? "NO" : cpu ? "MULTI_CPU" : "MULTI_GPU";
    if (c.use_cpu) values["use_cpu"] = *c.use_cpu;
    if (c.debug) values["debug"] = *c.debug;
    if (c.gpu_ids) values["gpu_ids"] = *c.gpu_ids;
    if (c.mixed_precision) values["mixed_precision"] = *c.mixed_precision;
    if (c.num_processes) values["num_processes"] = *c.num_processes;
    if (c.num_cpu_threads_per_process)
        values["num_cpu_threads_per_process"] = *c.num_cpu_threads_per_process;
    if (json) return values.dump(2) + "\n";
    std::string text;
    for (const auto& [name, value] : values.items()) {
        std::string v = value.is_string() ? value.get<std::string>() : value.dump();
        // Words that YAML would read as something else than text.
        if (value.is_string() && (parse_bool(v) || std::isdigit(static_cast<unsigned char>(v[0]))))
            v = "'" + v + "'";
        text += fmt::format("{}: {}\n", name, v);
    }
    return text;
}

void write_config(const fs::path& path, const Config& config) {
    std::error_code error;
    if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
    if (error)
        throw FileError(fmt::format("config file {}: cannot make its folder: {}", path.string(),
                                    error.message()));
    const std::string text = config_text(config, path.extension() == ".json");
    io::AtomicFile file(path);
    file.write(text.data(), text.size());
    file.commit();
}

}  // namespace pippin::cli
