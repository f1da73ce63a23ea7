// Subcommands of `pippin`: one file each, which registers itself.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "pippin/error.h"

namespace pippin::cli {

struct Command {
    std::string name, help;
    /// Declares the flags and gives what runs once they are parsed; its result is the exit code.
    std::function<std::function<int()>(CLI::App& app)> setup;
};

/// All registered commands, by name.
std::vector<Command> commands();

/// At namespace scope of a command's file: static const Register launch{{"launch", "...", setup}};
struct Register {
    explicit Register(Command command);
};

// What goes wrong becomes a message and an exit code in main.cpp alone, which puts "pippin COMMAND:
// " before it: messages name no command.

/// A wrong command line that is found after parsing: exit code 2, as for one found there. All other
/// errors are failures of the work: exit code 1.
class UsageError : public ValueError {
  public:
    using ValueError::ValueError;
};

/// One of the words, for options: names the nearest otherwise; completion offers them.
CLI::Validator one_of(const std::vector<std::string>& words);

/// A name of `pippin models`; `or_else` says what else the flag takes.
CLI::Validator model_name(const std::string& or_else = "");
/// Text for which `fault` gives "", and not what is wrong with it.
CLI::Validator checked(std::function<std::string(const std::string&)> fault);

/// "num_processes" gives "--num_processes,--num-processes": flags take either.
std::string flag(const std::string& name);

/// "pippin config default"
std::string full_name(const CLI::App& app);

/// "unknown flag --cpuu; did you mean --cpu? (see pippin launch --help)"
std::string unknown_flag(const CLI::App& app, const std::string& word);

}  // namespace pippin::cli
