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

/// A wrong command line that is found after parsing: exit code 2, as for one found there.
class UsageError : public ValueError {
  public:
    using ValueError::ValueError;
};

/// One of the words, for options: names the nearest otherwise; completion offers them.
CLI::Validator one_of(const std::vector<std::string>& words);

/// "num_processes" gives "--num_processes,--num-processes": flags take either.
std::string flag(const std::string& name);

/// "pippin launch: unknown flag --cpuu; did you mean --cpu?"
std::string unknown_flag(const CLI::App& app, const std::string& word);

}  // namespace pippin::cli
