// pippin config, and how launch uses its file.
#include <gtest/gtest.h>

#include <fstream>

#include "cli/process.h"

namespace pippin {
namespace {

using test::kPippin;
using test::Outcome;
using test::shell;
namespace fs = std::filesystem;

class Config : public test::CommandTest {
  protected:
    void SetUp() override {
        CommandTest::SetUp();
        if (IsSkipped()) return;
        std::ofstream(folder / "show")
            << "#!/bin/sh\necho \"device=$PIPPIN_DEVICE precision=$PIPPIN_MIXED_PRECISION "
               "threads=$OMP_NUM_THREADS\"\n";
        fs::permissions(folder / "show", fs::perms::owner_all);
    }
    /// With a home of its own; `before` may set variables or pipe answers in.
    Outcome pippin(const std::string& arguments, const std::string& before = "") const {
        return shell(before +
                     "env -u PIPPIN_DEVICE -u PIPPIN_MIXED_PRECISION -u OMP_NUM_THREADS "
                     "XDG_CONFIG_HOME=" +
                     at("xdg") + " " + kPippin.string() + " " + arguments);
    }
    std::string text(const std::string& name) const {
        std::ifstream in(folder / name);
        return {(std::istreambuf_iterator<char>(in)), {}};
    }
    void file(const std::string& name, const std::string& content) const {
        std::ofstream(folder / name) << content;
    }
};

const char* const kDefault = "xdg/pippin/default_config.yaml";

TEST_F(Config, AnswersAreWrittenAndUsed) {
    // environment, device, precision (twice wrong), processes (wrong), threads, debug (wrong)
    const Outcome o =
        pippin("config", "printf '\\n2\\nfp8\\n7\\nbf16\\nmany\\n1\\n3\\nperhaps\\nno\\n' | ");
    ASSERT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(o.has("Please answer with a number from 1 to 3")) << o.output;
    EXPECT_TRUE(o.has("Please answer yes or no")) << o.output;
    EXPECT_EQ(text(kDefault),
              "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: 'NO'\n"
              "machine_rank: 0\nmixed_precision: bf16\nnum_cpu_threads_per_process: 3\n"
              "num_machines: 1\nnum_processes: 1\nuse_cpu: true\n");
    EXPECT_EQ(pippin("launch " + at("show")).output, "device=cpu precision=bf16 threads=3\n");
}

TEST_F(Config, InputThatEndsWritesNothing) {
    const Outcome o = pippin("config", "printf '\\n2\\n' | ");
    EXPECT_EQ(o.code, 1);
    EXPECT_TRUE(o.has("nothing was written")) << o.output;
    EXPECT_FALSE(fs::exists(folder / kDefault));
    // The former file stays where there is one; nothing at all is an end, too.
    file("c.yaml", "num_processes: 1\n");
    for (const char* answers : {"", "\\n1\\nsix\\n"}) {
        const Outcome again = pippin("config --config_file " + at("c.yaml"),
                                     std::string("printf '") + answers + "' | ");
        EXPECT_EQ(again.code, 1);
        EXPECT_TRUE(again.has("pippin config: the input ended before")) << again.output;
        EXPECT_EQ(text("c.yaml"), "num_processes: 1\n");
    }
}

TEST_F(Config, ArrowKeysOnATerminal) {
    if (shell("command -v script").code != 0) GTEST_SKIP() << "there is no script command";
    // Enter; down, Enter (CPU); up, Enter (the last precision); three lines
    const Outcome o = shell(
        "(sleep 0.5; printf '\\r'; sleep 0.3; printf '\\033[B\\r'; sleep 0.3; printf '\\033[A\\r'; "
        "sleep 0.3; printf '\\r\\r\\r') | XDG_CONFIG_HOME=" +
        at("xdg") + " script -qec '" + kPippin.string() + " config' /dev/null");
    ASSERT_EQ(o.code, 0) << o.output;
    const std::string written = text(kDefault);
    EXPECT_NE(written.find("use_cpu: true"), std::string::npos) << written << o.output;
    EXPECT_NE(written.find("mixed_precision: bf16"), std::string::npos) << written;
}

TEST_F(Config, DefaultAndUpdate) {
    Outcome o = pippin("config default --mixed_precision fp16");
    ASSERT_EQ(o.code, 0) << o.output;
    EXPECT_NE(text(kDefault).find("mixed_precision: fp16"), std::string::npos);
    EXPECT_NE(text(kDefault).find("use_cpu: false"), std::string::npos);
    o = pippin("config default");
    EXPECT_EQ(o.code, 1);
    EXPECT_TRUE(o.has("left as it is")) << o.output;
    file("old.yaml", "use_cpu: yes\nmixed_precision: no\n");
    EXPECT_EQ(pippin("config update --config_file " + at("old.yaml")).code, 0);
    EXPECT_NE(text("old.yaml").find("mixed_precision: 'no'"), std::string::npos)
        << text("old.yaml");
    EXPECT_EQ(pippin("config default --config_file " + at("c.json")).code, 0);
    EXPECT_EQ(text("c.json").front(), '{');
    EXPECT_EQ(pippin("launch --config_file " + at("c.json") + " " + at("show")).code, 0);
}

// A file that Accelerate wrote for one machine.
TEST_F(Config, AcceleratesFileIsAccepted) {
    file("accelerate.yaml",
         "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: 'NO'\n"
         "downcast_bf16: 'no'\nenable_cpu_affinity: false\ngpu_ids: all\nmachine_rank: 0\n"
         "main_training_function: main\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 1\n"
         "rdzv_backend: static\nsame_network: true\ntpu_env: []\ntpu_use_cluster: false\n"
         "tpu_use_sudo: false\nuse_cpu: true\n");
    const Outcome o = pippin("launch --config_file " + at("accelerate.yaml") + " " + at("show"));
    EXPECT_EQ(o.output, "device=cpu precision=bf16 threads=\n");
}

// As Accelerate wrote them before there was mixed_precision.
TEST_F(Config, OldFilesAreUpdated) {
    file("old.yaml",
         "compute_environment: LOCAL_MACHINE\ndeepspeed_config: {}\ndistributed_type: 'NO'\n"
         "dynamo_backend: 'NO'\nfp16: true\nfsdp_config: {}\nmachine_rank: 0\n"
         "main_process_ip: null\nmain_process_port: null\nmain_training_function: main\n"
         "num_machines: 1\nnum_processes: 1\ntpu_name: null\n");
    const Outcome o = pippin("config update --config_file " + at("old.yaml"));
    ASSERT_EQ(o.code, 0) << o.output;
    EXPECT_EQ(text("old.yaml"),
              "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: 'NO'\n"
              "machine_rank: 0\nmixed_precision: fp16\nnum_machines: 1\nnum_processes: 1\n"
              "use_cpu: false\n");
    file("old.yaml", "fp16: true\nmixed_precision: bf16\ndynamo_config:\n  dynamo_mode: x\n");
    ASSERT_EQ(pippin("config update --config_file " + at("old.yaml")).code, 0);
    EXPECT_NE(text("old.yaml").find("mixed_precision: bf16"), std::string::npos);
    file("old.json", "{\"fp16\": false, \"distributed_type\": \"NO\"}\n");
    ASSERT_EQ(pippin("config update --config_file " + at("old.json")).code, 0);
    EXPECT_NE(text("old.json").find("\"mixed_precision\": \"no\""), std::string::npos);
    const std::string before = "deepspeed_config:\n  zero_stage: 2\nnum_processes:\n  a: 1\n";
    file("old.yaml", before);
    const Outcome bad = pippin("config update --config_file " + at("old.yaml"));
    EXPECT_EQ(bad.code, 1);
    EXPECT_TRUE(bad.has("deepspeed_config: Pippin has no DeepSpeed")) << bad.output;
    EXPECT_TRUE(bad.has("num_processes: expected one value")) << bad.output;
    EXPECT_EQ(text("old.yaml"), before);
}

TEST_F(Config, FaultsAreAllListed) {
    file("bad.yaml",
         "mixed_precison: bf16\nnum_processes: -3\nuse_cpu: perhaps\nnum_machines: 2\n"
         "gpu_ids: 0,,1\n");
    const Outcome o = pippin("launch --config_file " + at("bad.yaml") + " " + at("show"));
    EXPECT_EQ(o.code, 1);
    for (const char* part :
         {"unknown key mixed_precison; did you mean mixed_precision?", "num_processes: expected",
          "use_cpu: expected yes or no, got perhaps", "one machine", "gpu_ids: expected"})
        EXPECT_TRUE(o.has(part)) << part << "\n" << o.output;
    file("broken.yaml", "a: [1, 2\nb: }\n");
    EXPECT_TRUE(
        pippin("launch --config_file " + at("broken.yaml") + " " + at("show")).has("line "));
    file("list.yaml", "- 1\n- 2\n");
    EXPECT_TRUE(
        pippin("launch --config_file " + at("list.yaml") + " " + at("show")).has("name: value"));
    EXPECT_TRUE(
        pippin("launch --config_file " + at("none") + " " + at("show")).has("cannot be read"));
}

TEST_F(Config, FlagsBeatEnvironmentBeatsFile) {
    file("c.yaml", "use_cpu: true\nmixed_precision: bf16\nnum_cpu_threads_per_process: 3\n");
    const std::string with = "launch --debug --config_file " + at("c.yaml") + " ";
    const Outcome o =
        shell("env -u OMP_NUM_THREADS PIPPIN_DEVICE=cpu PIPPIN_MIXED_PRECISION=fp16 " +
              kPippin.string() + " " + with + "--mixed_precision no " + at("show"));
    EXPECT_TRUE(o.has("device=cpu precision=no threads=3")) << o.output;
    EXPECT_TRUE(o.has("mixed_precision              no             from the flag")) << o.output;
    EXPECT_TRUE(o.has("from the variable PIPPIN_DEVICE")) << o.output;
    EXPECT_TRUE(o.has("3              from the config file")) << o.output;
    EXPECT_TRUE(pippin("launch --debug " + at("show")).has("from what Pippin assumes"));
    EXPECT_TRUE(pippin("launch --debug " + at("show")).has("no config file (looked for "));
    // Without any file it says what it assumes; a flag is no assumption, and --quiet says nothing.
    EXPECT_TRUE(pippin("launch " + at("show"))
                    .has("no config file, assuming mixed_precision no, num_processes 1 ("));
    EXPECT_TRUE(pippin("launch --num_processes 1 " + at("show"))
                    .has("no config file, assuming mixed_precision no ("));
    EXPECT_EQ(pippin("launch --quiet " + at("show")).output, "device= precision=no threads=\n");
    EXPECT_EQ(pippin("launch --quiet --debug " + at("show")).output,
              "device= precision=no threads=\n");
}

TEST_F(Config, ValuesAreCheckedBeforeTheyAreShown) {
    struct Case {
        const char *variable, *says;
    };
    for (const Case& c :
         {Case{"PIPPIN_MIXED_PRECISION=bf61",
               "the variable PIPPIN_MIXED_PRECISION: expected no, fp16 or bf16, "
               "got bf61; did you mean bf16?"},
          Case{"PIPPIN_DEVICE=tpu",
               "the variable PIPPIN_DEVICE: expected cpu, gpu or gpu:N, got tpu"},
          Case{"OMP_NUM_THREADS=many", "the variable OMP_NUM_THREADS: expected a number from 1 to"},
          Case{"OMP_NUM_THREADS=2,0", "from 1 to"}}) {
        const Outcome o =
            shell("env -u PIPPIN_DEVICE XDG_CONFIG_HOME=" + at("xdg") + " " + c.variable + " " +
                  kPippin.string() + " launch --debug " + at("show"));
        EXPECT_EQ(o.code, 1) << o.output;
        EXPECT_TRUE(o.has(c.says)) << o.output;
        EXPECT_FALSE(o.has("from ") && o.has("device=")) << "nothing is shown or run: " << o.output;
    }
    file("c.yaml", "num_processes: 100000\n");
    const Outcome o = pippin("launch --debug --config_file " + at("c.yaml") + " " + at("show"));
    EXPECT_EQ(o.code, 1);
    EXPECT_TRUE(o.has("c.yaml: num_processes: expected a number from 1 to")) << o.output;
}

TEST_F(Config, SelfTestSucceeds) {
    const Outcome o = shell("PIPPIN_DEVICE=cpu " + kPippin.string() + " test");
    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_EQ(o.lines().back(), "Test is a success!") << o.output;
    EXPECT_TRUE(o.has("training on cpu in precision fp16")) << o.output;
}

TEST_F(Config, MistypedWordsGetTheNearestOne) {
    EXPECT_TRUE(pippin("lunch").has("did you mean launch?"));
    EXPECT_TRUE(pippin("launch --mixed_precison bf16 x").has("did you mean --mixed_precision?"));
    EXPECT_TRUE(pippin("bench --jsn x").has("did you mean --json?"));
    EXPECT_TRUE(pippin("launch --gpu_ids 0,x " + at("show")).has("numbers as in 0,1"));
}

}  // namespace
}  // namespace pippin
