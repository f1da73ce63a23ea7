// pippin completion: prints what shells complete pippin's command lines with, and the manual page.
#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "describe.h"

namespace pippin::cli {
namespace {

std::function<int()> setup(CLI::App& app) {
    auto what = std::make_shared<std::string>();
    app.add_option("shell", *what, "bash or zsh; man: the manual page")
        ->required()
        ->check(one_of({"bash", "zsh", "man"}));
    app.footer(
        "Examples:\n  source <(pippin completion bash)\n  pippin completion zsh > "
        "~/.zfunc/_pippin\n  pippin completion man | man -l -\n`cmake --install` puts all three "
        "where shells and man look.");
    return [&app, what]() -> int {
        const CommandText pippin = describe(*app.get_parent());
        fmt::print("{}", *what == "bash"  ? bash_completion(pippin)
                         : *what == "zsh" ? zsh_completion(pippin)
                                          : manual_page(pippin));
        return 0;
    };
}

const Register command{{"completion", "print completion for a shell, or the manual page", setup}};

}  // namespace
}  // namespace pippin::cli
