// pippin launch: runs a training program with the settings that are the machine's and not the
// code's.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <thread>

#include "commands.h"
#include "config_file.h"
#include "pippin/command_line.h"
#include "pippin/device.h"
#include "pippin/error.h"
#include "processes.h"
#include "spelling.h"
#include "system.h"

namespace pippin::cli {
namespace {

namespace fs = std::filesystem;

// Folders with Pippin's own examples: of the build tree and of an installation.
std::vector<fs::path> example_folders() {
    const fs::path base = own_path().parent_path().parent_path();
    if (base.empty()) return {};
    std::vector<fs::path> out{base / "examples"};
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(base, error))
        if (entry.path().filename().string().rfind("lib", 0) == 0) {
            out.push_back(entry.path() / "pippin" / "examples");
            for (const auto& inner :
                 fs::directory_iterator(entry.path(), error))  // lib/x86_64-linux-gnu
                if (inner.is_directory(error)) out.push_back(inner.path() / "pippin" / "examples");
        }
    out.erase(std::remove_if(out.begin(), out.end(),
                             [&](const fs::path& p) { return !fs::is_directory(p, error); }),
              out.end());
    return out;
}

std::vector<fs::path> path_folders() {
    std::vector<fs::path> out;
    const char* path = std::getenv("PATH");
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');)
        if (!folder.empty()) out.emplace_back(folder);
    return out;
}

std::vector<std::string> names_in(const std::vector<fs::path>& folders) {
    std::vector<std::string> names;
    std::error_code error;
    for (const fs::path& folder : folders)
        for (const auto& entry : fs::directory_iterator(folder, error))
            if (is_executable(entry.path())) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

fs::path find_program(const std::string& name) {
    const fs::path given = name;
    std::vector<fs::path> candidates{given};
    const std::vector<fs::path> examples = example_folders();
    // "cv_example" and "examples/cv_example" both mean the example, from any folder.
    if (!given.has_parent_path() || given.parent_path() == "examples")
        for (const fs::path& folder : examples)
            candidates.push_back(folder / given.filename());
    if (!given.has_parent_path())
        for (const fs::path& folder : path_folders())
            candidates.push_back(folder / given);
    for (const fs::path& c : candidates)
        if (is_executable(c)) return c.has_parent_path() ? c : fs::path(".") / c;

    std::error_code error;
    std::string message;
    if (fs::is_directory(given, error))
        message = fmt::format("{} is a folder, not a program", name);
    else if (fs::exists(given, error))
        message = fmt::format("{} is not executable", name);
    else
        message = fmt::format("there is no program \"{}\"", name);
    const std::vector<std::string> known = names_in(examples);
    message += suggestion(given.filename().string(), known);
    if (!known.empty()) message += fmt::format("; examples: {}", fmt::join(known, ", "));
    throw FileError(message);
}

struct Args {
    bool cpu = false, quiet = false, debug = false;
    std::string mixed_precision, gpu_ids, config_file;
    int threads = 0, processes = 0;
};

// One setting and where it came from: flags beat the environment, that beats the file, and the file
// beats what Pippin assumes.
struct Setting {
    std::string name, value, source;
};

// Says what is wrong with a value, or "".
using Check = std::function<std::string(const std::string&)>;

// Far more than there are cores is a slip of the hand that would use up the machine.
std::string check_count(const std::string& text) {
    const int most = std::max(64, 4 * static_cast<int>(std::thread::hardware_concurrency()));
    const bool digits =
        !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == text.npos;
    if (digits && std::stoi(text) >= 1 && std::stoi(text) <= most) return "";
    return fmt::format("expected a number from 1 to {}, got {}", most, text);
}
// OMP_NUM_THREADS may have a number for each level of nesting.
std::string check_threads(const std::string& text) {
    std::istringstream levels(text + ",");
    for (std::string level; std::getline(levels, level, ',');)
        if (std::string fault = check_count(level); !fault.empty()) return fault;
    return "";
}
std::string check_precision(const std::string& text) {
    const std::string fault = one_of({"no", "fp16", "bf16"})(text);
    return fault.empty() ? "" : plain_fault(": " + fault).substr(2);
}
std::string check_device(const std::string& text) {
    try {
        (void)Device(text);
        return "";
    } catch (const ValueError&) {
        return fmt::format("expected cpu, gpu or gpu:N, got {}", text);
    }
}

std::string environment(const char* name) {
    const char* v = std::getenv(name);
    return v ? v : "";
}

class Settings {
  public:
    explicit Settings(const Args& args) : args_(args) {
        std::error_code error;
        if (!args.config_file.empty()) {
            path_ = args.config_file;
            file_ = read_config(path_);
        } else if (fs::exists(default_config_path(), error)) {
            path_ = default_config_path();
            file_ = read_config(path_);
        }
        device();
        const std::string p = args.mixed_precision;
        add("mixed_precision", p, "PIPPIN_MIXED_PRECISION", file_.mixed_precision.value_or(""),
            "no", check_precision);
        add("num_processes", args.processes ? std::to_string(args.processes) : "", nullptr,
            file_.num_processes ? std::to_string(*file_.num_processes) : "", "1", check_count);
        // Several processes share the threads; one decides itself.
        const int processes = std::stoi((*this)["num_processes"]);
        const char* given = std::getenv("OMP_NUM_THREADS");
        const bool shared = processes > 1 && !(given && *given);
        add("num_cpu_threads_per_process", args.threads ? std::to_string(args.threads) : "",
            "OMP_NUM_THREADS",
            file_.num_cpu_threads_per_process ? std::to_string(*file_.num_cpu_threads_per_process)
                                              : "",
            shared ? std::to_string(std::max(1, num_threads() / processes)) : "", check_threads);
    }

    const std::string& operator[](const std::string& name) const {
        for (const Setting& s : all_)
            if (s.name == name) return s.value;
        throw Error("no setting " + name);
    }
    bool debug() const { return args_.debug || file_.debug.value_or(false); }
    const fs::path& path() const { return path_; }
    std::string str() const {
        std::string out = path_.empty() ? fmt::format("no config file (looked for {})\n",
                                                      default_config_path().string())
                                        : fmt::format("config file {}\n", path_.string());
        for (const Setting& s : all_)
            out += fmt::format("  {:28} {:14} from {}\n", s.name,
                               s.value.empty() ? "(the program's)" : s.value, s.source);
        return out;
    }
    // Without a config file: what nobody has said, in a line.
    std::string assumptions() const {
        std::string out;
        if (!path_.empty()) return out;
        for (const Setting& s : all_)
            if (s.source == kAssumed && !s.value.empty() && s.name != "num_cpu_threads_per_process")
                out += fmt::format("{}{} {}", out.empty() ? "" : ", ", s.name, s.value);
        return out;
    }

  private:
    static constexpr const char* kAssumed = "what Pippin assumes";

    void add(const std::string& name, const std::string& flag_value, const char* variable,
             const std::string& file_value, const std::string& assumed, const Check& check) {
        Setting s{name, assumed, kAssumed};
        if (!flag_value.empty())
            s = {name, flag_value, "the flag"};
        else if (variable && !environment(variable).empty())
            s = {name, environment(variable), std::string("the variable ") + variable};
        else if (!file_value.empty())
            s = {name, file_value, "the config file"};
        // The program would stumble over it later, or take something else.
        if (const std::string fault = s.value.empty() ? "" : check(s.value); !fault.empty()) {
            if (s.source == "the flag") throw UsageError(fmt::format("--{}: {}", name, fault));
            if (s.source == "the config file")
                throw ValueError(
                    fmt::format("config file {}: {}: {}", path_.string(), name, fault));
            throw ValueError(fmt::format("{}: {}", s.source, fault));
        }
        all_.push_back(std::move(s));
    }
    void device() {
        std::string flag_value, file_value;
        if (args_.cpu) flag_value = "cpu";
        if (args_.cpu && !args_.gpu_ids.empty())
            throw UsageError("--cpu and --gpu_ids exclude each other");
        if (!args_.gpu_ids.empty()) flag_value = of_ids(args_.gpu_ids);
        if (file_.use_cpu.value_or(false))
            file_value = "cpu";
        else if (file_.gpu_ids && *file_.gpu_ids != "all")  // all: the best device found
            file_value = of_ids(*file_.gpu_ids);
        add("device", flag_value, "PIPPIN_DEVICE", file_value, "", check_device);
    }
    // One process uses one GPU: the first of those named.
    static std::string of_ids(const std::string& ids) {
        return ids == "all" ? "gpu" : "gpu:" + ids.substr(0, ids.find(','));
    }

    const Args& args_;
    fs::path path_;
    Config file_;
    std::vector<Setting> all_;
};

std::function<int()> setup(CLI::App& app) {
    auto args = std::make_shared<Args>();
    app.add_flag("--cpu", args->cpu, "train on the processor");
    app.add_option(flag("gpu_ids"), args->gpu_ids, "GPUs to use: all, or numbers as in 0,1")
        ->check(CLI::Validator(check_gpu_ids, "IDS"));
    app.add_option(flag("mixed_precision"), args->mixed_precision, "no, fp16 or bf16")
        ->check(CLI::IsMember({"no", "fp16", "bf16"}));
    app.add_option(flag("num_processes"), args->processes, "processes that train together")
        ->check(CLI::PositiveNumber);
    app.add_option(flag("num_cpu_threads_per_process"), args->threads,
                   "threads for work on the processor")
        ->check(CLI::PositiveNumber);
    app.add_option(flag("config_file"), args->config_file,
                   "file of `pippin config` to use instead of the default one");
    app.add_flag("--quiet,-q", args->quiet, "say nothing of the settings");
    app.add_flag("--debug", args->debug, "print each setting and where it came from");
    app.prefix_command();  // the first word that is no flag ends pippin's part of the line
    app.footer(
        "Examples:\n  pippin launch cv_example --data_dir images\n"
        "  pippin launch --cpu --mixed_precision bf16 cv_example --data_dir images\n"
        "  pippin launch --num_processes 2 ./my_program --epochs 3\n"
        "  pippin launch --debug mnist\n\n"
        "Several processes train one model, each on its share of the samples, over MPI; where one\n"
        "fails the others are stopped. The threads are shared out unless you say how many.\n"
        "Flags beat the environment, that beats the config file. The exit code is the program's.");
    return [&app, args]() -> int {
        std::vector<std::string> rest = app.remaining();
        if (rest.empty())
            throw UsageError("name the program to run, as in: pippin launch cv_example ...");
        if (rest.front().rfind('-', 0) == 0) throw UsageError(unknown_flag(app, rest.front()));
        const Settings settings(*args);
        const fs::path program = find_program(rest.front());
        const std::string assumed = settings.assumptions();
        if (!args->quiet && settings.debug()) fmt::print(stderr, "{}", settings.str());
        if (!args->quiet && !settings.debug() && !assumed.empty()) {
            fmt::print(stderr,
                       "pippin launch: no config file, assuming {} (pippin config asks, --quiet "
                       "says nothing)\n",
                       assumed);
        }
        if (!settings["device"].empty()) set_environment("PIPPIN_DEVICE", settings["device"]);
        set_environment("PIPPIN_MIXED_PRECISION", settings["mixed_precision"]);
        const int processes = std::stoi(settings["num_processes"]);
        const std::string& threads = settings["num_cpu_threads_per_process"];
        if (!threads.empty()) set_environment("OMP_NUM_THREADS", threads);
        rest.erase(rest.begin());
        std::fflush(stderr);
        if (processes > 1) return run_together(program, rest, processes);
        const std::string reason = replace_by(program, rest);
        throw FileError(fmt::format("cannot run {}: {}", program.string(), reason));
    };
}

const Register command{{"launch", "run a training program", setup}};

}  // namespace
}  // namespace pippin::cli
