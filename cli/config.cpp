// pippin config: writes the file that launch reads, by asking.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "commands.h"
#include "config_file.h"
#include "pippin/device.h"
#include "pippin/error.h"
#include "prompt.h"

namespace pippin::cli {
namespace {

namespace fs = std::filesystem;

bool has_gpu() {
    try {
        (void)Device(Device::Type::GPU).description();
        return true;
    } catch (const DeviceError&) {
        return false;
    }
}

std::string check_count(const std::string& text) {
    int n = 0;
    for (const char c : text) {
        if (c < '0' || c > '9' || n > 9999) return "Please answer with a number from 1";
        n = 10 * n + (c - '0');
    }
    return n >= 1 ? "" : "Please answer with a number from 1";
}

Config ask_all(const Config& before) {
    Config c = before;
    choose("In which compute environment are you running?", {"This machine"}, 0);
    const bool gpu = has_gpu();
    if (!gpu) fmt::print("No GPU that Pippin can use was found.\n");
    const std::size_t device = choose("Which device should train?", {"the best one found", "CPU"},
                                      before.use_cpu.value_or(false) ? 1 : 0);
    c.use_cpu = device == 1;
    if (!*c.use_cpu && gpu)
        c.gpu_ids = ask("Which GPUs, by number, separated by commas, or all?",
                        before.gpu_ids.value_or("all"), check_gpu_ids);
    else
        c.gpu_ids.reset();
    const std::vector<std::string> precisions{"no", "fp16", "bf16"};
    std::size_t precision = 0;
    for (std::size_t i = 0; i < precisions.size(); ++i)
        if (before.mixed_precision == precisions[i]) precision = i;
    c.mixed_precision =
        precisions[choose("Do you wish to use mixed precision?", precisions, precision)];
    c.num_processes = std::stoi(ask("How many processes should train?",
                                    std::to_string(before.num_processes.value_or(1)), check_count));
    c.num_cpu_threads_per_process =
        std::stoi(ask("How many processor threads for each?",
                      std::to_string(before.num_cpu_threads_per_process.value_or(
                          std::max(1, num_threads() / *c.num_processes))),
                      check_count));
    c.debug = ask_yes_no("Should launch print where each setting came from?",
                         before.debug.value_or(false));
    return c;
}

void written(const fs::path& path) { fmt::print("The configuration is in {}\n", path.string()); }

std::function<int()> setup(CLI::App& app) {
    auto file = std::make_shared<std::string>();
    const auto path = [file] { return file->empty() ? default_config_path() : fs::path(*file); };
    app.add_option(flag("config_file"), *file,
                   "file to write (JSON if it ends in .json); default: "
                   "${XDG_CONFIG_HOME:-~/.config}/pippin/default_config.yaml")
        ->type_name("FILE");
    CLI::App* defaults = app.add_subcommand("default", "write a file without asking");
    CLI::App* update = app.add_subcommand("update", "bring an older file to the current form");
    auto precision = std::make_shared<std::string>("no");
    defaults->add_option(flag("mixed_precision"), *precision, "no, fp16 or bf16")
        ->check(one_of({"no", "fp16", "bf16"}));
    for (CLI::App* sub : {defaults, update})
        sub->add_option(flag("config_file"), *file, "file to write")->type_name("FILE");
    app.require_subcommand(0, 1);
    app.footer(
        "Examples:\n  pippin config\n  pippin config default --mixed_precision bf16\n  pippin "
        "config "
        "update --config_file old.yaml");
    defaults->footer("Examples:\n  pippin config default --mixed_precision bf16");
    update->footer("Examples:\n  pippin config update --config_file old.yaml");
    return [=]() -> int {
        if (defaults->parsed()) {
            std::error_code error;
            if (fs::exists(path(), error)) {
                throw FileError(fmt::format(
                    "there is a configuration already, in {}; it was left as it is (`pippin "
                    "config update` brings it to the current form)",
                    path().string()));
            }
            Config c;
            c.use_cpu = false;  // the best device found
            c.mixed_precision = *precision;
            c.num_processes = 1;
            write_config(path(), c);
        } else if (update->parsed()) {
            Config c = read_config(path());
            // What older files leave out, as it was meant.
            if (!c.use_cpu) c.use_cpu = false;
            if (!c.debug) c.debug = false;
            if (!c.mixed_precision) c.mixed_precision = "no";
            if (!c.num_processes) c.num_processes = 1;
            write_config(path(), c);
        } else {
            std::error_code error;
            Config before;
            if (fs::exists(path(), error)) before = read_config(path());
            write_config(path(), ask_all(before));
        }
        written(path());
        return 0;
    };
}

const Register command{{"config", "answer questions; launch uses the answers", setup}};

}  // namespace
}  // namespace pippin::cli
