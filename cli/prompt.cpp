#include "prompt.h"

#include <fmt/format.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "config_file.h"
#include "pippin/error.h"

namespace pippin::cli {
namespace {

std::string read_line() {
    std::fflush(stdout);
    std::string line;
    if (!std::getline(std::cin, line))
        throw ValueError("the input ended before all questions were answered; nothing was written");
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())))
        line.pop_back();
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.front())))
        line.erase(line.begin());
    return line;
}

// Keys one by one and without echo, while it lives.
class RawKeys {
  public:
    RawKeys() {
        tcgetattr(STDIN_FILENO, &before_);
        termios raw = before_;
        raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    }
    ~RawKeys() { tcsetattr(STDIN_FILENO, TCSADRAIN, &before_); }
    RawKeys(const RawKeys&) = delete;
    RawKeys& operator=(const RawKeys&) = delete;

    enum class Key { Up, Down, Enter, Other, End };
    Key next(char& typed) const {
        typed = 0;
        char c = 0;
        if (::read(STDIN_FILENO, &c, 1) != 1 || c == 4) return Key::End;
        if (c == '\n' || c == '\r') return Key::Enter;
        if (c == 'k') return Key::Up;
        if (c == 'j') return Key::Down;
        if (c == '\x1b') {  // ESC [ A, or ESC O A
            char middle = 0, last = 0;
            if (::read(STDIN_FILENO, &middle, 1) != 1 || ::read(STDIN_FILENO, &last, 1) != 1)
                return Key::End;
            if (last == 'A') return Key::Up;
            if (last == 'B') return Key::Down;
            return Key::Other;
        }
        typed = c;
        return Key::Other;
    }

  private:
    termios before_{};
};

std::size_t choose_on_terminal(const std::string& question, const std::vector<std::string>& options,
                               std::size_t at) {
    fmt::print("{}\n", question);
    const RawKeys keys;
    for (bool first = true;; first = false) {
        if (!first) fmt::print("\x1b[{}A", options.size());
        for (std::size_t i = 0; i < options.size(); ++i)
            fmt::print("\x1b[2K{} {}. {}\x1b[0m\n", i == at ? "\x1b[7m >" : "  ", i + 1,
                       options[i]);
        std::fflush(stdout);
        char typed = 0;
        switch (keys.next(typed)) {
            case RawKeys::Key::Up:
                at = (at + options.size() - 1) % options.size();
                break;
            case RawKeys::Key::Down:
                at = (at + 1) % options.size();
                break;
            case RawKeys::Key::Enter:
                return at;
            case RawKeys::Key::End:
                throw ValueError("stopped; nothing was written");
            case RawKeys::Key::Other:
                if (typed >= '1' && static_cast<std::size_t>(typed - '1') < options.size())
                    at = static_cast<std::size_t>(typed - '1');
        }
    }
}

}  // namespace

std::size_t choose(const std::string& question, const std::vector<std::string>& options,
                   std::size_t preselected) {
    if (::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO))
        return choose_on_terminal(question, options, preselected);
    fmt::print("{}\n", question);
    for (std::size_t i = 0; i < options.size(); ++i)
        fmt::print("  {}. {}\n", i + 1, options[i]);
    for (;;) {
        fmt::print("[{}]: ", options[preselected]);
        const std::string line = read_line();
        if (line.empty()) return preselected;
        for (std::size_t i = 0; i < options.size(); ++i)
            if (line == std::to_string(i + 1) || line == options[i]) return i;
        fmt::print("Please answer with a number from 1 to {}, or with the word.\n", options.size());
    }
}

bool ask_yes_no(const std::string& question, bool preselected) {
    for (;;) {
        fmt::print("{} [{}]: ", question, preselected ? "yes" : "no");
        const std::string line = read_line();
        if (line.empty()) return preselected;
        if (const auto answer = parse_bool(line)) return *answer;
        fmt::print("Please answer yes or no.\n");
    }
}

std::string ask(const std::string& question, const std::string& preselected,
                const std::function<std::string(const std::string&)>& check) {
    for (;;) {
        fmt::print("{} [{}]: ", question, preselected);
        std::string line = read_line();
        if (line.empty()) line = preselected;
        const std::string fault = check(line);
        if (fault.empty()) return line;
        fmt::print("{}.\n", fault);
    }
}

}  // namespace pippin::cli
