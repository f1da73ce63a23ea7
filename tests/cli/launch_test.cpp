// The pippin command, run as a program.
#include <gtest/gtest.h>

#include <fstream>

#include "cli/process.h"

namespace pippin {
namespace {

using test::kPippin;
using test::Outcome;
using test::shell;
namespace fs = std::filesystem;

class Cli : public test::CommandTest {
  protected:
    void SetUp() override {
        CommandTest::SetUp();
        if (IsSkipped()) return;
        script("show",
               "echo \"device=$PIPPIN_DEVICE precision=$PIPPIN_MIXED_PRECISION "
               "threads=$OMP_NUM_THREADS\"\n"
               "for a in \"$@\"; do echo \"[$a]\"; done\nexit 7\n");
    }
    void script(const std::string& name, const std::string& text) {
        std::ofstream(folder / name) << "#!/bin/sh\n" << text;
        fs::permissions(folder / name, fs::perms::owner_all);
    }
    Outcome pippin(const std::string& arguments) const {
        return shell(
            "env -u PIPPIN_DEVICE -u PIPPIN_MIXED_PRECISION -u OMP_NUM_THREADS "
            "XDG_CONFIG_HOME=/nonexistent " +
            kPippin.string() + " " + arguments);
    }
};

TEST_F(Cli, NoCommandPrintsHelpAndFails) {
    const Outcome o = pippin("");
    EXPECT_EQ(o.code, 1);
    for (const char* word : {"Usage: pippin", "launch", "env"})
        EXPECT_TRUE(o.has(word)) << o.output;
    EXPECT_EQ(pippin("--help").code, 0);
    EXPECT_EQ(pippin("nonsense").code, 2);
}

TEST_F(Cli, LaunchSetsTheEnvironmentAndPassesArgumentsOn) {
    Outcome o = pippin("launch --quiet " + at("show") + " --cpu 'two words' --help -x=1");
    EXPECT_EQ(o.code, 7);
    EXPECT_EQ(o.output, "device= precision=no threads=\n[--cpu]\n[two words]\n[--help]\n[-x=1]\n");
    o = pippin("launch -q --cpu --mixed_precision bf16 --num_cpu_threads_per_process 3 " +
               at("show"));
    EXPECT_EQ(o.output, "device=cpu precision=bf16 threads=3\n");
    o = pippin("launch -q --mixed-precision=fp16 --num-cpu-threads-per-process=1 " + at("show"));
    EXPECT_EQ(o.output, "device= precision=fp16 threads=1\n");
    EXPECT_EQ(
        shell("cd " + folder.path().string() + " && " + kPippin.string() + " launch show").code, 7);
}

TEST_F(Cli, LaunchFindsTheExamples) {
    if (!fs::exists(fs::path(PIPPIN_BUILD_DIR) / "examples" / "mnist"))
        GTEST_SKIP() << "this build has no examples";
    for (const char* name : {"mnist", "examples/mnist"}) {
        const Outcome o = shell("cd / && " + kPippin.string() + " launch " + name + " --help");
        EXPECT_EQ(o.code, 0) << o.output;
        EXPECT_TRUE(o.has("--data_dir")) << o.output;
    }
}

TEST_F(Cli, LaunchSaysWhatIsWrong) {
    Outcome o = pippin("launch no_such_program");
    EXPECT_EQ(o.code, 1);
    EXPECT_TRUE(o.has("there is no program \"no_such_program\"")) << o.output;
    o = pippin("launch --frobnicate " + at("show"));
    EXPECT_EQ(o.code, 2);
    EXPECT_TRUE(o.has("unknown flag --frobnicate")) << o.output;
    o = pippin("launch");
    EXPECT_EQ(o.code, 2);
    EXPECT_TRUE(o.has("name the program")) << o.output;
    EXPECT_EQ(pippin("launch --cpu --gpu_ids 0 " + at("show")).code, 2);
    EXPECT_TRUE(pippin("launch " + folder.path().string()).has("is a folder"));
    std::ofstream(folder / "text") << "hello";
    EXPECT_TRUE(pippin("launch " + at("text")).has("is not executable"));
    o = pippin("launch --mixed_precision int4 " + at("show"));
    EXPECT_EQ(o.code, 2);
    EXPECT_TRUE(o.has("int4")) << o.output;
    EXPECT_EQ(pippin("launch --num_cpu_threads_per_process 0 " + at("show")).code, 2);
}

TEST_F(Cli, SignalsReachTheProgram) {
    script("sleeper", "trap 'echo interrupted; exit 3' TERM\necho ready > " + at("ready") +
                          "\nwhile true; do sleep 0.1; done\n");
    const Outcome o =
        shell(kPippin.string() + " launch " + at("sleeper") + " & p=$!; while [ ! -e " +
              at("ready") + " ]; do sleep 0.05; done; kill -TERM $p; wait $p");
    EXPECT_EQ(o.code, 3) << o.output;
    EXPECT_TRUE(o.has("interrupted")) << o.output;
}

TEST_F(Cli, EnvNamesTheMachine) {
    const std::string command =
        "PIPPIN_DEVICE=cpu XDG_CONFIG_HOME=" + folder.path().string() + " " + kPippin.string();
    Outcome o = shell(command + " env");
    EXPECT_EQ(o.code, 0) << o.output;
    for (const char* word :
         {"- Pippin: ", "- build: ", "oneDNN ", "- system: ", "- processor: ",
          "- instruction sets: ", "- threads: ", "- memory: ", "- default device: cpu",
          "- PIPPIN_DEVICE=cpu", "- config file: none (", "gpu:0: "})
        EXPECT_TRUE(o.has(word) || (std::string(word) == "gpu:0: " && o.has("- GPU: none: ")))
            << word << "\n"
            << o.output;
    EXPECT_FALSE(o.has("GiB, 0.0 GiB of it free")) << o.output;
    ASSERT_EQ(shell(command + " config default --mixed_precision bf16").code, 0);
    o = shell(command + " env");
    EXPECT_TRUE(o.has("default_config.yaml\n")) << o.output;
    EXPECT_TRUE(o.has("    mixed_precision: bf16\n")) << o.output;
    std::ofstream(folder / "pippin/default_config.yaml") << "mixed_presicion: bf16\n";
    EXPECT_TRUE(shell(command + " env").has("did you mean mixed_precision?"));
}

}  // namespace
}  // namespace pippin
