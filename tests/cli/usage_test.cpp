// What the command line says to people: help, mistakes, completion, the manual page.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "cli/process.h"
#include "pippin/command_line.h"
#include "pippin/models.h"

namespace pippin {
namespace {

using test::kPippin;
using test::Outcome;
using test::shell;
namespace fs = std::filesystem;

class Usage : public test::CommandTest {
  protected:
    static Outcome pippin(const std::string& arguments) {
        return shell("env -u PIPPIN_DEVICE XDG_CONFIG_HOME=/nonexistent " + kPippin.string() + " " +
                     arguments);
    }
    // The commands of the help, and "config default" and its like.
    static std::vector<std::string> commands() {
        std::vector<std::string> out;
        const auto below = [](const std::string& path) {
            std::vector<std::string> names;
            bool inside = false;
            for (const std::string& line : pippin(path + " --help").lines()) {
                std::smatch m;
                if (inside && std::regex_search(line, m, std::regex("^  ([a-z-]+) ")))
                    names.push_back((path.empty() ? "" : path + " ") + m[1].str());
                if (line == "Subcommands:") inside = true;
                if (line.empty()) inside = false;
            }
            return names;
        };
        for (const std::string& command : below("")) {
            out.push_back(command);
            for (const std::string& inner : below(command))
                out.push_back(inner);
        }
        return out;
    }
    // "--flag" of a command's help, one spelling of each.
    static std::set<std::string> flags(const std::string& command) {
        std::set<std::string> out;
        for (const std::string& line : pippin(command + " --help").lines()) {
            std::smatch m;
            if (std::regex_search(line, m, std::regex("^  (?:-[a-z],)?(--[a-z_]+)")))
                out.insert(m[1]);
        }
        return out;
    }
};

TEST_F(Usage, EveryCommandHasHelpWithExamples) {
    const auto all = commands();
    for (const char* name : {"bench", "completion", "config", "config default", "env",
                             "estimate-memory", "launch", "models", "plot", "test"})
        EXPECT_NE(std::find(all.begin(), all.end(), name), all.end()) << name;
    for (const std::string& command : all) {
        const Outcome o = pippin(command + " --help");
        EXPECT_EQ(o.code, 0) << command;
        EXPECT_TRUE(o.has("Usage: pippin " + command)) << command << "\n" << o.output;
        const std::size_t at = o.output.find("Examples:\n  ");
        ASSERT_NE(at, std::string::npos) << command << "\n" << o.output;
        EXPECT_NE(o.output.find("pippin " + command, at), std::string::npos) << o.output;
        EXPECT_FALSE(
            o.has(fs::path(std::getenv("HOME") ? std::getenv("HOME") : "/root").string() + "/."))
            << "help is the same on every machine: " << o.output;
    }
    EXPECT_TRUE(pippin("--help").has("Exit codes:"));
}

TEST_F(Usage, MistakesNameTheRightSpelling) {
    struct Case {
        const char *arguments, *says;
        int code = 2;
    };
    for (const Case& c : std::vector<Case>{
             {"lanch x", "pippin: there is no command \"lanch\"; did you mean launch?"},
             {"nonsense", "commands: bench, completion, config, env"},
             {"--versio", "pippin: unknown flag --versio; did you mean --version? (see pippin"},
             {"config defalt",
              "pippin config: there is no command \"defalt\"; did you mean default?"},
             {"config --confg_file x", "pippin config: unknown flag --confg_file; did you mean"},
             {"config default --mixed_precison no",
              "pippin config default: unknown flag --mixed_precison; did you mean "
              "--mixed_precision?"},
             {"config default --mixed_precision fp6",
              "--mixed_precision: expected no, fp16 or bf16, got fp6; did you mean fp16?"},
             {"launch --mixed_precision=bf61 x",
              "expected no, fp16 or bf16, got bf61; did you mean"},
             {"launch --config_file none.yaml mnist", "none.yaml: cannot be read; `pippin config`",
              1},
             {"launch --num_cpu_threads_per_process 0 x", "expected a number above 0, got 0"},
             {"env foo", "pippin env: \"foo\" was not expected (see pippin env --help)"},
             {"test --foo", "pippin test: unknown flag --foo (see pippin test --help)"},
             {"models --jsn", "did you mean --json?"},
             {"models resnt50",
              "models: expected a name of `pippin models`, got \"resnt50\"; did you mean "
              "resnet50?"},
             {"models --json=3", "--json takes no value"},
             {"bench --models resnt50", "--models: expected a name of `pippin models`"},
             {"bench --json", "--json: its value is missing"},
             {"bench --modes trian",
              "--modes: expected train or eval, got trian; did you mean train?"},
             {"bench --seconds -1", "--seconds: expected a number above 0, got -1"},
             {"bench --plot a.jpg", "charts are written as .svg or .png, got a.jpg"},
             {"plot x --out a.jpg", "charts are written as .svg or .png, got a.jpg"},
             {"plot x", "pippin plot: x: there is no such file or folder", 1},
             {"test --num_processes 0", "--num_processes: expected a number above 0, got 0"},
             {"launch --num_processes 999999 x", "--num_processes: expected a number from 1 to"},
             {"launch --num_processes", "--num_processes: its value is missing"},
             {"launch --cpu --gpu_ids 0 true", "pippin launch: --cpu and --gpu_ids exclude"},
             {"launch nosuchprogram", "pippin launch: there is no program \"nosuchprogram\"", 1},
             {"config update --config_file none.yaml", "pippin config update: config file none", 1},
             {"estimate-memory resnt50", "got \"resnt50\"; did you mean resnet50?"},
             {"estimate-memory resnet18 --length 4", "--length: resnet18 takes images, not texts"},
             {"estimate-memory minilm --length 600", "minilm takes texts of 512 tokens and less"},
             {"estimate-memory none.safetensors --batch 3", "holds weights alone"},
             {"estimate-memory", "pippin estimate-memory: model is required (see pippin estim"},
             {"estimate-memory resnet18 --dtypes bfloat61", "got bfloat61; did you mean bfloat16?"},
             {"estimate-memory resnet18 --batch x",
              "--batch: expected a number from 1 to 1048576, got x"},
             {"estimate-memory none.json", "none.json", 1},
             {"completion fish", "expected bash, zsh or man, got fish"},
         }) {
        const Outcome o = pippin(c.arguments);
        EXPECT_EQ(o.code, c.code) << c.arguments << ": " << o.output;
        EXPECT_TRUE(o.has(c.says)) << c.arguments << ": " << o.output;
        EXPECT_EQ(o.output.rfind("pippin", 0), 0u) << o.output;
        EXPECT_FALSE(o.has("::")) << "an internal name: " << o.output;
        EXPECT_EQ(o.lines().size(), 1u) << "one line is enough: " << o.output;
    }
}

// What bash offers at the end of a command line.
std::vector<std::string> completed(const fs::path& script, std::string line) {
    std::vector<std::string> words{""};
    for (const char c : line) {
        if (c == ' ' || c == '=') {
            if (!words.back().empty()) words.emplace_back();
            if (c == '=') {
                words.back() = "=";
                words.emplace_back();
            }
        } else {
            words.back() += c;
        }
    }
    std::string array;
    for (const std::string& word : words)
        array += " '" + word + "'";
    const Outcome o = shell("bash --norc -c 'source " + script.string() + "; COMP_WORDS=(" +
                            std::regex_replace(array, std::regex("'"), "\"") +
                            "); COMP_CWORD=" + std::to_string(words.size() - 1) +
                            "; compopt() { :; }; _pippin; printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
    EXPECT_EQ(o.code, 0) << o.output;
    std::vector<std::string> out = o.lines();
    std::erase(out, "");
    std::sort(out.begin(), out.end());
    return out;
}

TEST_F(Usage, BashCompletesCommandsFlagsAndModels) {
    if (shell("command -v bash").code != 0) GTEST_SKIP() << "there is no bash";
    const fs::path script = folder / "pippin.bash";
    std::ofstream(script) << pippin("completion bash").output;
    using Words = std::vector<std::string>;
    EXPECT_EQ(completed(script, "pippin la"), Words{"launch"});
    EXPECT_EQ(completed(script, "pippin launch --mixed"), Words{"--mixed_precision"});
    EXPECT_EQ(completed(script, "pippin launch --mixed_precision "), (Words{"bf16", "fp16", "no"}));
    EXPECT_EQ(completed(script, "pippin launch --mixed_precision=b"), Words{"bf16"});
    EXPECT_EQ(completed(script, "pippin launch --mixed-precision bf"), Words{"bf16"});
    EXPECT_EQ(completed(script, "pippin launch --mixed_precision bf16 complete_c"),
              Words{"complete_cv_example"});
    EXPECT_EQ(completed(script, "pippin models resnet5"), (Words{"resnet50", "resnet50d"}));
    EXPECT_EQ(completed(script, "pippin bench --models vit_l"), Words{"vit_l_16"});
    EXPECT_EQ(completed(script, "pippin estimate-memory efficientnet_b7"),
              Words{"efficientnet_b7"});
    EXPECT_EQ(completed(script, "pippin config def"), Words{"default"});
    EXPECT_EQ(completed(script, "pippin config default --mixed_precision f"), Words{"fp16"});
    EXPECT_EQ(completed(script, "pippin completion z"), Words{"zsh"});
    EXPECT_EQ(completed(script, "pippin plot " + folder.path().string() + "/pip"),
              Words{script.string()});
    EXPECT_EQ(completed(script, "pippin launch mnist " + folder.path().string() + "/pip"),
              Words{script.string()});
    // All commands, and all flags of each: what --help lists.
    const auto offered = completed(script, "pippin ");
    for (const std::string& command : commands()) {
        if (command.find(' ') == std::string::npos) {
            EXPECT_NE(std::find(offered.begin(), offered.end(), command), offered.end()) << command;
        }
        const auto have = completed(script, "pippin " + command + " --");
        EXPECT_EQ(std::set<std::string>(have.begin(), have.end()), flags(command)) << command;
    }
}

TEST_F(Usage, ZshTakesItsCompletion) {
    const std::string script = pippin("completion zsh").output;
    EXPECT_EQ(script.rfind("#compdef pippin\n", 0), 0u);
    for (const std::string& command : commands())
        for (const std::string& flag : flags(command))
            EXPECT_TRUE(command.find(' ') != std::string::npos ||
                        script.find("'" + flag) != std::string::npos)
                << command << " " << flag;
    if (shell("command -v zsh").code != 0) GTEST_SKIP() << "there is no zsh";
    std::ofstream(folder / "_pippin") << script;
    EXPECT_EQ(shell("zsh -fn " + (folder / "_pippin").string()).output, "");
}

TEST_F(Usage, TheManualPageHasEveryCommandAndFlag) {
    const std::string page =
        std::regex_replace(pippin("completion man").output, std::regex("\\\\-"), "-");
    for (const char* section : {".SH NAME", ".SH SYNOPSIS", ".SH COMMANDS", ".SH EXIT STATUS",
                                ".SH ENVIRONMENT", ".SH FILES"})
        EXPECT_NE(page.find(section), std::string::npos) << section;
    for (const std::string& command : commands()) {
        const auto at = page.find(".SS \"pippin " + command + "\"");
        ASSERT_NE(at, std::string::npos) << command;
        const std::string part = page.substr(at, page.find(".S", at + 3) - at);
        for (const std::string& flag : flags(command))
            EXPECT_NE(part.find("\\fB" + flag + "\\fR"), std::string::npos) << command << flag;
    }
    std::ofstream(folder / "pippin.1") << pippin("completion man").output;
    if (shell("command -v groff").code != 0) GTEST_SKIP() << "there is no groff";
    const Outcome o =
        shell("groff -man -ww -Tutf8 " + (folder / "pippin.1").string() + " > /dev/null");
    EXPECT_EQ(o.output, "");
}

TEST(CommandLine, PlainFaults) {
    EXPECT_EQ(plain_fault("--mode: tain not in {train,eval}"),
              "--mode: expected train or eval, got tain; did you mean train?");
    EXPECT_EQ(plain_fault("--s: Value -1 not in range 0.000000 to 17976931348623157000000000.0"),
              "--s: expected a number above 0, got -1");
    EXPECT_EQ(plain_fault("--n: Value 0 not in range 1 to 9"),
              "--n: expected a number from 1 to 9, got 0");
    EXPECT_EQ(plain_fault("Could not convert: --seed = x"), "--seed: cannot take \"x\"");
    EXPECT_EQ(plain_fault("model is required"), "model is required");
    EXPECT_EQ(plain_fault("--n: 1 required INT:POSITIVE missing"), "--n: its value is missing");
    EXPECT_EQ(plain_fault("json was given a disallowed flag override"), "--json takes no value");
    EXPECT_EQ(suggestion("resnet5", models::names()), "; did you mean resnet50?");
}

}  // namespace
}  // namespace pippin
