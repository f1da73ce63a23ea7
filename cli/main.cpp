// The `pippin` command.
#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "pippin/error.h"
#include "spelling.h"

// A command or a flag that there is not: names the nearest one.
static int unexpected(CLI::App& app, int argc, char** argv, const CLI::ExtrasError& e) {
    std::vector<std::string> names;
    for (const CLI::App* sub : app.get_subcommands({}))
        names.push_back(sub->get_name());
    const auto chosen = app.get_subcommands();
    const std::string first = argc > 1 ? argv[1] : "";
    if (chosen.empty() && first.rfind('-', 0) != 0) {
        fmt::print(stderr, "pippin: there is no command {}{} Commands: {}\n", first,
                   pippin::cli::suggestion(first, names) + ".", fmt::join(names, ", "));
        return 2;
    }
    const CLI::App& at = chosen.empty() ? app : *chosen.front();
    for (int i = chosen.empty() ? 1 : 2; i < argc; ++i) {
        const std::string word = argv[i];
        const std::string name = word.substr(0, word.find('='));
        if (word.rfind("--", 0) == 0 && !at.get_option_no_throw(name)) {
            fmt::print(stderr, "pippin {}\n", pippin::cli::unknown_flag(at, word));
            return 2;
        }
    }
    return app.exit(e) == 0 ? 0 : 2;
}

int main(int argc, char** argv) {
    CLI::App app("Trains and fine-tunes neural networks on the hardware at hand.", "pippin");
    app.set_version_flag("--version", std::string("pippin ") + PIPPIN_VERSION);
    app.require_subcommand(0, 1);
    std::function<int()> chosen;
    for (const pippin::cli::Command& command : pippin::cli::commands()) {
        CLI::App* sub = app.add_subcommand(command.name, command.help);
        std::function<int()> body = command.setup(*sub);
        sub->callback([&chosen, body] { chosen = body; });
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ExtrasError& e) {
        return unexpected(app, argc, argv, e);
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? 0 : 2;
    }
    if (!chosen) {
        fmt::print("{}", app.help());
        return 1;
    }
    try {
        const int code = chosen();
        if (std::fflush(stdout) != 0 || std::ferror(stdout))
            throw pippin::FileError("the output could not be written (is the disk full?)");
        return code;
    } catch (const std::exception& e) {
        std::fflush(stdout);
        fmt::print(stderr, "pippin: {}\n", e.what());
        return 1;
    }
}
