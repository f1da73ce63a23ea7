// Kernels of every model in Apple's Metal language, as MoltenVK makes it of SPIR-V: with
// SPIRV-Cross, which ends well even where it leaves words of GLSL untranslated. So many kernels
// that each form of a statement of any kernel is in one; with PIPPIN_GPU_TESTS=all, every kernel.
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "backends/gpu/work.h"
#include "common/temp_folder.h"
#include "gpu/gpu_testing.h"
#include "gpu/model_plans.h"
#ifdef PIPPIN_HAS_VULKAN
#include "backends/vulkan/compiler.h"
#endif

namespace pippin::gpu_test {
namespace {

#ifdef PIPPIN_HAS_VULKAN

// Kernels that differ in numbers alone are translated alike.
std::string without_numbers(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool digit = std::isdigit(static_cast<unsigned char>(text[i]));
        if (!digit)
            out += text[i];
        else if (out.empty() || out.back() != '#')
            out += '#';
    }
    return out;
}

// Words of GLSL that Metal has other names for.
constexpr const char* kForeign[] = {
    "uintBitsToFloat", "floatBitsToUint",  "roundEven",   "umulExtended",
    "atomicCompSwap",  "buffer_reference", "int64_t",     "uint64_t",
    "uint8_t",         "uint16_t",         "vec4",        "std430",
    "layout",          "spirv_",           "unsupported", "unknown",
    "undefined",
};

TEST(Metal, EveryKernelOfEveryModelIsTranslated) {
    if (std::system("spirv-cross --help >/dev/null 2>&1") != 0)
        GTEST_SKIP() << "there is no spirv-cross (Debian: spirv-cross)";
    const char* tests = std::getenv("PIPPIN_GPU_TESTS");
    const bool all = tests && std::string(tests) == "all";
    std::map<std::string, gpu::KernelSource> kernels;
    std::set<std::string> statements;
    for_each_step_plan([&](const std::string&, const plan::Plan& plan) {
        for (auto& k : gpu::make_work(plan, {}).kernels) {
            const std::string text = without_numbers(k.functions + k.body);
            std::istringstream lines(text);
            bool fresh = all;
            for (std::string line; std::getline(lines, line);)
                if (statements.insert(line).second) fresh = true;
            if (fresh) kernels.emplace(text, std::move(k));
        }
    });
    EXPECT_GT(kernels.size(), 40u);
    RecordProperty("kernels", static_cast<int>(kernels.size()));
    const test::TempFolder folder;
    std::string script;
    std::size_t n = 0;
    for (const auto& [text, k] : kernels) {
        const auto words = vulkan::compile_glsl(gpu::render_glsl(k, {}));
        const std::string file = (folder / std::to_string(n++)).string();
        std::ofstream(file + ".spv", std::ios::binary)
            .write(reinterpret_cast<const char*>(words.data()),
                   static_cast<std::streamsize>(words.size() * 4));
        script += "spirv-cross --msl --msl-version 20300 " + file + ".spv --output " + file +
                  ".metal || echo failed " + k.name + "\n";
    }
    std::ofstream(folder / "all.sh") << script;
    const std::string command = "sh " + (folder / "all.sh").string() + " 2>&1";
    std::FILE* pipe = popen(command.c_str(), "r");
    ASSERT_TRUE(pipe);
    std::string said;
    for (int c; (c = std::fgetc(pipe)) != EOF;)
        said += static_cast<char>(c);
    EXPECT_EQ(pclose(pipe), 0);
    EXPECT_EQ(said, "");
    n = 0;
    for (const auto& [text, k] : kernels) {
        std::ifstream in(folder / (std::to_string(n++) + ".metal"));
        std::stringstream source;
        source << in.rdbuf();
        const std::string metal = source.str();
        EXPECT_NE(metal.find("kernel void main0("), std::string::npos) << k.name;
        for (const char* word : kForeign)
            EXPECT_EQ(metal.find(word), std::string::npos) << k.name << ": " << word << " is in\n"
                                                           << metal;
        // What Metal has not: 64-bit floats.
        EXPECT_EQ(metal.find("double"), std::string::npos) << k.name;
        ASSERT_FALSE(HasFailure()) << "the others are not looked at";
    }
}

#endif

}  // namespace
}  // namespace pippin::gpu_test
