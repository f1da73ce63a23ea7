// Command lines of the examples.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

#include "pippin/command_line.h"
#include "pippin/device.h"
#include "pippin/error.h"

namespace examples {

/// A wrong command line that shows only once the program runs: exit code 2, as parse() gives.
class UsageError : public pippin::ValueError {
  public:
    using ValueError::ValueError;
};

/// Parses argv; --data-dir means --data_dir. Prints the help or what is wrong, and exits, where
/// there is nothing to run.
inline void parse(CLI::App& app, int argc, char** argv) {
    if (app.get_name().empty() && argc > 0) {
        const std::string path = argv[0];
        app.name(path.substr(path.rfind('/') + 1));
    }
    std::vector<std::string> args;
    for (int i = 1; i < argc; ++i) {
        std::string arg = argv[i];
        if (arg.rfind("--", 0) == 0) {
            const auto name_end = std::min(arg.find('='), arg.size());
            std::replace(arg.begin() + 2, arg.begin() + static_cast<std::ptrdiff_t>(name_end), '-',
                         '_');
        }
        args.insert(args.begin(), arg);  // CLI11 takes them last first
    }
    try {
        app.parse(args);
    } catch (const CLI::ExtrasError&) {
        std::vector<std::string> flags;
        for (const CLI::Option* option : app.get_options())
            for (const std::string& name : option->get_lnames())
                flags.push_back("--" + name);
        const std::vector<std::string> rest = app.remaining();
        const std::string word = rest.front().substr(0, rest.front().find('='));
        std::fprintf(stderr, "%s%s: %s \"%s\"%s (see %s --help)\n", pippin::rank_label().c_str(),
                     app.get_name().c_str(), word[0] == '-' ? "there is no flag" : "did not expect",
                     word.c_str(), pippin::suggestion(word, flags).c_str(), app.get_name().c_str());
        std::exit(2);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) std::exit(app.exit(e));  // --help
        std::fprintf(stderr, "%s%s: %s (see %s --help)\n", pippin::rank_label().c_str(),
                     app.get_name().c_str(), pippin::plain_fault(e.what()).c_str(),
                     app.get_name().c_str());
        std::exit(2);
    }
}

/// For counts: a whole number from 1.
inline const CLI::Validator positive(
    [](std::string& text) -> std::string {
        const bool digits = !text.empty() && text.size() <= 18 &&
                            std::all_of(text.begin(), text.end(),
                                        [](unsigned char c) { return c >= '0' && c <= '9'; });
        return digits && std::atoll(text.c_str()) >= 1
                   ? ""
                   : "expected a whole number from 1, got " + text;
    },
    "N");

/// "cpu", "gpu" or "gpu:N".
inline const CLI::Validator device_name(
    [](std::string& text) -> std::string {
        try {
            (void)pippin::Device(text);
            return "";
        } catch (const pippin::ValueError&) {
            return "expected cpu, gpu or gpu:N, got " + text;
        }
    },
    "DEVICE");

inline void use_device(const std::string& name) {
    if (!name.empty()) pippin::set_default_device(pippin::Device(name));
}

/// main() around `body`, which may give the exit code: an error ends the program with its text (and
/// the rank, where several processes train) and exit code 1, or 2 for a UsageError.
template <class F>
int run(F body) {
    try {
        int code = 0;
        if constexpr (std::is_same_v<decltype(body()), int>)
            code = body();
        else
            body();
        if (std::fflush(stdout) != 0 || std::ferror(stdout))
            throw pippin::FileError("the output could not be written (is the disk full?)");
        return code;
    } catch (const std::exception& e) {
        std::fflush(stdout);
        std::fprintf(stderr, "%serror: %s\n", pippin::rank_label().c_str(), e.what());
        return dynamic_cast<const UsageError*>(&e) ? 2 : 1;
    }
}

}  // namespace examples
