// The `pippin` command.
#include <fmt/format.h>

#include <memory>

#include "commands.h"

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
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? 0 : 2;
    }
    if (!chosen) {
        fmt::print("{}", app.help());
        return 1;
    }
    try {
        return chosen();
    } catch (const std::exception& e) {
        std::fflush(stdout);
        fmt::print(stderr, "pippin: {}\n", e.what());
        return 1;
    }
}
