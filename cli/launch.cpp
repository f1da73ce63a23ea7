// pippin launch: runs a training program with the settings that are the machine's and not the
// code's.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "commands.h"
#include "pippin/error.h"
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

std::string names_in(const std::vector<fs::path>& folders) {
    std::vector<std::string> names;
    std::error_code error;
    for (const fs::path& folder : folders)
        for (const auto& entry : fs::directory_iterator(folder, error))
            if (is_executable(entry.path())) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    std::string out;
    for (const std::string& n : names)
        out += (out.empty() ? "" : ", ") + n;
    return out;
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
        message = fmt::format("launch: {} is a folder, not a program", name);
    else if (fs::exists(given, error))
        message = fmt::format("launch: {} is not executable", name);
    else
        message = fmt::format("launch: there is no program \"{}\"", name);
    if (const std::string known = names_in(examples); !known.empty())
        message += "; examples: " + known;
    throw FileError(message);
}

struct Args {
    bool cpu = false;
    std::string mixed_precision;
    int threads = 0;
};

std::function<int()> setup(CLI::App& app) {
    auto args = std::make_shared<Args>();
    app.add_flag("--cpu", args->cpu, "train on the processor");
    app.add_option(flag("mixed_precision"), args->mixed_precision, "no, fp16 or bf16")
        ->check(CLI::IsMember({"no", "fp16", "bf16"}));
    app.add_option(flag("num_cpu_threads_per_process"), args->threads,
                   "threads for work on the processor")
        ->check(CLI::PositiveNumber);
    app.prefix_command();  // the first word that is no flag ends pippin's part of the line
    app.footer("As in: pippin launch --cpu cv_example --data_dir images");
    return [&app, args]() -> int {
        std::vector<std::string> rest = app.remaining();
        if (rest.empty())
            throw ValueError(
                "launch: name the program to run, as in: pippin launch cv_example ...");
        if (rest.front().rfind('-', 0) == 0)
            throw ValueError(
                fmt::format("launch: unknown flag {} (see pippin launch --help)", rest.front()));
        const fs::path program = find_program(rest.front());
        if (args->cpu) set_environment("PIPPIN_DEVICE", "cpu");
        if (!args->mixed_precision.empty())
            set_environment("PIPPIN_MIXED_PRECISION", args->mixed_precision);
        if (args->threads > 0) set_environment("OMP_NUM_THREADS", std::to_string(args->threads));
        rest.erase(rest.begin());
        const std::string reason = replace_by(program, rest);
        throw FileError(fmt::format("launch: cannot run {}: {}", program.string(), reason));
    };
}

const Register command{{"launch", "run a training program", setup}};

}  // namespace
}  // namespace pippin::cli
