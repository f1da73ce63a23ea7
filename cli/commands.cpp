#include "commands.h"

#include <fmt/format.h>

#include <algorithm>

#include "spelling.h"

namespace pippin::cli {

static std::vector<Command>& registered() {
    static std::vector<Command> all;
    return all;
}

Register::Register(Command command) { registered().push_back(std::move(command)); }

std::vector<Command> commands() {
    std::vector<Command> all = registered();
    std::sort(all.begin(), all.end(),
              [](const Command& a, const Command& b) { return a.name < b.name; });
    return all;
}

std::string flag(const std::string& name) {
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    return dashed == name ? "--" + name : "--" + name + ",--" + dashed;
}

CLI::Validator one_of(const std::vector<std::string>& words) {
    return CLI::Validator(
        [words](std::string& text) -> std::string {
            if (std::find(words.begin(), words.end(), text) != words.end()) return "";
            return fmt::format("{} not in {{{}}}", text, fmt::join(words, ","));
        },
        fmt::format("{{{}}}", fmt::join(words, ",")));
}

std::string unknown_flag(const CLI::App& app, const std::string& word) {
    std::vector<std::string> flags;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames())
            flags.push_back("--" + name);
    const std::string name = word.substr(0, word.find('='));
    std::string path;  // "config default"
    for (const CLI::App* a = &app; a->get_parent(); a = a->get_parent())
        path = " " + a->get_name() + path;
    return fmt::format("{}unknown flag {}{} (see pippin{} --help)",
                       path.empty() ? "" : path.substr(1) + ": ", name, suggestion(name, flags),
                       path);
}

}  // namespace pippin::cli
