// Parts of these tests in other circumstances: as on an Apple GPU, with submissions cut small,
// under Vulkan's validation layer. With PIPPIN_GPU_TESTS=all it is all of them, which takes long.
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "common/temp_folder.h"
#include "gpu/gpu_testing.h"
#include "gpu/self.h"

namespace pippin::gpu_test {
namespace {

class Environments : public GpuTest {
  protected:
    static std::string some(const std::string& filter) {
        const char* text = std::getenv("PIPPIN_GPU_TESTS");
        return text && std::string(text) == "all" ? "-Environments.*:*DISABLED*" : filter;
    }
};

TEST_F(Environments, AsOnAnAppleGpu) {
    EXPECT_TRUE(passes_again(some("Programs.*Opcodes:Programs.Casts:Heavy.Pooling:"
                                  "Failures.*-*DISABLED*"),
                             {{"PIPPIN_GPU_CAPABILITIES", "apple"}}));
}

TEST_F(Environments, UnknownDevicesToPlayAreNamed) {
    const Ended e = run_again("Training.TensorsMove", {{"PIPPIN_GPU_CAPABILITIES", "voodoo"}});
    EXPECT_NE(e.status, 0);
    EXPECT_NE(e.output.find("the only device to play is apple"), std::string::npos) << e.output;
}

TEST_F(Environments, SubmissionsInPieces) {
    EXPECT_TRUE(passes_again(some("Heavy.MatmulEpiloguesAndStrides:Ordered.*:Training.*Targets*:"
                                  "Failures.*-*DISABLED*"),
                             {{"PIPPIN_GPU_SUBMISSION_SECONDS", "1e-7"}}));
}

// Launches in the ways that were fastest: the same numbers as always, and found again next time.
TEST_F(Environments, Tuned) {
    const test::TempFolder folder;
    const auto learn = [&] {
        return run_again(
            "Training.LeNetLearnsAsOnTheProcessor:Training.*BesideOtherWork",
            {{"PIPPIN_GPU_TUNE", "log"}, {"PIPPIN_TEST_CACHE_DIR", folder.path().string()}});
    };
    const auto launches = [](const std::string& output) {
        std::set<std::string> all;
        std::istringstream in(output);
        for (std::string line; std::getline(in, line);)
            if (const std::size_t end = line.find(": default "); line.starts_with("tuning: "))
                if (end != std::string::npos) all.insert(line.substr(0, end));
        return all;
    };
    const Ended first = learn(), second = learn();
    for (const Ended& e : {first, second}) {
        EXPECT_NE(e.output.find("[  PASSED  ] 2 tests"), std::string::npos) << e.output;
        // What kernels compute is right in every way.
        EXPECT_EQ(e.output.find("is out"), std::string::npos) << e.output;
    }
    EXPECT_FALSE(launches(first.output).empty()) << first.output;
    EXPECT_TRUE(std::filesystem::exists(folder / "tuning.txt"));
    for (const std::string& known : launches(second.output))
        EXPECT_FALSE(launches(first.output).contains(known)) << known;
    EXPECT_NE(run_again("Training.TensorsMove", {{"PIPPIN_GPU_TUNE", "maybe"}})
                  .output.find("it must be 0, 1, log or full"),
              std::string::npos);
}

TEST_F(Environments, TheValidationLayerIsSilent) {
    const char* layer = "VK_LAYER_KHRONOS_validation";
    bool there = false;
    for (const char* folder : {"/usr/share/vulkan/explicit_layer.d", "/etc/vulkan/explicit_layer.d",
                               "/usr/local/share/vulkan/explicit_layer.d"})
        there = there ||
                std::filesystem::exists(std::string(folder) + "/VkLayer_khronos_validation.json");
    if (!there) GTEST_SKIP() << "there is no " << layer << " (Debian: vulkan-validationlayers)";
    const Ended e = run_again(
        some("Training.TensorsMove:Heavy.Pooling:Ordered.CumSum:Failures.*-*Memory*:*DISABLED*"),
        {{"VK_INSTANCE_LAYERS", layer}, {"PIPPIN_ALLOW_SOFTWARE_GPU", "1"}});
    EXPECT_EQ(e.status, 0) << e.output;
    for (const char* word : {"VUID", "Validation Error", "VALIDATION"})
        EXPECT_EQ(e.output.find(word), std::string::npos) << e.output;
}

// A layer that was not loaded would be silent, too.
TEST_F(Environments, TheValidationLayerSpeaks) {
    if (!std::filesystem::exists(
            "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json"))
        GTEST_SKIP() << "there is no validation layer (Debian: vulkan-validationlayers)";
    const Ended e = run_again("Failures.DISABLED_MisuseOfVulkan",
                              {{"VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation"}});
    EXPECT_NE(e.output.find("VUID"), std::string::npos) << e.output;
}

}  // namespace
}  // namespace pippin::gpu_test
