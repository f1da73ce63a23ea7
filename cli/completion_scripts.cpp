// What bash and zsh read to complete a pippin command line.
#include <fmt/format.h>

#include "describe.h"

namespace pippin::cli {
namespace {

std::string words(const std::vector<std::string>& list) {
    return fmt::format("{}", fmt::join(list, " "));
}

// The flags of a command as they are offered: one spelling of each.
std::vector<std::string> offered(const CommandText& c) {
    std::vector<std::string> out;
    for (const FlagText& f : c.flags)
        if (!f.positional) out.push_back(f.name());
    return out;
}

bool is_number(const FlagText& f) { return f.value == "INT" || f.value == "FLOAT"; }

// --- bash ---

// One branch for a command's flags that take a value, and one for its words.
std::string bash_command(const CommandText& c, const std::string& path) {
    std::string out = fmt::format("    '{}')\n        case $prev in\n", path);
    for (const FlagText& f : c.flags) {
        if (f.positional || f.value.empty()) continue;
        out += fmt::format("        {}) ", fmt::join(f.names, " | "));
        out += is_number(f) ? "return ;;\n"
               : f.choices.empty()
                   ? "_pippin_files; return ;;\n"
                   : fmt::format("_pippin_words \"{}\"; return ;;\n", words(f.choices));
    }
    out += "        esac\n";
    if (c.runs_program)
        out += fmt::format(
            "        [[ -n $program ]] && {{ _pippin_files; return; }}\n        [[ $cur == -* ]] "
            "|| {{ _pippin_words \"{}\"; COMPREPLY+=($(compgen -c -- \"$cur\")); "
            "_pippin_add_files; "
            "return; }}\n",
            words(example_names()));
    std::vector<std::string> more;
    for (const CommandText& s : c.subcommands)
        more.push_back(s.name);
    bool files = false;
    for (const FlagText& f : c.flags)
        if (f.positional) {
            more.insert(more.end(), f.choices.begin(), f.choices.end());
            // A model's place takes a file as well where the help says so.
            files = files || f.choices.empty() || f.help.find("file") != std::string::npos ||
                    f.help.find(".json") != std::string::npos;
        }
    out += fmt::format("        [[ $cur == -* ]] && {{ _pippin_words \"{}\"; return; }}\n",
                       words(offered(c)));
    out += fmt::format("        _pippin_words \"{}\"\n", words(more));
    if (files) out += "        _pippin_add_files\n";
    out += "        ;;\n";
    for (const CommandText& s : c.subcommands)
        out += bash_command(s, path + " " + s.name);
    return out;
}

// --- zsh ---

// Inside of '...' and of an option's [...].
std::string zsh_escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '\'')
            out += "'\\''";
        else if (c == '[' || c == ']' || c == ':' || c == '\\')
            out += std::string("\\") + c;
        else
            out += c;
    }
    return out;
}

std::string zsh_action(const FlagText& f) {
    if (is_number(f)) return " ";
    return f.choices.empty() ? "_files" : fmt::format("({})", words(f.choices));
}

std::string zsh_command(const CommandText& c, const std::string& indent) {
    std::string out = indent + "_arguments -s";
    const auto spec = [&](const std::string& text) {
        out += fmt::format(" \\\n{}    '{}'", indent, text);
    };
    for (const FlagText& f : c.flags) {
        const std::string help = zsh_escaped(f.help);
        if (f.positional)
            spec(fmt::format("*:{}:{}", zsh_escaped(f.name()),
                             f.choices.empty()
                                 ? "_files"
                                 : fmt::format("{{compadd -- {}; _files}}", words(f.choices))));
        else if (f.value.empty())
            spec(fmt::format("{}[{}]", f.name(), help));
        else
            spec(fmt::format("{}=[{}]:{}:{}", f.name(), help, zsh_escaped(f.value), zsh_action(f)));
    }
    if (c.runs_program) {
        spec(fmt::format("1:program:{{compadd -- {}; _command_names -e; _files}}",
                         words(example_names())));
        spec("*:: :_files");
    }
    if (!c.subcommands.empty()) {
        std::string names;
        for (const CommandText& s : c.subcommands)
            names +=
                fmt::format("{}{}\\:\"{}\"", names.empty() ? "" : " ", s.name, zsh_escaped(s.help));
        spec(fmt::format("1::command:(({}))", names));
    }
    return out + "\n";
}

}  // namespace

