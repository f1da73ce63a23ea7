#include "commands.h"

#include <fmt/format.h>

#include <algorithm>

#include "pippin/models.h"
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

std::string full_name(const CLI::App& app) {
    return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

CLI::Validator one_of(const std::vector<std::string>& words) {
    return CLI::Validator(
        [words](std::string& text) -> std::string {
            if (std::find(words.begin(), words.end(), text) != words.end()) return "";
            return fmt::format("{} not in {{{}}}", text, fmt::join(words, ","));
        },
        fmt::format("{{{}}}", fmt::join(words, ",")));
}

CLI::Validator checked(std::function<std::string(const std::string&)> fault) {
    return CLI::Validator([fault](std::string& text) { return fault(text); }, "");
}

CLI::Validator model_name(const std::string& or_else) {
    return checked([or_else](const std::string& text) -> std::string {
        const std::vector<std::string> known = models::names();
        if (std::find(known.begin(), known.end(), text) != known.end()) return "";
        return fmt::format("expected a name of `pippin models`{}, got \"{}\"{}", or_else, text,
                           suggestion(text, known));
    });
}

std::string unknown_flag(const CLI::App& app, const std::string& word) {
    std::vector<std::string> flags;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames())
            flags.push_back("--" + name);
    const std::string name = word.substr(0, word.find('='));
    return fmt::format("unknown flag {}{} (see {} --help)", name, suggestion(name, flags),
                       full_name(app));
}

}  // namespace pippin::cli
