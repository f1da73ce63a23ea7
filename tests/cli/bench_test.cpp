// pippin bench, run as a program at the smallest size.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace pippin {
namespace {

const std::filesystem::path kPippin = std::filesystem::path(PIPPIN_BUILD_DIR) / "bin" / "pippin";

TEST(Bench, WritesATableAndOneObjectALine) {
    const test::ScratchFolder folder;
    const auto file = folder.path / "bench.jsonl";
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

TEST(Bench, SaysWhatIsWrong) {
    const test::Outcome unknown = test::shell(kPippin.string() + " bench --models resnet19");
    EXPECT_EQ(unknown.code, 1);
    EXPECT_TRUE(unknown.has("resnet19") && unknown.has("resnet18")) << unknown.output;
    const test::Outcome no_python = test::shell(
        kPippin.string() +
        " bench --models lenet5 --seconds 0.05 --rounds 1 --compare torch --python /no/python");
    EXPECT_NE(no_python.code, 0);
    EXPECT_TRUE(no_python.has("/no/python")) << no_python.output;
}

}  // namespace
}  // namespace pippin
