// pippin bench, run as a program at the smallest size.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace pippin {
namespace {

using test::kPippin;

TEST(Bench, WritesATableAndOneObjectALine) {
    const test::TempFolder folder;
    const auto file = folder / "bench.jsonl";
    const test::Outcome out = test::shell(
        kPippin.string() +
        " bench --models lenet5 --batch_size 4 --seconds 0.05 --rounds 1 --json " + file.string());
    ASSERT_EQ(out.code, 0) << out.output;
    EXPECT_TRUE(out.has("samples/s")) << out.output;
    std::ifstream in(file);
    std::string line;
    std::vector<std::string> modes;
    while (std::getline(in, line)) {
        const auto j = nlohmann::json::parse(line);
        EXPECT_EQ(j.at("model"), "lenet5");
        EXPECT_EQ(j.at("device"), "cpu");
        EXPECT_EQ(j.at("precision"), "fp32");
        EXPECT_EQ(j.at("batch"), 4);
        EXPECT_GT(j.at("samples_per_s").get<double>(), 10);
        EXPECT_GT(j.at("first_step_s").get<double>(), 0);
        EXPECT_GT(j.at("peak_bytes").get<double>(), 1e6);
        EXPECT_GT(j.at("launches").get<int>(), 3);
        modes.push_back(j.at("mode"));
    }
    EXPECT_EQ(modes, (std::vector<std::string>{"train", "eval"}));
}

std::string contents(const std::filesystem::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Bench, WritesAPageAndABarChart) {
    const test::TempFolder folder;
    const auto page = folder / "performance.md", chart = folder / "chart.svg";
    std::ofstream(page) << "old\n<!-- pippin bench keeps what follows -->\n## Written by hand\n";
    // The budget asks for 4 samples: LeNet-5 needs 2.5e6 operations for one.
    const test::Outcome out = test::shell(
        kPippin.string() + " bench --models lenet5 --budget 0.000012 --seconds 0.05 --rounds 1" +
        " --markdown " + page.string() + " --plot " + chart.string());
    ASSERT_EQ(out.code, 0) << out.output;
    EXPECT_TRUE(out.has("4*") && out.has("lenet5 4 instead of 64")) << out.output;
    const std::string text = contents(page), svg = contents(chart);
    EXPECT_NE(text.find("| lenet5 | train | 4\\* |"), std::string::npos) << text;
    EXPECT_NE(text.find("| lenet5 | eval | 4\\* |"), std::string::npos) << text;
    EXPECT_NE(text.find("pippin bench --models lenet5"), std::string::npos) << text;
    EXPECT_NE(text.find("(chart.svg)"), std::string::npos) << text;
    EXPECT_NE(text.find("## Written by hand"), std::string::npos) << text;
    EXPECT_EQ(text.find("old"), std::string::npos) << text;
    EXPECT_EQ(text.find(folder.path().string()), std::string::npos) << text;
    EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
    EXPECT_NE(svg.find("lenet5"), std::string::npos) << svg;
    std::size_t bars = 0;
    for (std::size_t at = 0; (at = svg.find("<rect x=", at)) != std::string::npos; ++at)
        ++bars;
    EXPECT_EQ(bars, 2u);
    const test::Outcome nowhere = test::shell(
        kPippin.string() + " bench --models lenet5 --batch_size 1 --modes eval --seconds 0.01" +
        " --rounds 1 --plot /no/folder/chart.svg");
    EXPECT_NE(nowhere.code, 0);
    EXPECT_TRUE(nowhere.has("/no/folder/chart.svg")) << nowhere.output;
}

TEST(Bench, ProfilesAStepAgainstTheMachinesLimits) {
    const test::TempFolder folder;
    const auto file = folder / "profile.jsonl";
    const test::Outcome out =
        test::shell(kPippin.string() + " bench --profile --models lenet5 --batch_size 8 " +
                    "--seconds 0.05 --top 3 --modes train --json " + file.string());
    ASSERT_EQ(out.code, 0) << out.output;
    for (const char* part : {"limits, measured now", "GFLOP/s", "conv", "matmul", "reduce columns",
                             "between launches", "largest gaps"})
        EXPECT_TRUE(out.has(part)) << part << "\n" << out.output;
    const auto j = nlohmann::json::parse(contents(file));
    EXPECT_EQ(j.at("model"), "lenet5");
    EXPECT_EQ(j.at("mode"), "train");
    EXPECT_EQ(j.at("batch"), 8);
    EXPECT_GE(j.at("steps").get<int>(), 3);
    EXPECT_GT(j.at("limits").at("copy_gb_per_s").get<double>(), 0.1);
    EXPECT_GT(j.at("limits").at("matrix_gflop_per_s").get<double>(), 0.1);
    const double step = j.at("step_ms"), launches = j.at("launch_ms"), limit = j.at("limit_ms");
    EXPECT_LE(launches, step);
    EXPECT_LE(limit, launches * (1 + 1e-9));
    EXPECT_GT(limit, 0);
    EXPECT_NEAR(j.at("of_limit").get<double>(), limit / step, 1e-9);
    double sum = 0;
    for (const auto& k : j.at("kinds"))
        sum += k.at("ms").get<double>();
    EXPECT_NEAR(sum, launches, 1e-6 * step);
    EXPECT_EQ(j.at("top").size(), 3u);
    double before = 1e300;
    for (const auto& p : j.at("top")) {
        EXPECT_LE(p.at("ms").get<double>(), before);
        before = p.at("ms");
        EXPECT_FALSE(p.at("shapes").get<std::string>().empty());
    }
    before = 1e300;
    EXPECT_EQ(j.at("gaps").size(), 5u);
    for (const auto& p : j.at("gaps")) {
        const double lost = p.at("lost_ms");
        EXPECT_GE(lost, 0);
        EXPECT_LE(lost, before);
        EXPECT_NEAR(lost, p.at("ms").get<double>() - p.at("limit_ms").get<double>(), 1e-9);
        before = lost;
    }
    const test::Outcome both =
        test::shell(kPippin.string() + " bench --profile --compare torch --models lenet5");
    EXPECT_NE(both.code, 0);
    EXPECT_TRUE(both.has("--compare")) << both.output;
}

TEST(Bench, RunsNetworksOfTokens) {
    const test::Outcome out = test::shell(
        kPippin.string() + " bench --models minilm --batch_size 1 --modes eval --seconds 0.01" +
        " --rounds 1");
    ASSERT_EQ(out.code, 0) << out.output;
    EXPECT_TRUE(out.has("minilm")) << out.output;
}

TEST(Bench, ModelsMayHaveBatchSizesOfTheirOwn) {
    const test::TempFolder folder;
    const auto page = folder / "page.md";
    const test::Outcome out = test::shell(
        kPippin.string() + " bench --models lenet5:3,lenet5 --batch_size 2 --modes eval" +
        " --seconds 0.01 --rounds 1 --markdown " + page.string());
    ASSERT_EQ(out.code, 0) << out.output;
    const std::string text = contents(page);
    for (const char* part : {"| lenet5 | eval | 3 |", "| lenet5 | eval | 2 |",
                             "--models lenet5:3,lenet5 --batch_size 2"})
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    EXPECT_EQ(text.find("smaller than"), std::string::npos) << text;
    const test::Outcome profile = test::shell(
        kPippin.string() + " bench --profile --models lenet5:3 --modes eval --seconds 0.01" +
        " --json " + (folder / "profile.jsonl").string());
    ASSERT_EQ(profile.code, 0) << profile.output;
    EXPECT_EQ(nlohmann::json::parse(contents(folder / "profile.jsonl")).at("batch"), 3);
    for (const char* wrong : {"lenet5:", "lenet5:0", "lenet5:-4", "lenet5:4x", "lenet5:1:2",
                              "lenet5:99999999999999999999"}) {
        const test::Outcome bad =
            test::shell(kPippin.string() + " bench --models " + std::string(wrong));
        EXPECT_EQ(bad.code, 2) << wrong;
        EXPECT_TRUE(bad.has(wrong) && bad.has("lenet5:16")) << bad.output;
    }
}

TEST(Bench, SaysWhatIsWrong) {
    const test::Outcome unknown = test::shell(kPippin.string() + " bench --models resnet19");
    EXPECT_EQ(unknown.code, 2);
    EXPECT_TRUE(unknown.has("resnet19") && unknown.has("resnet18")) << unknown.output;
    const test::Outcome no_python = test::shell(
        kPippin.string() +
        " bench --models lenet5 --seconds 0.05 --rounds 1 --compare torch --python /no/python");
    EXPECT_NE(no_python.code, 0);
    EXPECT_TRUE(no_python.has("/no/python")) << no_python.output;
}

}  // namespace
}  // namespace pippin
