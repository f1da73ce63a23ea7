// pippin plot, run as a program.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <regex>

#include "cli/process.h"
#include "pippin/data.h"
#include "pippin/trackers.h"

namespace pippin {
namespace {

using test::kPippin;
using test::Outcome;
using test::shell;
namespace fs = std::filesystem;

class Plot : public test::CommandTest {
  protected:
    void write(const std::string& name, const std::string& text) {
        fs::create_directories((folder / name).parent_path());
        std::ofstream(folder / name) << text;
    }
    Outcome plot(const std::string& arguments) const {
        return shell("cd " + folder.path().string() + " && " + kPippin.string() + " plot " +
                     arguments);
    }
    std::string content(const std::string& name) const {
        std::ifstream in(folder / name);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    static std::size_t count(const std::string& text, const std::string& part) {
        std::size_t n = 0;
        for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at)
            ++n;
        return n;
    }
};

const char* const kMetrics =
    "epoch,train_loss,train_accuracy,test_loss,test_accuracy\n1,0.9,0.6,0.8,0.65\n2,0.5,0.8,0.6,"
    "0.75\n3,0.3,0.9,0.55,0.78\n";

TEST_F(Plot, OneRunHasAPanelForEachKindOfNumber) {
    write("runs/a/metrics.csv", kMetrics);
    const Outcome o = plot("runs/a --out a.svg");
    ASSERT_EQ(o.code, 0) << o.output;
    EXPECT_EQ(o.output, "wrote a.svg\n");
    const std::string svg = content("a.svg");
    for (const char* text : {">loss</text>", ">accuracy</text>", ">train</text>", ">test</text>",
                             ">epoch</text>", "<title>a</title>"})
        EXPECT_NE(svg.find(text), std::string::npos) << text;
    EXPECT_EQ(count(svg, "<polyline"), 4u);
}

TEST_F(Plot, RunsOfEveryKindShareAChart) {
    write("runs/a/metrics.csv", kMetrics);
    // A run that is being written: its last line is cut.
    write("runs/b/metrics.jsonl",
          "{\"step\":0,\"loss\":1.5}\n{\"step\":10,\"loss\":null}\n{\"step\":20,\"loss\":0.5}\n{"
          "\"st");
    {
        auto tracker = train::make_tracker("tensorboard", folder / "runs/c");
        tracker->config({{"lr", "0.1"}});
        for (int step = 0; step < 300; step += 100)
            tracker->log({{"loss", 2.0 / (1 + step)}, {"accuracy", 0.5}}, step);
    }
    Outcome o = plot("runs/a runs/b runs/c/ --metric loss --out all.svg");
    ASSERT_EQ(o.code, 0) << o.output;
    const std::string svg = content("all.svg");
    for (const char* text : {">a train</text>", ">a test</text>", ">b</text>", ">c</text>",
                             "3 runs", ">step</text>", ">epoch</text>", ">200</text>"})
        EXPECT_NE(svg.find(text), std::string::npos) << text << "\n" << svg;
    EXPECT_EQ(svg.find("accuracy"), std::string::npos);
    EXPECT_NE(svg.find("stroke-dasharray"), std::string::npos) << "what was not trained on";
    // Folder of one run, and a file.
    EXPECT_EQ(plot("runs/c -o c.svg").code, 0);
    write("logs/cv/metrics.csv", kMetrics);
    EXPECT_EQ(plot("logs runs/b/metrics.jsonl -o d.svg").code, 0);
}

TEST_F(Plot, PngIsAPicture) {
    write("a/metrics.csv", kMetrics);
    const Outcome o = plot("a -m loss -o a.png");
    if (o.has("has no cairo")) GTEST_SKIP() << "this build writes no PNG";
    ASSERT_EQ(o.code, 0) << o.output;
    const data::Image image = data::read_image((folder / "a.png").string());
    EXPECT_EQ(image.width, 960);
    EXPECT_EQ(image.height, 832);
    std::int64_t blue = 0, dark = 0, white = 0;  // the curve, the text and the paper
    for (std::int64_t y = 0; y < image.height; ++y)
        for (std::int64_t x = 0; x < image.width; ++x) {
            const int r = image.at(y, x, 0), g = image.at(y, x, 1), b = image.at(y, x, 2);
            blue += r < 40 && g > 90 && g < 140 && b > 150;
            dark += r < 80 && g < 80 && b < 80;
            white += r == 255 && g == 255 && b == 255;
        }
    EXPECT_GT(blue, 500);
    EXPECT_GT(dark, 1000);
    EXPECT_GT(white, 400'000);
}

TEST_F(Plot, ManyPointsAreThinnedAndKeepTheirPeaks) {
    std::string text = "step,loss\n";
    for (int i = 0; i < 20'000; ++i)
        text += std::to_string(i) + "," + (i == 12'345 ? "8" : "1") + "\n";
    write("a/metrics.csv", text);
    ASSERT_EQ(plot("a -o a.svg").code, 0);
    const std::string svg = content("a.svg");
    EXPECT_LT(svg.size(), 40'000u);
    EXPECT_NE(svg.find(">8</text>"), std::string::npos);
    // The peak's point lies on the plot's upper edge.
    EXPECT_TRUE(std::regex_search(svg, std::regex("points=\"[^\"]*,90\\.0[ \"]")));
}

TEST_F(Plot, SaysWhatIsWrong) {
    write("a/metrics.csv", kMetrics);
    write("bad/metrics.csv", "epoch,loss\n1,2,3\n");
    write("empty/metrics.csv", "epoch,loss\n");
    fs::create_directories(folder / "none");
    const std::vector<std::vector<std::string>> cases = {
        {"nowhere", "1", "nowhere: there is no such file or folder"},
        {"none", "1", "none has no metrics.csv, no metrics.jsonl and no events.out.tfevents"},
        {"bad", "1", "line 2 has 3 cells where there are 2 columns"},
        {"empty", "1", "has no numbers yet"},
        {"a --metric los", "2", "no run has a metric \"los\"; did you mean loss?"},
        {"a --out a.jpg", "2", "charts are written as .svg or .png"},
        {"a --out no/such/a.svg", "1", "no/such/a.svg"},
        {"a --metrics loss", "2", "unknown flag --metrics; did you mean --metric?"},
        {"", "2", "runs is required"},
    };
    for (const auto& c : cases) {
        const Outcome o = plot(c[0]);
        EXPECT_EQ(o.code, std::stoi(c[1])) << c[0] << ": " << o.output;
        EXPECT_TRUE(o.has(c[2])) << c[0] << ": " << o.output;
    }
}

}  // namespace
}  // namespace pippin
