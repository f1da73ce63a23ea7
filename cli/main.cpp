// The `pippin` command.
#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "pippin/error.h"
#include "spelling.h"

namespace {

using pippin::cli::full_name;

constexpr const char* kFooter =
    "pippin COMMAND --help has the flags and examples of each; man pippin has all of them.\n"
    "Exit codes: 0 done; 1 failed, and standard error says why; 2 the command line is wrong;\n"
    "launch gives the exit code of the program it ran.";

const CLI::App& innermost(const CLI::App& app) {
    const auto chosen = app.get_subcommands();
    return chosen.empty() ? app : innermost(*chosen.front());
}

int complain(const std::string& what) {
    fmt::print(stderr, "{}\n", what);
    return 2;
}

// A command, a flag or a word that there is not: names the nearest one.
int unexpected(const CLI::App& app) {
    const CLI::App& at = innermost(app);
    std::vector<std::string> rest = app.remaining(true);
    for (const std::string& word : rest)
        if (word.rfind("--", 0) == 0 && word.size() > 2)
            return complain(
                fmt::format("{}: {}", full_name(at), pippin::cli::unknown_flag(at, word)));
    const std::string word = rest.empty() ? "" : rest.front();
    std::vector<std::string> names;
    for (const CLI::App* sub : at.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(sub->get_name());
    const std::string name = full_name(at);
    if (names.empty() || word.rfind('-', 0) == 0)
        return complain(
            fmt::format("{}: \"{}\" was not expected (see {} --help)", name, word, name));
    std::string hint = pippin::cli::suggestion(word, names);
    if (hint.empty()) hint = fmt::format("; commands: {}", fmt::join(names, ", "));
    return complain(fmt::format("{}: there is no command \"{}\"{}", name, word, hint));
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Trains and fine-tunes neural networks on the hardware at hand.", "pippin");
    app.set_version_flag("--version", std::string("pippin ") + PIPPIN_VERSION, "print the version");
    app.require_subcommand(0, 1);
    app.option_defaults()->disable_flag_override();  // of all commands: --quiet=3 means nothing
    app.footer(kFooter);
    std::function<int()> chosen;
    for (const pippin::cli::Command& command : pippin::cli::commands()) {
        CLI::App* sub = app.add_subcommand(command.name, command.help);
        std::function<int()> body = command.setup(*sub);
        sub->callback([&chosen, body] { chosen = body; });
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ExtrasError&) {
        return unexpected(app);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // help, version
        const std::string name = full_name(innermost(app));
        return complain(
            fmt::format("{}: {} (see {} --help)", name, pippin::plain_fault(e.what()), name));
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
        const bool usage = dynamic_cast<const pippin::cli::UsageError*>(&e) != nullptr;
        fmt::print(stderr, "{}{}: {}\n", pippin::rank_label(), full_name(innermost(app)), e.what());
        return usage ? 2 : 1;
    }
}
