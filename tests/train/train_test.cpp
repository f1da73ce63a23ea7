// Progress output, meters, the metrics table and the chart.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <regex>
#include <sstream>
#include <thread>

#include "cli/process.h"
#include "pippin/ops.h"
#include "pippin/train.h"

namespace pippin {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
    std::ifstream in(path);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

class Train : public testing::Test {
  protected:
    std::FILE* open() { return file = std::fopen((folder / "out").c_str(), "w+"); }
    std::string printed() {
        std::fclose(file);
        return content(folder / "out");
    }
    test::TempFolder folder;
    std::FILE* file = nullptr;
};

TEST_F(Train, PlainLinesWhereThereIsNoTerminal) {
    train::ProgressBar bar({.epochs = 2, .images_per_epoch = 1000, .out = open()});
    int reads = 0;
    for (int epoch = 0; epoch < 2; ++epoch) {
        bar.begin_epoch();
        for (int i = 0; i < 100; ++i)
            bar.update(10, [&] {
                ++reads;
                return 0.5;
            });
        bar.end_epoch(epoch == 1 ? "test accuracy 0.9000" : "");
    }
    EXPECT_LE(reads, 20);  // the loss is read for lines only
    const std::string text = printed();
    std::istringstream in(text);
    const std::regex during(
        R"(epoch [12]/2 +[0-9]+%  loss 0\.5000  [0-9.]+ images/s  [0-9.]+ [MG]iB  [0-9:]+ left)");
    const std::regex end(
        R"(epoch [12]/2 +100%  loss 0\.5000  [0-9.]+ images/s  [0-9.]+ [MG]iB  [0-9:]+(  test accuracy 0\.9000)?)");
    int lines = 0, ends = 0;
    for (std::string line; std::getline(in, line); ++lines) {
        const bool last = line.find("100%") != std::string::npos;
        ends += last;
        EXPECT_TRUE(std::regex_match(line, last ? end : during)) << line;
    }
    EXPECT_EQ(lines, 20) << text;
    EXPECT_EQ(ends, 2);
    EXPECT_EQ(text.find('\r'), std::string::npos);
    EXPECT_EQ(text.find('\033'), std::string::npos);
}

TEST_F(Train, TerminalLineIsRedrawnAtMostTenTimesASecond) {
    train::ProgressBar bar({.epochs = 1, .images_per_epoch = 600, .out = open(), .terminal = true});
    const auto start = std::chrono::steady_clock::now();
    bar.begin_epoch();
    int reads = 0;
    for (int i = 0; i < 60; ++i) {
        bar.update(10, [&] {
            ++reads;
            return 1.0;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    bar.end_epoch();
    const double tenths =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() * 10;
    EXPECT_LE(reads, tenths + 2);
    EXPECT_GE(reads, 2);
    const std::string text = printed();
    EXPECT_EQ(text[0], '\r');
    EXPECT_EQ(text.find('\n'), text.size() - 1);  // one line
    EXPECT_NE(text.find("100%"), std::string::npos);
}

TEST_F(Train, RatesLeaveOutWhatHappensBetweenEpochs) {
    train::ProgressBar bar(
        {.epochs = 2, .images_per_epoch = 10, .out = open(), .lines_per_epoch = 0});
    bar.begin_epoch();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    bar.update(10, [] { return 0.0; });
    bar.end_epoch();
    const double rate = bar.images_per_s();
    EXPECT_LE(rate, 500);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(bar.images_per_s(), rate);
    EXPECT_EQ(printed(), "");  // lines_per_epoch 0
    EXPECT_THROW(train::ProgressBar({.images_per_epoch = 0}), ValueError);
}

TEST_F(Train, LossTensorIsReadWhenDrawn) {
    train::ProgressBar bar({.epochs = 1, .images_per_epoch = 2, .out = open()});
    bar.begin_epoch();
    bar.update(2, tensor(std::vector<float>{1.25f}).sum());
    bar.end_epoch();
    EXPECT_NE(printed().find("loss 1.2500"), std::string::npos);
}

TEST(Meters, MeanAndAccuracy) {
    train::Mean mean;
    EXPECT_TRUE(std::isnan(mean.value()));
    mean.add(scalar(1), 3);
    mean.add(scalar(5), 1);
    EXPECT_DOUBLE_EQ(mean.value(), 2);
    mean.reset();
    mean.add(scalar(4));
    EXPECT_DOUBLE_EQ(mean.value(), 4);
    EXPECT_EQ(mean.count(), 1);

    train::Accuracy right;
    const Tensor logits = tensor(std::vector<float>{1, 2, 5, 0, 3, 3}, {3, 2});  // rows say 1, 0, 0
    right.add(logits, tensor(std::vector<std::int64_t>{1, 1, 0}));
    right.add(logits, tensor(std::vector<std::int64_t>{1, 0, 0}));
    EXPECT_NEAR(right.value(), 5.0 / 6, 1e-7);
    EXPECT_EQ(right.count(), 6);
    EXPECT_NEAR(train::accuracy(logits, tensor(std::vector<std::int64_t>{1, 1, 1})), 1.0 / 3, 1e-7);
    EXPECT_THROW(right.add(logits, tensor(std::vector<std::int64_t>{1})), ValueError);
}

TEST_F(Train, MetricsAreOnDiskAtOnce) {
    const fs::path path = folder / "new" / "metrics.csv";
    {
        train::MetricsCsv csv(path, {"epoch", "loss"});
        csv.add({1, 0.25});
        EXPECT_EQ(content(path), "epoch,loss\n1,0.25\n");
        csv.add({2, std::numeric_limits<double>::quiet_NaN()});
        EXPECT_THROW(csv.add({3}), ValueError);
    }
    {
        train::MetricsCsv csv(path, {"epoch", "loss"}, true);
        csv.add({3, 1.0 / 3});
    }
    EXPECT_EQ(content(path), "epoch,loss\n1,0.25\n2,\n3,0.333333\n");
    EXPECT_THROW(train::MetricsCsv(path, {"epoch", "accuracy"}, true), FileError);
    EXPECT_THROW(train::MetricsCsv(folder.path(), {"epoch"}), FileError);
    EXPECT_THROW(train::MetricsCsv(path, {"a,b"}), ValueError);
    train::MetricsCsv(path, {"epoch"});
    EXPECT_EQ(content(path), "epoch\n");
}

// Tags nest, attributes are quoted, no stray < or & in text.
void expect_well_formed(const std::string& xml) {
    const std::regex tag(R"re(<(/?)([a-zA-Z]+)((?: [a-zA-Z0-9:_-]+="[^"<]*")*) ?(/?)>)re");
    std::vector<std::string> open;
    std::size_t at = 0;
    for (std::sregex_iterator it(xml.begin(), xml.end(), tag), none; it != none; ++it) {
        const std::string between = xml.substr(at, static_cast<std::size_t>(it->position()) - at);
        EXPECT_EQ(between.find_first_of("<>"), std::string::npos) << between;
        static const std::regex stray("&(?!amp;|lt;|gt;|quot;)");
        EXPECT_FALSE(std::regex_search(between, stray)) << between;
        at = static_cast<std::size_t>(it->position() + it->length());
        if ((*it)[1].length()) {
            ASSERT_FALSE(open.empty());
            EXPECT_EQ(open.back(), (*it)[2].str());
            open.pop_back();
        } else if (!(*it)[4].length()) {
            open.push_back((*it)[2]);
        }
    }
    EXPECT_TRUE(open.empty());
    EXPECT_EQ(xml.substr(at), "\n");
}

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
        ++n;
    return n;
}

TEST_F(Train, ChartIsWellFormedSvg) {
    const fs::path path = folder / "curve.svg";
    const double nan = std::numeric_limits<double>::quiet_NaN(),
                 inf = std::numeric_limits<double>::infinity();
    train::Series a{"a < b & \"c\"", {{0, 1}, {1, 0.5}, {2, nan}, {3, 0.4}, {4, 0.3}}};
    train::Series b{"marks", {{0, 2}, {1, inf}, {4, 1}}, true};
    train::write_curves_svg(path, "Title & <more>",
                            {{"Loss", "epoch", "loss", {a, b}}, {"Accuracy", "x", "y", {}}});
    const std::string svg = content(path);
    expect_well_formed(svg);
    EXPECT_EQ(count(svg, "<polyline"), 2u);  // a, in two parts; b has no two neighbours
    EXPECT_EQ(count(svg, "<circle"), 2u);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_NE(svg.find("Title &amp; &lt;more&gt;"), std::string::npos);
    EXPECT_NE(svg.find(">Accuracy</text>"), std::string::npos);
}

TEST_F(Train, ChartCopesWithFewAndEqualPoints) {
    const fs::path path = folder / "curve.svg";
    train::write_curves_svg(path, "",
                            {{"one", "", "", {{"s", {{1, 5}}}}},
                             {"flat", "", "", {{"s", {{0, 0}, {1, 0}}}}},
                             {"tiny", "", "", {{"s", {{0, 1e-9}, {1, 1.1e-9}}}}},
                             {"huge", "", "", {{"s", {{0, -1e12}, {1, 1e12}}}}}});
    const std::string svg = content(path);
    expect_well_formed(svg);
    EXPECT_EQ(count(svg, "<polyline"), 3u);
    EXPECT_LT(count(svg, "<text"), 100u);  // ticks stay few
    EXPECT_THROW(train::write_curves_svg(folder / "missing" / "c.svg", "", {}), FileError);
}

}  // namespace
}  // namespace pippin
