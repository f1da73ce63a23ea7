#include "describe.h"

#include <algorithm>
#include <sstream>

#include "pippin/models.h"

namespace pippin::cli {
namespace {

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> out;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');)
        out.push_back(part);
    return out;
}

// A type's name: "TEXT", or with what a check allows, "TEXT:{no,fp16,bf16}".
void take_type(const std::string& type, FlagText& flag) {
    const auto open = type.find('{'), close = type.rfind('}');
    if (open != std::string::npos && close != std::string::npos && close > open)
        flag.choices = split(type.substr(open + 1, close - open - 1));
    flag.value = type.substr(0, type.find_first_of(":{"));
    if (flag.value == "TEXT" && !flag.choices.empty()) flag.value = "WORD";
    if (flag.value == "MODEL") flag.choices = models::names();
}

FlagText describe_option(const CLI::Option& option) {
    FlagText flag;
    flag.positional = option.get_positional();
    flag.required = option.get_required();
    flag.help = option.get_description();
    if (flag.positional) {
        flag.names.push_back(option.get_single_name());
    } else {
        for (const std::string& name : option.get_lnames())
            flag.names.push_back("--" + name);
        for (const std::string& name : option.get_snames())
            flag.names.push_back("-" + name);
    }
    if (option.get_expected_max() > 0 || flag.positional) {
        take_type(option.get_type_name(), flag);
        if (flag.value.empty()) flag.value = "VALUE";
    }
    return flag;
}

}  // namespace

CommandText describe(const CLI::App& app) {
    CommandText out;
    out.name = app.get_name();
    out.help = app.get_description();
    out.footer = app.get_footer();
    out.runs_program = app.get_prefix_command();
    for (const CLI::Option* option : app.get_options())
        if (!option->get_group().empty()) out.flags.push_back(describe_option(*option));
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
        if (!sub->get_group().empty()) out.subcommands.push_back(describe(*sub));
    return out;
}

std::vector<std::string> example_names() { return split(PIPPIN_EXAMPLES); }

}  // namespace pippin::cli
