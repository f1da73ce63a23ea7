// The command line's definitions as plain data, for shell completion and the manual page, which
// thus cannot say anything else than --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace pippin::cli {

struct FlagText {
    std::vector<std::string> names;  ///< "--num_processes", "--num-processes", "-q"
    std::string help, value;         ///< value: what stands behind it ("FILE"); empty: a switch
    std::vector<std::string> choices;
    bool positional = false, required = false;
    const std::string& name() const { return names.front(); }  ///< as it is shown
};

struct CommandText {
    std::string name, help, footer;
    bool runs_program = false;  ///< launch: the rest of the line is another program's
    std::vector<FlagText> flags;
    std::vector<CommandText> subcommands;
};

/// Of `app` and all below it. Options without a group are left out, as in the help.
CommandText describe(const CLI::App& app);

/// The example programs that come with Pippin.
std::vector<std::string> example_names();

std::string bash_completion(const CommandText& pippin);
std::string zsh_completion(const CommandText& pippin);
/// pippin(1), for man.
std::string manual_page(const CommandText& pippin);

}  // namespace pippin::cli
