#include "commands.h"

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

std::string unknown_flag(const CLI::App& app, const std::string& word) {
    std::vector<std::string> flags;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames())
            flags.push_back("--" + name);
    const std::string name = word.substr(0, word.find('='));
    return app.get_name() + ": unknown flag " + name + suggestion(name, flags) + " (see pippin " +
           app.get_name() + " --help)";
}

}  // namespace pippin::cli
