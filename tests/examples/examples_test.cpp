// The examples end to end, at tiny sizes, as programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "cli/process.h"
#include "examples/tiny_data.h"
#include "pippin/data.h"
#include "pippin/io.h"
#include "pippin/models.h"
#include "pippin/random.h"
#include "train/distributed.h"

namespace pippin {
namespace {

using test::Outcome;
using test::shell;
using test::write_idx;
using test::write_jpegs;
namespace fs = std::filesystem;

const fs::path kExamples = fs::path(PIPPIN_BUILD_DIR) / "examples";
using test::kPippin;

const std::string kClean = "env -u PIPPIN_DEVICE -u PIPPIN_MIXED_PRECISION ";

class Examples : public testing::Test {
  protected:
    void SetUp() override {
        if (!fs::exists(kExamples / "mnist")) GTEST_SKIP() << "this build has no examples";
    }
    Outcome run(const std::string& example, const std::string& arguments) const {
        return shell(kClean + (kExamples / example).string() + " " + arguments);
    }
    static bool can_launch_two() {
        return dist::has_transport() && fs::exists(kPippin) && shell("mpirun --version").code == 0;
    }
    static Outcome run_two(const std::string& example, const std::string& arguments) {
        return shell(kClean + "XDG_CONFIG_HOME=/nonexistent timeout 120 " + kPippin.string() +
                     " launch --num_processes 2 " + example + " " + arguments);
    }
    test::TempFolder folder;
};

TEST_F(Examples, MnistTrainsAndLeavesItsResults) {
    write_idx(folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte", 960);
    write_idx(folder / "t10k-images-idx3-ubyte", folder / "t10k-labels-idx1-ubyte", 120);
    const fs::path out = folder / "run";
    const Outcome o = run("mnist", "--epochs 4 --batch-size 16 --data-dir " +
                                       folder.path().string() + " --out=" + out.string());
    ASSERT_EQ(o.code, 0) << o.output;
    const auto lines = o.lines();
    EXPECT_TRUE(std::regex_match(lines.front(), std::regex(R"(device: cpu, .+ \(.+\))")))
        << lines.front();
    std::smatch last;
    ASSERT_TRUE(
        std::regex_match(lines.back(), last,
                         std::regex(R"(test accuracy (0|1)\.([0-9]{4}), [0-9]+ images/s on cpu)")))
        << lines.back();
    EXPECT_GT(std::atof((last[1].str() + "." + last[2].str()).c_str()), 0.95) << o.output;
    EXPECT_TRUE(o.has("epoch 1/4 ")) << o.output;  // plain progress lines
    EXPECT_EQ(o.output.find('\r'), std::string::npos);

    const auto weights = io::load_safetensors(out / "model.safetensors");
    EXPECT_EQ(weights.info("0.weight").shape, (std::vector<std::int64_t>{6, 1, 5, 5}));
    EXPECT_EQ(weights.entries().size(), 10u);
    std::ifstream csv(out / "metrics.csv");
    std::string line;
    int rows = 0;
    while (std::getline(csv, line))
        ++rows;
    EXPECT_EQ(rows, 5);
    EXPECT_GT(fs::file_size(out / "curve.svg"), 2000u);
}

TEST_F(Examples, SameSeedSameResult) {
    write_idx(folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte", 320);
    write_idx(folder / "t10k-images-idx3-ubyte", folder / "t10k-labels-idx1-ubyte", 40);
    const auto digest = [&](const std::string& out, int workers, int seed) {
        const std::string at = (folder / out).string();
        const Outcome o =
            run("mnist", "--epochs 1 --data_dir " + folder.path().string() + " --out " + at +
                             " --workers " + std::to_string(workers) + " --seed " +
                             std::to_string(seed));
        EXPECT_EQ(o.code, 0) << o.output;
        return shell("cksum < " + at + "/model.safetensors").output;
    };
    const std::string first = digest("a", 1, 3);
    EXPECT_EQ(digest("b", 2, 3), first);
    EXPECT_NE(digest("c", 1, 4), first);
}

TEST_F(Examples, MnistSaysWhatIsMissing) {
    Outcome o = run("mnist", "--data_dir " + (folder / "nowhere").string());
    EXPECT_EQ(o.code, 1);
    EXPECT_TRUE(o.has("nowhere")) << o.output;
    EXPECT_EQ(run("mnist", "--epochs 0").code, 2);
    EXPECT_EQ(run("mnist", "--no_such_flag").code, 2);
    o = run("mnist", "--device gpu:7");
    EXPECT_EQ(o.code, 1);
    EXPECT_TRUE(o.has("gpu:7")) << o.output;
}

TEST_F(Examples, CvExampleLearnsFromJpegs) {
    write_jpegs(folder / "images", 40);
    const std::string common = "--data_dir " + (folder / "images").string() +
                               " --model resnet18 --image_size 32 --batch_size 8 --cpu --lr 1e-2 ";
    Outcome o = run("cv_example", common + "--epochs 4");
    ASSERT_EQ(o.code, 0) << o.output;
    std::vector<std::string> epochs;
    for (const std::string& line : o.lines())
        if (line.rfind("epoch ", 0) == 0) epochs.push_back(line);
    ASSERT_EQ(epochs.size(), 4u) << o.output;
    for (std::size_t i = 0; i < epochs.size(); ++i)
        EXPECT_TRUE(std::regex_match(
            epochs[i], std::regex("epoch " + std::to_string(i) + R"(: [0-9]+\.[0-9]{2})")))
            << epochs[i];
    EXPECT_GT(std::atof(epochs.back().c_str() + 9), 80) << o.output;

    // Two processes: the same lines, once, and as good.
    if (can_launch_two()) {
        o = run_two("cv_example", common + "--epochs 4");
        ASSERT_EQ(o.code, 0) << o.output;
        const auto lines = o.lines();
        EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                                [](const std::string& l) { return l.rfind("epoch ", 0) == 0; }),
                  4)
            << o.output;
        EXPECT_GT(std::atof(lines.back().c_str() + 9), 80) << o.output;
        EXPECT_TRUE(o.has("2 processes")) << o.output;
    }

    o = run("cv_example", common + "--epochs 1 --mixed_precision bf16");
    ASSERT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(o.has("precision bf16")) << o.output;
    EXPECT_TRUE(o.has("epoch 0: ")) << o.output;
}

TEST_F(Examples, CvExampleTrainsTheClassifierOfPretrainedWeights) {
    write_jpegs(folder / "images", 20);
    const std::string weights = (folder / "pretrained.safetensors").string();
    io::save_safetensors(weights, models::resnet18(5)->state_dict());  // another number of classes
    const std::string common = "--data_dir " + (folder / "images").string() +
                               " --image_size 32 --batch_size 8 --epochs 1 --weights " + weights;
    Outcome o = run("cv_example", common + " --model resnet18");
    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(o.has("epoch 0: ")) << o.output;
    o = run("cv_example", common + " --model resnet34");
    EXPECT_EQ(o.code, 1);
    EXPECT_TRUE(o.has("missing: \"layer1.2.conv1.weight\"")) << o.output;
}

// A hundred pictures of clothes, as make_image_folder writes them, through the launcher.
TEST_F(Examples, CvExampleRunsOnFashionMnist) {
    const fs::path tool = fs::path(PIPPIN_BUILD_DIR) / "tools" / "make_image_folder",
                   launcher = fs::path(PIPPIN_BUILD_DIR) / "bin" / "pippin";
    if (!fs::exists(tool) || !fs::exists(launcher)) GTEST_SKIP() << "this build lacks the tools";
    if (!fs::exists(data::MNIST::kFashionFolder)) GTEST_SKIP() << "Fashion-MNIST is missing";
    const std::string images = (folder / "images").string();
    ASSERT_EQ(shell(tool.string() + " --out " + images + " --count 100 --size 32").code, 0);
    const Outcome o = shell(kClean + launcher.string() + " launch --cpu cv_example --data_dir " +
                            images + " --model resnet18 --image_size 32 --epochs 1");
    ASSERT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(o.has("80 images of 10 classes, 20 to measure")) << o.output;
    EXPECT_TRUE(std::regex_match(o.lines().back(), std::regex(R"(epoch 0: [0-9]+\.[0-9]{2})")))
        << o.output;
}

TEST_F(Examples, CvExampleTakesTheLaunchersPrecision) {
    write_jpegs(folder / "images", 10);
    const fs::path launcher = fs::path(PIPPIN_BUILD_DIR) / "bin" / "pippin";
    if (!fs::exists(launcher)) GTEST_SKIP() << "this build has no pippin command";
    const std::string arguments =
        " cv_example --model resnet18 --image-size 32 --epochs 1 --data-dir " +
        (folder / "images").string();
    Outcome o =
        shell(kClean + launcher.string() + " launch --cpu --mixed_precision bf16" + arguments);
    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(o.has("PIPPIN_DEVICE=cpu")) << o.output;
    EXPECT_TRUE(o.has("precision bf16")) << o.output;
    o = shell(kClean + launcher.string() + " launch --mixed_precision fp16" + arguments);
    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(o.has("precision fp16")) << o.output;
}

// Stopped after two steps and resumed: the accuracies are those of the run that nobody stopped.
TEST_F(Examples, CompleteCvExampleResumes) {
    write_jpegs(folder / "images", 30);
    const auto at = [&](const char* name) { return (folder / name).string(); };
    const std::string common = "--data_dir " + at("images") +
                               " --model resnet18 --image_size 32 --batch_size 8 --cpu --lr 1e-2 "
                               "--epochs 2 --gradient_accumulation_steps 2 ";
    const Outcome whole =
        run("complete_cv_example", common + "--checkpointing_steps 2 --output_dir " + at("out") +
                                       " --with_tracking --project_dir " + at("logs"));
    ASSERT_EQ(whole.code, 0) << whole.output;
    EXPECT_TRUE(fs::exists(folder / "out/step_4/state.json")) << whole.output;
    EXPECT_TRUE(fs::exists(folder / "logs/complete_cv_example/metrics.csv"));
    const Outcome rest =
        run("complete_cv_example", common + "--resume_from_checkpoint " + at("out/step_2") +
                                       " --output_dir " + at("b") +
                                       " --with_tracking --project_dir " + at("logs_b"));
    ASSERT_EQ(rest.code, 0) << rest.output;
    EXPECT_TRUE(rest.has("Resumed from checkpoint: ")) << rest.output;
    EXPECT_EQ(rest.lines().back(), whole.lines().back());
    EXPECT_TRUE(rest.has("epoch 0: ")) << "step 2 lies within the first epoch";
    // What is logged, the mean loss of the first epoch too, is the whole run's, digit for digit.
    const auto logged = [&](const char* logs) {
        return shell("cat " + at(logs) + "/complete_cv_example/metrics.csv").output;
    };
    EXPECT_NE(logged("logs").find("train_loss"), std::string::npos) << logged("logs");
    EXPECT_EQ(logged("logs_b"), logged("logs"));
    const Outcome wrong = run("complete_cv_example", common + "--checkpointing_steps often");
    EXPECT_EQ(wrong.code, 2);
    EXPECT_TRUE(wrong.has("expected epoch or a number of steps from 1, got often")) << wrong.output;
}

// SIGTERM: the step is finished, the state saved, and the code is the shell's 128 + 15.
TEST_F(Examples, CompleteCvExampleStopsInOrder) {
    write_jpegs(folder / "images", 60);
    const auto at = [&](const char* name) { return (folder / name).string(); };
    const std::string common = "--data_dir " + at("images") +
                               " --model resnet18 --image_size 32 --batch_size 4 --cpu "
                               "--output_dir " +
                               at("out");
    const Outcome o =
        shell("timeout --signal=TERM --preserve-status 3 " + kClean +
              (kExamples / "complete_cv_example").string() + " " + common + " --epochs 1000");
    EXPECT_EQ(o.code, 143) << o.output;
    ASSERT_TRUE(o.has("go on with --resume_from_checkpoint ")) << o.output;
    const std::string last = o.lines().back();
    const std::string saved = last.substr(last.rfind(' ') + 1);
    EXPECT_TRUE(fs::exists(fs::path(saved) / "state.json")) << saved;
}

// From a folder of images to a classifier, and from that to answers.
TEST_F(Examples, FinetunedModelClassifiesImages) {
    const fs::path images = folder / "images";
    write_jpegs(folder / "flat", 30);
    for (const auto& entry : fs::directory_iterator(folder / "flat")) {
        const std::string name = entry.path().filename().string();
        const fs::path to = images / name.substr(0, name.rfind('_'));
        fs::create_directories(to);
        fs::rename(entry.path(), to / name);
    }
    const std::string out = (folder / "out").string();
    const std::string common =
        "--data_dir " + images.string() + " --model resnet18 --image_size 32 --batch_size 8 --cpu ";
    Outcome o = run("finetune_image_folder", common + "--lr 5e-3 --epochs 4 --output_dir " + out);
    ASSERT_EQ(o.code, 0) << o.output;
    ASSERT_TRUE(o.has("best accuracy ")) << o.output;
    EXPECT_TRUE(fs::exists(out + "/metrics.csv") && fs::exists(out + "/curve.svg"));
    const std::string weights = out + "/model.safetensors";
    o = run("inference", "--weights " + weights + " " + (images / "beagle/beagle_3.jpg").string() +
                             " " + (images / "British_Shorthair/British_Shorthair_4.jpg").string());
    ASSERT_EQ(o.code, 0) << o.output;
    ASSERT_EQ(o.lines().size(), 2u) << o.output;
    EXPECT_TRUE(std::regex_search(o.lines()[0], std::regex(R"(: beagle [0-9.]+, British)")))
        << o.output;
    EXPECT_TRUE(std::regex_search(o.lines()[1], std::regex(R"(: British_Shorthair [0-9.]+, b)")))
        << o.output;
    o = run("finetune_image_folder",
            common + "--epochs 1 --freeze --weights " + weights + " --output_dir " + out + "2");
    EXPECT_EQ(o.code, 1) << "nothing is left to train";
    io::save_safetensors(folder / "other.safetensors", models::resnet18(7)->state_dict());
    o = run("finetune_image_folder", common + "--epochs 1 --freeze --weights " +
                                         (folder / "other.safetensors").string() +
                                         " --output_dir " + out + "2");
    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(o.has("fc.weight")) << "what was skipped is named: " << o.output;
    o = run("inference", "--weights " + (folder / "other.safetensors").string() + " x.jpg");
    EXPECT_EQ(o.code, 1);
    EXPECT_TRUE(o.has("finetune_image_folder")) << o.output;
    EXPECT_TRUE(run("inference", "--weights " + weights + " none.jpg").has("none.jpg"));
}

// A BERT of one small layer, from scratch: words tell the classes apart.
TEST_F(Examples, NlpExampleLearnsFromFortunes) {
    const fs::path bert = folder / "bert", texts = folder / "texts";
    test::write_tiny_bert(bert);
    test::write_texts(texts, 60);
    Outcome o =
        run("nlp_example", "--cpu --model_dir " + bert.string() + " --data_dir " + texts.string() +
                               " --epochs 4 --lr 5e-3 --output_dir " + (folder / "out").string());
    ASSERT_EQ(o.code, 0) << o.output;
    std::smatch last;
    const std::string line = o.lines().back();
    ASSERT_TRUE(std::regex_match(
        line, last, std::regex(R"(epoch 3: \{'accuracy': ([0-9.]+), 'f1': ([0-9.]+)\})")))
        << o.output;
    EXPECT_GT(std::atof(last[1].str().c_str()), 0.9) << o.output;
    EXPECT_TRUE(fs::exists(folder / "out" / "model.safetensors"));
    if (can_launch_two()) {
        o = run_two("nlp_example", "--cpu --model_dir " + bert.string() + " --data_dir " +
                                       texts.string() + " --epochs 4 --lr 5e-3 --batch_size 8");
        ASSERT_EQ(o.code, 0) << o.output;
        const std::string end = o.lines().back();
        ASSERT_EQ(end.rfind("epoch 3: {'accuracy': ", 0), 0u) << o.output;
        EXPECT_GT(std::atof(end.c_str() + 22), 0.9) << o.output;
    }
    o = run("nlp_example", "--model_dir " + texts.string() + " --data_dir " + texts.string());
    EXPECT_EQ(o.code, 1);
    EXPECT_TRUE(o.has("config.json") || o.has("vocab.txt")) << o.output;
}

// Stopped after a step of its first epoch and resumed: the same scores as the whole run.
TEST_F(Examples, CompleteNlpExampleResumes) {
    test::write_tiny_bert(folder / "bert");
    test::write_texts(folder / "texts", 40);
    const auto at = [&](const char* name) { return (folder / name).string(); };
    const std::string common = "--cpu --model_dir " + at("bert") + " --data_dir " + at("texts") +
                               " --epochs 2 --lr 3e-3 --max_length 32 "
                               "--gradient_accumulation_steps 2 ";
    const Outcome whole =
        run("complete_nlp_example", common + "--checkpointing_steps 1 --output_dir " + at("out") +
                                        " --with_tracking --project_dir " + at("logs"));
    ASSERT_EQ(whole.code, 0) << whole.output;
    EXPECT_TRUE(std::regex_match(
        whole.lines().back(),
        std::regex(R"(epoch 1: \{'accuracy': [01]\.[0-9]{4}, 'f1': [01]\.[0-9]{4}\})")))
        << whole.output;
    std::ifstream csv(folder / "logs/complete_nlp_example/metrics.csv");
    std::string columns;
    std::getline(csv, columns);
    EXPECT_EQ(columns, "step,accuracy,epoch,f1,train_loss");
    const Outcome rest =
        run("complete_nlp_example",
            common + "--resume_from_checkpoint " + at("out/step_1") + " --output_dir " + at("b"));
    ASSERT_EQ(rest.code, 0) << rest.output;
    EXPECT_TRUE(rest.has("(epoch 0, batch 2)")) << rest.output;
    EXPECT_EQ(rest.lines().back(), whole.lines().back());
}

// One image is left over: batch norm over one value a channel would be an error.
TEST_F(Examples, ALastBatchOfOneImageIsLeftOut) {
    write_jpegs(folder / "images", 11);  // 18 of 22 train
    const Outcome o = run("cv_example",
                          "--cpu --epochs 1 --model resnet18 --image_size 32 --batch_size 17 "
                          "--data_dir " +
                              (folder / "images").string());
    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(o.has("18 images of 2 classes")) << o.output;
}

// What a person at a terminal sees.
TEST_F(Examples, ATerminalShowsLossRateMemoryAndTimeLeft) {
    if (shell("command -v script").code != 0) GTEST_SKIP() << "there is no script(1)";
    write_jpegs(folder / "images", 20);
    const Outcome o = shell("script -qec 'stty cols 100; " + (kExamples / "cv_example").string() +
                            " --cpu --epochs 2 --model resnet18 --image_size 32 --batch_size 8 "
                            "--data_dir " +
                            (folder / "images").string() + "' /dev/null");
    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(std::regex_search(
        o.output, std::regex("\repoch 1/2 .* 25%  loss [0-9.]+  [0-9.]+ images/s  [0-9.]+ [MG]iB  "
                             "[0-9:]+ left")))
        << o.output;
}

TEST_F(Examples, MistakesNameTheRightFlag) {
    for (const auto& [arguments, says] : std::vector<std::pair<std::string, std::string>>{
             {"--data_dir x --image_sise 3",
              "there is no flag \"--image_sise\"; did you mean "
              "--image_size? (see cv_example --help)"},
             {"--data_dir x --mixed_precision fb16",
              "expected no, bf16 or fp16, got fb16; did you"},
             {"--data_dir x --lr -1", "--lr: expected a number above 0, got -1"},
             {"", "cv_example: --data_dir is required (see cv_example --help)"}}) {
        const Outcome o = run("cv_example", arguments);
        EXPECT_EQ(o.code, 2) << o.output;
        EXPECT_TRUE(o.has(says)) << o.output;
    }
}

TEST_F(Examples, CvExampleSaysWhatIsWrong) {
    EXPECT_EQ(run("cv_example", "").code, 2);  // --data_dir is required
    Outcome o = run("cv_example", "--data_dir " + (folder / "nowhere").string());
    EXPECT_EQ(o.code, 1);
    EXPECT_TRUE(o.has("nowhere")) << o.output;
    write_jpegs(folder / "images", 4);
    o = run("cv_example", "--model resnet19 --data_dir " + (folder / "images").string());
    EXPECT_EQ(o.code, 2);
    EXPECT_TRUE(o.has("did you mean resnet18?")) << o.output;
    o = run("cv_example", "--model minilm --data_dir " + (folder / "images").string());
    EXPECT_EQ(o.code, 2) << "it takes texts";
    EXPECT_EQ(run("mnist", "--device tpu").code, 2);
    EXPECT_EQ(run("mnist", "--workers -1").code, 2);
}

// A network for small gray images gets such, from files of any size and colour.
TEST_F(Examples, ImagesBecomeWhatTheModelTakes) {
    write_jpegs(folder / "images", 10);
    const std::string common = "--data_dir " + (folder / "images").string() +
                               " --model lenet5 --batch_size 8 --cpu --epochs 1 ";
    Outcome o = run("cv_example", common);
    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(o.has("epoch 0: ")) << o.output;
    o = run("cv_example", common + "--image_size 64");
    EXPECT_EQ(o.code, 2);
    EXPECT_TRUE(o.has("lenet5 takes images of 28 x 28 alone; leave --image_size out")) << o.output;
    o = run("cv_example",
            "--data_dir " + (folder / "images").string() + " --model alexnet --image_size 32");
    EXPECT_EQ(o.code, 2);
    EXPECT_TRUE(o.has("alexnet takes images of 63 x 63 and more")) << o.output;

    for (const auto& entry : fs::directory_iterator(folder / "images")) {
        const std::string name = entry.path().filename().string();
        const fs::path to = folder / "classes" / name.substr(0, name.rfind('_'));
        fs::create_directories(to);
        fs::rename(entry.path(), to / name);
    }
    const std::string out = (folder / "out").string();
    o = run("finetune_image_folder", "--data_dir " + (folder / "classes").string() +
                                         " --model lenet5 --batch_size 8 --cpu --epochs 1 "
                                         "--output_dir " +
                                         out);
    ASSERT_EQ(o.code, 0) << o.output;
    o = run("inference", "--cpu --weights " + out + "/model.safetensors " +
                             (folder / "classes/beagle/beagle_3.jpg").string());
    EXPECT_EQ(o.code, 0) << o.output;
}

TEST_F(Examples, ErrorsOfSeveralProcessesNameTheRank) {
    if (!can_launch_two()) GTEST_SKIP() << "there is no MPI";
    const Outcome o = run_two("cv_example", "--cpu --data_dir " + (folder / "nowhere").string());
    EXPECT_EQ(o.code, 1) << o.output;
    EXPECT_TRUE(o.has("[rank 0] error: ") || o.has("[rank 1] error: ")) << o.output;
    EXPECT_FALSE(o.has("\nerror: ") || o.output.rfind("error: ", 0) == 0) << o.output;
}

}  // namespace
}  // namespace pippin
