// Every example through `pippin launch`, on the processor and on software that plays a GPU, at the
// smallest size that runs all of it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>

#include "cli/process.h"
#include "examples/tiny_data.h"
#include "pippin/models.h"

namespace pippin {
namespace {

using test::Outcome;
using test::shell;
namespace fs = std::filesystem;

using test::kPippin;

struct Target {
    const char *name, *environment, *flag;
};

class Launched : public testing::TestWithParam<Target> {
  protected:
    void SetUp() override {
        if (!fs::exists(kPippin) || !fs::exists(fs::path(PIPPIN_BUILD_DIR) / "examples/mnist"))
            GTEST_SKIP() << "this build has no pippin command or no examples";
        if (std::string(GetParam().name) == "Gpu" &&
            shell(std::string(GetParam().environment) + kPippin.string() + " env").has("GPU: none"))
            GTEST_SKIP() << "this machine or build has no Vulkan, not even in software";
    }
    // Runs it in the scratch folder; fails the test where it fails.
    Outcome launch(const std::string& program_and_arguments) const {
        const Outcome o = shell("cd " + folder.path().string() +
                                " && env -u PIPPIN_DEVICE -u PIPPIN_MIXED_PRECISION "
                                "XDG_CONFIG_HOME=/nonexistent " +
                                GetParam().environment + kPippin.string() + " launch " +
                                GetParam().flag + " " + program_and_arguments);
        EXPECT_EQ(o.code, 0) << o.output;
        return o;
    }
    static std::string device() {
        return std::string(GetParam().name) == "Gpu" ? "training on gpu:0" : "training on cpu";
    }
    test::TempFolder folder;
};

INSTANTIATE_TEST_SUITE_P(On, Launched,
                         testing::Values(Target{"Cpu", "", "--cpu"},
                                         Target{"Gpu", "PIPPIN_ALLOW_SOFTWARE_GPU=1 ",
                                                "--gpu_ids 0"}),
                         [](const auto& target) { return std::string(target.param.name); });

TEST_P(Launched, Mnist) {
    test::write_idx(folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte", 64);
    test::write_idx(folder / "t10k-images-idx3-ubyte", folder / "t10k-labels-idx1-ubyte", 20);
    const Outcome o = launch("mnist --data_dir . --epochs 1 --batch_size 16 --out out");
    EXPECT_TRUE(std::regex_search(o.output, std::regex("test accuracy [01]\\.[0-9]{4}, "
                                                       "[0-9.]+ images/s on (cpu|gpu:0)\n$")))
        << o.output;
    EXPECT_TRUE(o.has(std::string(GetParam().name) == "Gpu" ? "on gpu:0" : "on cpu")) << o.output;
}

TEST_P(Launched, CvExamples) {
    // As little as possible: software is slow at playing a GPU.
    test::write_jpegs(folder / "images", 5);
    const std::string common =
        " --data_dir images --model resnet18 --image_size 16 --batch_size 8 --epochs 1";
    Outcome o = launch("cv_example" + common);
    EXPECT_TRUE(o.has(device())) << o.output;
    EXPECT_TRUE(std::regex_search(o.output, std::regex("\nepoch 0: [0-9]+\\.[0-9]{2}\n$")))
        << o.output;
    o = launch("complete_cv_example" + common + " --checkpointing_steps epoch --with_tracking");
    EXPECT_TRUE(o.has(device())) << o.output;
    EXPECT_TRUE(std::regex_search(o.output, std::regex("(^|\n)epoch 0: [0-9]+\\.[0-9]{2}\n$")))
        << o.output;
    EXPECT_TRUE(fs::exists(folder / "epoch_0/state.json"));
    EXPECT_TRUE(fs::exists(folder / "logs/complete_cv_example/metrics.jsonl"));
}

TEST_P(Launched, NlpExamples) {
    test::write_tiny_bert(folder / "bert");
    test::write_texts(folder / "texts", 20);
    const std::string common =
        " --model_dir bert --data_dir texts --epochs 1 --lr 1e-3 "
        "--max_length 32";
    const std::regex line("\nepoch 0: \\{'accuracy': [01]\\.[0-9]{4}, 'f1': [01]\\.[0-9]{4}\\}\n$");
    Outcome o = launch("nlp_example" + common);
    EXPECT_TRUE(o.has(device())) << o.output;
    EXPECT_TRUE(std::regex_search(o.output, line)) << o.output;
    o = launch("complete_nlp_example" + common +
               " --checkpointing_steps 1 --output_dir out --gradient_accumulation_steps 2");
    EXPECT_TRUE(o.has(device())) << o.output;
    EXPECT_TRUE(std::regex_search(o.output, line)) << o.output;
    EXPECT_TRUE(fs::exists(folder / "out/step_1/state.json"));
}

TEST_P(Launched, FinetuneAndInference) {
    test::write_jpegs(folder / "flat", 6);
    for (const auto& entry : fs::directory_iterator(folder / "flat")) {
        const std::string name = entry.path().filename().string();
        const fs::path to = folder / "images" / name.substr(0, name.rfind('_'));
        fs::create_directories(to);
        fs::rename(entry.path(), to / name);
    }
    Outcome o = launch(
        "finetune_image_folder --data_dir images --model resnet18 --image_size 16 --batch_size 4 "
        "--epochs 1 --output_dir out");
    EXPECT_TRUE(o.has(device()) && o.has("best accuracy ")) << o.output;
    o = launch("inference --weights out/model.safetensors images/beagle/beagle_3.jpg");
    EXPECT_TRUE(std::regex_search(
        o.output, std::regex("beagle_3.jpg: (beagle|British_Shorthair) [01]\\.[0-9]{3}, ")))
        << o.output;
}

}  // namespace
}  // namespace pippin
