// pippin(1), in man's language.
#include <fmt/format.h>

#include <sstream>

#include "describe.h"

namespace pippin::cli {
namespace {

// Text, with what man's language would take as its own made harmless.
std::string text(const std::string& plain) {
    std::string out;
    bool line_start = true;
    for (const char c : plain) {
        if (line_start && (c == '.' || c == '\'')) out += "\\&";
        if (c == '\\')
            out += "\\e";
        else if (c == '-')
            out += "\\-";
        else
            out += c;
        line_start = c == '\n';
    }
    return out;
}

std::string flags(const CommandText& c) {
    std::string out;
    for (const FlagText& f : c.flags) {
        std::string names;
        if (f.positional)
            names = fmt::format("\\fI{}\\fR", text(f.name()));
        else
            for (const std::string& name : f.names)
                names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", text(name));
        if (!f.positional && !f.value.empty()) names += fmt::format(" \\fI{}\\fR", text(f.value));
        std::string help = f.help;
        if (!f.choices.empty() && f.value != "MODEL")
            help +=
                fmt::format("{}one of: {}", help.empty() ? "" : "; ", fmt::join(f.choices, ", "));
        out += fmt::format(".TP\n{}\n{}\n", names, text(help));
    }
    return out;
}

// The examples under a command's help: as they stand.
std::string footer(const CommandText& c) {
    if (c.footer.empty()) return "";
    return fmt::format(".PP\n.nf\n{}\n.fi\n", text(c.footer));
}

std::string command(const CommandText& c, const std::string& path) {
    std::string out =
        fmt::format(".SS \"{}\"\n{}\n{}{}", text(path), text(c.help), flags(c), footer(c));
    for (const CommandText& s : c.subcommands)
        out += command(s, path + " " + s.name);
    return out;
}

// "name<two spaces or more>text", a line each.
std::string table(const char* const (*rows)[2], std::size_t n) {
    std::string out;
    for (std::size_t i = 0; i < n; ++i)
        out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", text(rows[i][0]), text(rows[i][1]));
    return out;
}

constexpr const char* kExitCodes[][2] = {
    {"0", "the command did what it was asked to"},
    {"1",
     "it failed: a file that is missing, a device that is not there, a test that does not pass; "
     "the "
     "last line on standard error says why"},
    {"2", "the command line is wrong: an unknown command or flag, a bad value"},
    {"130, 143", "a program that SIGINT or SIGTERM ended in order, after saving"},
    {"others",
     "of launch: the exit code of the program it ran, or 128 and the number of the signal "
     "that ended it"},
};
constexpr const char* kVariables[][2] = {
    {"PIPPIN_DEVICE", "cpu, gpu or gpu:N; default: the first real GPU, else the processor"},
    {"OMP_NUM_THREADS", "threads of work on the processor; default: the cores it may use"},
    {"PIPPIN_MIXED_PRECISION", "no, bf16 or fp16: the default of training programs"},
    {"PIPPIN_EXPLAIN", "set: print each plan when it is compiled"},
    {"PIPPIN_STRICT_GPU", "set: an op without a GPU kernel is an error"},
    {"PIPPIN_CACHE_DIR", "where compiled GPU kernels are kept (default ~/.cache/pippin)"},
};
constexpr const char* kFiles[][2] = {
    {"${XDG_CONFIG_HOME:-~/.config}/pippin/default_config.yaml",
     "what pippin config writes and pippin launch reads"},
};

}  // namespace

std::string manual_page(const CommandText& pippin) {
    std::string out = fmt::format(
        ".\\\" Written by `pippin completion man`.\n.TH PIPPIN 1 \"\" \"pippin {}\" \"User "
        "Commands\"\n.SH NAME\npippin \\- {}\n.SH SYNOPSIS\n.B pippin\n.I "
        "command\n[\\fIflags\\fR]\n"
        ".br\n.B pippin launch\n[\\fIflags\\fR]\n.I program\n[\\fIarguments\\fR]\n.SH DESCRIPTION\n"
        "Pippin trains neural networks on the machine at hand, on its processor or its GPU. This "
        "command runs training programs with the machine's settings, says what the machine and the "
        "networks need, and draws what runs have left. Flags take - or _ between words.\n",
        PIPPIN_VERSION, text("trains and fine-tunes neural networks"));
    out += ".SH OPTIONS\n" + flags(pippin) + ".SH COMMANDS\n";
    for (const CommandText& c : pippin.subcommands)
        out += command(c, "pippin " + c.name);
    out += ".SH EXIT STATUS\n" + table(kExitCodes, std::size(kExitCodes));
    out += ".SH ENVIRONMENT\n" + table(kVariables, std::size(kVariables));
    out += ".SH FILES\n" + table(kFiles, std::size(kFiles));
    return out;
}

}  // namespace pippin::cli