std::string bash_completion(const CommandText& pippin) {
    std::vector<std::string> names;
    for (const CommandText& c : pippin.subcommands)
        names.push_back(c.name);
    std::string out = R"(# bash completion for pippin; written by `pippin completion bash`.

_pippin_words() { COMPREPLY=($(compgen -W "$1" -- "$cur")); }
_pippin_files() {
    COMPREPLY=($(compgen -f -- "$cur"))
    compopt -o filenames 2>/dev/null
}
_pippin_add_files() {
    COMPREPLY+=($(compgen -f -- "$cur"))
    ((${#COMPREPLY[@]})) && [[ -e ${COMPREPLY[0]} ]] && compopt -o filenames 2>/dev/null
    return 0
}

_pippin() {
    local IFS=$' \t\n' cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local path="" program="" word i
    COMPREPLY=()
    # --flag=value comes as three words.
    if [[ $cur == = ]]; then cur=""; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
    # The command, and launch's program: words that are no flags and no flags' values.
    for ((i = 1; i < COMP_CWORD; ++i)); do
        word=${COMP_WORDS[i]}
        [[ $word == -* || $word == = ]] && continue
        if [[ -z $path ]]; then
            path=$word
)";
    for (const CommandText& c : pippin.subcommands) {
        for (const CommandText& s : c.subcommands)
            out += fmt::format(
                "        elif [[ $path == {0} && $word == {1} ]]; then\n            path='{0} "
                "{1}'\n",
                c.name, s.name);
        if (!c.runs_program) continue;
        std::string values;
        for (const FlagText& f : c.flags)
            if (!f.positional && !f.value.empty())
                values +=
                    fmt::format("{}{}", values.empty() ? "" : " | ", fmt::join(f.names, " | "));
        out += fmt::format(
            "        elif [[ $path == {} && -z $program ]]; then\n            case "
            "${{COMP_WORDS[i - 1]}} in\n            = | {}) ;;\n            *) program=$word ;;\n"
            "            esac\n",
            c.name, values);
    }
    out += fmt::format(
        "        fi\n    done\n    case $path in\n    '')\n        if [[ $cur == -* ]]; then "
        "_pippin_words \"{}\"; else _pippin_words \"{}\"; fi\n        ;;\n",
        words(offered(pippin)), words(names));
    for (const CommandText& c : pippin.subcommands)
        out += bash_command(c, c.name);
    return out + "    esac\n}\n\ncomplete -F _pippin pippin\n";
}

std::string zsh_completion(const CommandText& pippin) {
    std::string out =
        "#compdef pippin\n# zsh completion for pippin; written by `pippin completion zsh`.\n\n"
        "_pippin() {\n    local -a commands\n    commands=(\n";
    for (const CommandText& c : pippin.subcommands)
        out += fmt::format("        '{}:{}'\n", c.name, zsh_escaped(c.help));
    out += "    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n";
    CommandText top = pippin;
    top.subcommands.clear();
    out += zsh_command(top, "        ");
    out +=
        "        return\n    fi\n    local command=$words[2]\n    shift words\n    ((CURRENT--))\n"
        "    case $command in\n";
    for (const CommandText& c : pippin.subcommands)
        out += fmt::format("    {})\n{}        ;;\n", c.name, zsh_command(c, "        "));
    return out + "    esac\n}\n\n_pippin \"$@\"\n";
}

}  // namespace pippin::cli
